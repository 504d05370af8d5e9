"""What the runtime runs: a document, its nodes and what they need. The runtime does not know what an agent is.

An agent is one kind of program; a graph of somebody's own is another.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from causeline.errors import Invalid, check_argument
from causeline.graph import Combine, Document, Limits, Node, Reducer, as_reducer
from causeline.graph.checks.document_checks import check_documents, check_nodes
from causeline.models.messages import Message
from causeline.run.scope import RunScope
from causeline.shapes import FILLED, maybe
from causeline.shapes import test as shape

MESSAGES = "messages"
OUTPUT = "output"


class Program(Protocol):
    """Something a run can execute.

    `fresh` says that a fork starts at the entrypoint with the branch's history, instead of at the
    checkpoint's position.
    """

    @property
    def name(self) -> str: ...

    @property
    def document(self) -> Document: ...

    @property
    def documents(self) -> Sequence[Document]:
        """Further documents that `document` may embed."""
        ...

    @property
    def nodes(self) -> Sequence[Node]: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def fresh(self) -> bool: ...

    def manifest(self) -> Mapping[str, Any] | None:
        """The resolved definition as plain JSON, from which another process can build it again; None if it cannot."""
        ...

    async def open(self) -> None:
        """Called before a run is loaded: open what its nodes need from outside, unless it is open. What this raises ends the run."""
        ...

    async def close(self) -> None:
        """Called once for each `open`, when its run is over here: close what no other run needs."""
        ...

    def programs(self) -> "Mapping[str, Program]":
        """The programs that its calls run as runs of their own, by the name of the tool."""
        ...

    def services(self, scope: RunScope) -> Mapping[type, object]:
        """What this program's nodes get from `ctx.use`, made anew for each run."""
        ...

    def check_answer(self, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
        """Raises Invalid if a decision on a call of the tool `name` with these arguments cannot be carried out, such as edited
        arguments that do not fit, or an approval of a tool that is gone."""
        ...


IS_PROGRAM = shape("a causeline.Agent or a causeline.GraphProgram", lambda value: hasattr(value, "document") and hasattr(value, "services"))


class GraphProgram:
    """A graph document of one's own as a program, so that `runtime.start` runs it durably.

    A run begins with the caller's text in the channel `input_key`, and with the caller's messages (`{role, content}`) at the end of the
    channel `messages` where a node or a reducer names that channel, and of that in which an agent node keeps its history; nodes find them
    in `ctx.use(RunScope).input` too. Channels keep their
    values from one run of a session to the next. Nodes may append to the causal log through the channel `log`, and may pause; a
    paused node is entered again with the answer's value, or with the decision `{"decision": "deny", "reason"}`.

    The run's answer is what a node writes to the channel `result` as `{"answer": ...}`, else the channel `output`; `result.state` are all
    channels. `reducers` is channel -> `override | append | keep | merge`, a function `(old, write) -> new`, or a Reducer. `services` are
    further things its nodes get from `ctx.use`. A fork starts where its checkpoint stands. Raises Invalid for an unknown reducer.
    """

    fresh = False

    def __init__(
        self,
        document: Document,
        nodes: Iterable[Node],
        *,
        name: str | None = None,
        documents: Iterable[Document] = (),
        reducers: Mapping[str, "str | Combine | Reducer"] | None = None,
        services: Mapping[type, object] | None = None,
        limits: Limits | None = None,
        input_key: str = "input",
    ) -> None:
        check_documents("document", [document])
        self.documents: Sequence[Document] = tuple(documents)
        self.nodes: Sequence[Node] = tuple(nodes)
        check_documents("documents", self.documents)
        check_nodes(self.nodes)
        check_argument("name", maybe(FILLED)(name))
        check_argument("input_key", FILLED(input_key))
        self.name = name or document.name
        self.document = document
        self.reducers = {channel: as_reducer(channel, given) for channel, given in (reducers or {}).items()}
        self.limits = limits or Limits()
        self.input_key = input_key
        self._services = dict(services or {})
        named = MESSAGES in self.reducers or any(MESSAGES in node.writes or MESSAGES in node.reducers for node in self.nodes)
        owners: list[Any] = [getattr(node.fn, "__self__", None) for node in self.nodes]
        pairs = [owner.hears for owner in owners if hasattr(owner, "hears")]
        self._hears = {*([MESSAGES] if named else []), *(messages for text, messages in pairs if text == input_key)} - {input_key}

    def inputs(self, said: Sequence[Message], channels: Mapping[str, Any]) -> Mapping[str, Any]:
        """The channels that a run begins with beside those that are there; none where the caller said nothing."""
        spoken = [message for message in said if message.role == "user"]
        if not spoken:
            return {}
        begun: dict[str, Any] = {self.input_key: spoken[-1].text}
        for channel in self._hears:
            told = [{"role": message.role, "content": _content(message)} for message in spoken]
            begun[channel] = [*(channels.get(channel) or ()), *told]
        if channels.get(OUTPUT) is not None and OUTPUT not in self.reducers:
            begun[OUTPUT] = None  # an earlier run's answer is not this one's
        return begun

    def manifest(self) -> None:
        """Code cannot be stored: another process needs this program given to `open`."""

    async def open(self) -> None:
        """Open what the nodes hold open during a run, such as toolsets."""
        for owner in self._owners("open"):
            await owner.open()

    async def close(self) -> None:
        """A run has ended."""
        for owner in self._owners("close"):
            await owner.close()

    async def aclose(self) -> None:
        """Give back what the nodes hold open beyond a run, such as models."""
        for owner in self._owners("aclose"):
            await owner.aclose()

    def programs(self) -> Mapping[str, Program]:
        """What the tools of its nodes run as runs of their own, by the name of the tool."""
        return {name: program for owner in self._owners("programs") for name, program in owner.programs().items()}

    def services(self, scope: RunScope) -> Mapping[type, object]:
        """Raises Invalid for tools of the client, which only an agent can offer."""
        if scope.client_tools:
            raise Invalid(f"{self.name} is a graph: it takes no tools of the client; give its nodes what they need")
        return self._services

    def check_answer(self, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
        """Raises Invalid where every node that runs tools refuses the decision; what a node asks itself, it checks itself."""
        owners, refusals = self._owners("check_answer"), list[Invalid]()
        for owner in owners:
            try:
                owner.check_answer(name, arguments, decision)
            except Invalid as error:
                refusals.append(error)
        if owners and len(refusals) == len(owners):
            raise refusals[0]

    def _owners(self, verb: str) -> list[Any]:
        """What the nodes are made of, where that can do something: the objects their functions belong to."""
        owners = {id(owner): owner for node in self.nodes if (owner := getattr(node.fn, "__self__", None)) is not None}
        return [owner for owner in owners.values() if callable(getattr(owner, verb, None))]


def _content(message: Message) -> Any:
    return message.content if isinstance(message.content, str) else list(message.content)

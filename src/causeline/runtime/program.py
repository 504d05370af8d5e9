"""What the runtime runs: a document, its nodes and what they need. The runtime does not know what an agent is.

An agent is one kind of program; a graph of somebody's own is another.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from causeline.graph import Document, Limits, Node
from causeline.run.scope import RunScope


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


class GraphProgram:
    """A graph document of one's own as a program, so that `runtime.start` runs it durably.

    Its nodes find the caller's messages in `ctx.use(RunScope).input`, may append to the causal log through the channel `log`, and
    may pause; a paused node is entered again with the answer's value, or with the decision `{"decision": "deny", "reason"}`.
    What a node writes to the channel `result` as `{"answer": ...}` is the run's answer. `services` are further things its nodes get from
    `ctx.use`. A fork starts where its checkpoint stands.
    """

    fresh = False

    def __init__(
        self,
        document: Document,
        nodes: Iterable[Node],
        *,
        name: str | None = None,
        documents: Iterable[Document] = (),
        limits: Limits | None = None,
        services: Mapping[type, object] | None = None,
    ) -> None:
        self.name = name or document.name
        self.document = document
        self.documents: Sequence[Document] = tuple(documents)
        self.nodes: Sequence[Node] = tuple(nodes)
        self.limits = limits or Limits()
        self._services = dict(services or {})

    def manifest(self) -> None:
        """Code cannot be stored: another process needs this program given to `open`."""

    async def open(self) -> None:
        """Nothing to do: what the nodes need they open themselves."""

    async def close(self) -> None:
        """Nothing to do."""

    def programs(self) -> Mapping[str, Program]:
        """None that are known beforehand."""
        return {}

    def services(self, scope: RunScope) -> Mapping[type, object]:
        return self._services

    def check_answer(self, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
        """Every answer to a call is fine here; what a node asks itself, it checks itself."""

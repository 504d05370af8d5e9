"""Nodes: code under an IRI, what it is handed (`Context`) and what it answers (`Outcome`).

Law: a node sees the state read-only, and everything it wants to change it says in its outcome.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar, cast

from causeline.errors import Misuse

T = TypeVar("T")
PARKED = "parked"
"""The port of a node that waits for an answer. It needs no route."""
_NO_SERVICES: Mapping[type, object] = MappingProxyType({})
_NO_REDUCERS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The port a node leaves by and what it writes: channel -> value, combined by the channel's reducer.
    `question` is plain JSON for a person, only with the port `parked`."""

    port: str
    writes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    question: Any = None

    @classmethod
    def pause(cls, question: Any, writes: Mapping[str, Any] | None = None) -> "Outcome":
        """Stop here until somebody answers; the node is then entered again with `ctx.answer`."""
        return cls(PARKED, {} if writes is None else writes, question)


def _nobody_listens(_event: Any) -> None:
    return None


class HandBack(Misuse):
    """Raised by a node that leaves its work to whoever goes on with the execution later, because nothing new begins any more
    (`ctx.draining`). The visit does not count, and is made again. Raised at any other time it is a failure of the node."""

    code = "handed_back"

    def __init__(self, message: str = "this work is left to whoever goes on with the execution") -> None:
        super().__init__(message)


class Gate:
    """Whether anything new may begin. `shut` from the moment an execution is told to drain. This one stays open."""

    __slots__ = ("shut",)

    def __init__(self) -> None:
        self.shut = False

    def giving_way(self, waits: Callable[[], bool]) -> AbstractContextManager[None]:
        """What is awaited inside, while `waits` says so, is only a wait for something new to begin: it ends when the gate is shut, and
        HandBack is raised."""
        del waits
        return nullcontext()


_OPEN = Gate()


class Context:
    """What a node is handed for one visit.

    `state` is a read-only view. `item` and `index` are set inside a scatter body. `answer` is None unless the visit
    was paused and has been answered. `path` leads from the top-level placement down to this one (names and item
    indexes). `step` counts top-level visits from 0: it is the same when the visit is made again after a crash. `attempt` counts from 1.
    `deadline` is in seconds on the execution's monotonic clock. `deps` is the caller's own object (`execute(deps=...)`), never stored.
    `concurrent` is True where other branches of this document may be under way.
    `emit(event)` hands plain JSON to whoever follows this execution, if anybody does; it may be called from a thread.
    """

    __slots__ = (
        "_gate",
        "_reducers",
        "_services",
        "answer",
        "attempt",
        "concurrent",
        "deadline",
        "deps",
        "emit",
        "index",
        "item",
        "path",
        "placement",
        "state",
        "step",
    )

    def __init__(
        self,
        state: Mapping[str, Any],
        *,
        placement: str,
        path: tuple[str | int, ...] = (),
        step: int = 0,
        attempt: int = 1,
        item: Any = None,
        index: int | None = None,
        answer: Any = None,
        deadline: float | None = None,
        emit: Callable[[Any], None] = _nobody_listens,
        services: Mapping[type, object] = _NO_SERVICES,
        deps: Any = None,
        reducers: Mapping[str, Any] = _NO_REDUCERS,
        gate: Gate = _OPEN,
        concurrent: bool = False,
    ) -> None:
        self.state = state
        self.placement = placement
        self.path = path
        self.step = step
        self.attempt = attempt
        self.item = item
        self.index = index
        self.answer = answer
        self.deadline = deadline
        self.emit = emit
        self._services = services
        self.deps = deps
        self._reducers = reducers
        self._gate = gate
        self.concurrent = concurrent

    @property
    def draining(self) -> bool:
        """True when the execution is about to be handed back: what has begun may finish, and nothing new should begin. A node with much
        left to do may raise HandBack then."""
        return self._gate.shut

    def giving_way(self, waits: Callable[[], bool]) -> AbstractContextManager[None]:
        """See `Gate.giving_way`."""
        return self._gate.giving_way(waits)

    def reducer(self, channel: str) -> str:
        """The name of the rule by which writes of a channel combine here, such as `append`."""
        found = self._reducers.get(channel)
        return "override" if found is None else str(found.name)

    def find(self, kind: type[T]) -> T | None:
        """The service given as `execute(services={kind: object})`, None if there is none."""
        service: Any = self._services.get(kind)
        return service

    def use(self, kind: type[T]) -> T:
        """The service given as `execute(services={kind: object})`. Raises Misuse if there is none."""
        found: Any = self._services.get(kind)
        if found is None:
            known = ", ".join(sorted(one.__name__ for one in self._services)) or "none"
            raise Misuse(
                f"placement {self.placement} needs the service {kind.__name__}; given: {known}. "
                f"Pass services={{{kind.__name__}: ...}} to execute.",
                code="service_missing",
                service=kind.__name__,
            )
        return found


NodeFunction = Callable[[Context], "Outcome | str | Awaitable[Outcome | str]"]


@dataclass(frozen=True, slots=True)
class Node:
    """A function under an IRI. `ports` are all the ports it may leave by (`parked` need not be named).

    `timeout` is in seconds; `input_schema` is a JSON Schema of what it reads, `output_schema` has one per port of the channels after the
    visit; `roles` say what the node does for
    readers of a trace (such as `thought`, `action`, `observation`, `final`); `writes` names the channels it may write,
    which lets `check` warn of branches that overwrite each other; `reducers` says how channels combine that it writes, where the
    registration does not say otherwise. A function that is not async runs in a thread, so that it may block; with `inline` it runs where
    the execution runs, which is quicker and holds up everything else while it works.
    """

    iri: str
    ports: tuple[str, ...]
    fn: NodeFunction = field(repr=False)
    is_async: bool
    timeout: float | None = None
    input_schema: Mapping[str, Any] | None = None
    roles: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reducers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    output_schema: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]], hash=False)
    inline: bool = False

    @property
    def threaded(self) -> bool:
        """True if the function runs in a thread."""
        return not self.is_async and not self.inline

    def __call__(self, ctx: Context) -> "Outcome | str | Awaitable[Outcome | str]":
        return self.fn(ctx)


def node(
    iri: str,
    ports: tuple[str, ...],
    *,
    input_schema: Mapping[str, Any] | None = None,
    output_schema: Mapping[str, Mapping[str, Any]] | None = None,
    timeout: float | None = None,
    roles: tuple[str, ...] = (),
    writes: tuple[str, ...] = (),
    reducers: Mapping[str, str] | None = None,
    inline: bool = False,
) -> Callable[[NodeFunction], Node]:
    """Make a function `def f(ctx) -> Outcome` (sync or async; a plain str means `Outcome(str)`) a Node under `iri`. A sync function runs in
    a thread unless `inline`. The Node can still be called like the function. Raises Misuse for an IRI or ports that could never be
    registered."""
    if not isinstance(cast("object", iri), str) or not is_absolute(iri):
        raise Misuse(f"node IRI {iri!r} is not absolute; write something like urn:example:node:name", code="node_iri")
    if (
        not isinstance(cast("object", ports), list | tuple)
        or not ports
        or not all(isinstance(cast("object", port), str) and port for port in ports)
    ):
        raise Misuse(f"node {iri}: ports must be a non-empty tuple of names, not {ports!r}", code="node_ports")
    if len(set(ports)) != len(ports):
        raise Misuse(f"node {iri}: a port is named twice in {ports!r}", code="node_ports")
    strays = [port for port in output_schema or {} if port not in ports]
    if strays:
        raise Misuse(f"node {iri}: output_schema names the port {strays[0]!r}, which is not among {ports!r}", code="node_ports")
    if timeout is not None and timeout <= 0:
        raise Misuse(f"node {iri}: timeout must be more than 0 seconds, not {timeout!r}", code="node_timeout")

    def wrap(fn: NodeFunction) -> Node:
        if not callable(cast("object", fn)):
            raise Misuse(f"node {iri}: expected a function of a Context, not {fn!r:.80}", code="node_function")
        target = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004  (an object with an async __call__)
        return Node(
            iri,
            tuple(ports),
            fn,
            inspect.iscoroutinefunction(target),
            timeout,
            input_schema,
            tuple(roles),
            tuple(writes),
            dict(reducers or {}),
            dict(output_schema or {}),
            inline,
        )

    return wrap


def is_absolute(iri: str) -> bool:
    """True for `scheme:rest` as a registry key must have it: `urn:...` or something with `://`."""
    return iri.startswith("urn:") or "://" in iri

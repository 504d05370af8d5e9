"""What an execution tells: finished steps, progress inside a step, events of nodes, and the result.

Law: records only. A `Step` or `Progress` handed to a Journal is not yet counted; it counts when the journal returned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from causeline.errors import Exhausted
from causeline.graph.engine.position import Pause

Status = Literal["completed", "failed", "interrupted", "cancelled", "timed_out", "stalled"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one execution. `visits` counts visits of one document including its embedded documents (each scatter item
    counts for itself), `depth` nested documents, `width` items of a scatter over a finite source (async sources have no
    bound); `wall` is in seconds.

    Exceeding the first three fails the execution with `limit_visits`, `limit_depth`, `limit_width`; `wall` ends it as `timed_out`.
    """

    visits: int = 100_000
    depth: int = 32
    width: int = 100_000
    wall: float | None = None


class LimitReached(Exhausted):
    """A bound of Limits was reached; no `error` route catches this."""

    def __init__(self, limit: str, bound: float, place: str) -> None:
        super().__init__(
            f"{place}: more than {bound} {limit}; find what repeats, or raise Limits({limit}=...)", limit=limit, code=f"limit_{limit}"
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an execution, a child document or an item failed. `code` is the error's code, or its class name; `placement` the name of
    the placement it comes from, `path` the way there. `cause` is the exception where there was one."""

    code: str
    message: str
    placement: str
    path: Path = ()
    cause: BaseException | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self.message

    def to_plain(self) -> dict[str, Any]:
        """What is written to the channel `error` when the failure leaves by an `error` route."""
        return {"code": self.code, "message": self.message, "placement": self.placement}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A finished visit of a top-level placement (phases included, terminals not).

    `placement` is its IRI and `node` its name; `next` is the name of the placement its branch goes to, None after a
    terminal. `writes` is what the visit wrote, `delta` its stored form (`{channel: {op, value}}`), `position` where the
    execution is after it, `attempt` how many tries the visit took. A paused visit has the port `parked`, itself as `next`, and
    its open questions as `pauses`.
    """

    index: int
    placement: str
    node: str
    port: str
    next: str | None
    writes: Mapping[str, Any]
    delta: Mapping[str, Mapping[str, Any]]
    position: Mapping[str, Any]
    attempt: int = 1
    pauses: tuple[Pause, ...] = ()

    @property
    def path(self) -> Path:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class Progress:
    """A scatter item (`path` ends in its index) or a placement of an embedded document (`path` ends in its name) that finished inside
    step `step`. `index` is the item index, or the number of the visit in its document. `writes` is plain JSON and holds
    what resuming needs; hand it back unread."""

    step: int
    path: Path
    index: int
    port: str
    writes: Mapping[str, Any]

    @property
    def node(self) -> str:
        """Name of the innermost placement."""
        return next(part for part in reversed(self.path) if isinstance(part, str))

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"step": self.step, "path": list(self.path), "index": self.index, "port": self.port, "writes": dict(self.writes)}

    @classmethod
    def from_plain(cls, found: Mapping[str, Any]) -> "Progress":
        """Read `to_plain` back."""
        return cls(found["step"], tuple(found["path"]), found["index"], found["port"], found["writes"])


@dataclass(frozen=True, slots=True)
class Emitted:
    """What a node handed to `ctx.emit` while it ran in step `step`."""

    step: int
    path: Path
    data: Mapping[str, Any]

    @property
    def node(self) -> str:
        """Name of the innermost placement."""
        return next(part for part in reversed(self.path) if isinstance(part, str))


Event = Step | Progress | Emitted


class Journal(Protocol):
    """Where an execution is made durable. Each call is awaited before anything that depends on it runs; calls of `step` never overlap.
    If one raises, the execution stops, awaiting it raises that error, and its position does not count what was being written.

    A journal may also have `on_emit(event: Emitted) -> None`, called at once for what nodes emit, and
    `on_start(index: int, node: str) -> None`, called before each top-level visit.
    """

    async def step(self, step: Step) -> None: ...

    async def progress(self, item: Progress) -> None: ...


@dataclass(frozen=True, slots=True)
class Result:
    """How an execution ended. `state` holds the channel values, `pauses` the open questions if it was interrupted, `error` the
    failure if it failed, `warnings` what went wrong without changing the outcome (a post phase, an observer)."""

    status: Status
    state: Mapping[str, Any]
    error: Failure | None
    pauses: tuple[Pause, ...]
    warnings: tuple[Failure, ...]
    _saved: Callable[[], dict[str, Any]] = field(repr=False, compare=False)

    def saved(self) -> dict[str, Any]:
        """Plain JSON {position, channels, document} to resume from. Raises NotPlain if a channel holds something else."""
        return self._saved()

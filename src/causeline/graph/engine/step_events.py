"""What an execution tells: finished steps, progress inside a step, events of nodes, and the result.

Law: records only. A `Step` or `Progress` handed to a Journal is not yet counted; it counts when the journal returned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from causeline.errors import Exhausted, Invalid
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

    def __post_init__(self) -> None:
        for name in ("visits", "depth", "width"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise Invalid(f"{name}: expected a whole number from 0, got {getattr(self, name)!r:.80}")
        if self.wall is not None and type(self.wall) not in (int, float):
            raise Invalid(f"wall: expected seconds, got {self.wall!r:.80}")


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
    execution is after it, `attempts` the tries before the one that counts (`{n, code, wait}`, wait in seconds). A paused visit has the
    port `parked`, itself as `next`, and its open questions as `pauses`. `roles` are those of its node, or the placement's own.
    `state` is a read-only view of the channels, valid until the next event; while a journal is handed the step, the step is not in it yet.
    `results` are what channels with a reducer of the caller's own come to, for a journal that is to be read without that reducer.

    In a document with one entrypoint `position` is whole. With several it is whole in the first step of an execution, and holds
    what changed (`change`, `rows`) in the steps after it, so that a step costs only what it did; `Dispatcher.resume` takes a whole
    position with the steps after it as `steps`.
    """

    index: int
    placement: str
    node: str
    port: str
    next: str | None
    writes: Mapping[str, Any]
    delta: Mapping[str, Mapping[str, Any]]
    position: Mapping[str, Any]
    attempts: tuple[Mapping[str, Any], ...] = ()
    pauses: tuple[Pause, ...] = ()
    roles: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)
    results: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, compare=False)

    @property
    def attempt(self) -> int:
        """How many tries the visit took."""
        return len(self.attempts) + 1

    @property
    def path(self) -> Path:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class Tally:
    """How far a scatter is: items done, failed and tried again; `total` where the source has a length."""

    done: int
    failed: int
    retried: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A scatter item (`path` ends in its index) or a placement of an embedded document (`path` ends in its name) that finished while
    step `step` was under way. `index` is the item index, or the number of the visit in its document. `writes` is plain JSON and holds
    what resuming needs; hand it back unread. Names in `path` are followed by `@entrypoint` where the same placement can be reached from
    several entrypoints.

    `number` counts the rows of one execution, also over a resume that is given the rows before; with `path` it is unique within a step.
    `tally` is how far the scatter of an item is with it; it is not stored. A row by the port `begun` says what unfinished work began with.
    """

    step: int
    path: Path
    index: int
    port: str
    writes: Mapping[str, Any]
    number: int = 0
    tally: Tally | None = field(default=None, compare=False)

    @property
    def node(self) -> str:
        """Name of the innermost placement."""
        return next(part for part in reversed(self.path) if isinstance(part, str))

    def inside(self, parts: int) -> "Progress":
        """The same row as seen from a document further in."""
        return Progress(self.step, self.path[parts:], self.index, self.port, self.writes, self.number)

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON."""
        found = {"step": self.step, "path": list(self.path), "index": self.index, "port": self.port, "writes": dict(self.writes)}
        return {**found, "number": self.number} if self.number else found

    @classmethod
    def from_plain(cls, found: Mapping[str, Any]) -> "Progress":
        """Read `to_plain` back."""
        return cls(found["step"], tuple(found["path"]), found["index"], found["port"], found["writes"], found.get("number", 0))


@dataclass(slots=True)
class Emitted:
    """What a node handed to `ctx.emit` while it ran in step `step`."""

    step: int
    path: Path
    data: Any

    @property
    def node(self) -> str:
        """Name of the innermost placement."""
        return next(part for part in reversed(self.path) if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class Retry:
    """Try number `attempt` of a node, or of a scatter item's document, failed with `code`; the next follows after `wait` seconds."""

    step: int
    path: Path
    attempt: int
    code: str
    wait: float


Event = Step | Progress | Emitted


class Journal(Protocol):
    """Where an execution is made durable. Each call is awaited before anything that depends on it runs; calls of `step` never overlap.
    If one raises, the execution stops, awaiting it raises that error, and its position does not count what was being written.

    A journal may also have `on_emit(event: Emitted) -> None`, called at once for what nodes emit, `on_retry(retry: Retry) -> None`,
    called before a wait for another try, and `on_start(index: int, node: str) -> None`, called before each top-level visit.
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

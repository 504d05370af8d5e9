"""Where an execution is: plain data, nested for embedded documents and scatter items.

Law: data only; `walk` and `apply` change it, `position_json` writes and reads it. Placements are numbers of their plan and entrypoints
are bits of a `lineage`; whatever leaves this process uses names and labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from causeline.graph.engine.channels import Channels
from causeline.graph.engine.plan import Plan
from causeline.graph.engine.races import Races
from causeline.graph.engine.state_paths import MISSING

UNCOUNTED = -1
"""The source number of an arrival from a placement the gather does not name as a source; such a branch ends there and the walk stalls."""


@dataclass(slots=True)
class Child:
    """A running or parked document: the top-level one, that of an embedded placement, or that of one scatter item."""

    plan: Plan
    position: "Position"
    channels: Channels


@dataclass(slots=True)
class ParkedItem:
    """The question of a scatter's body node, and what that wrote when it asked."""

    question: Any
    writes: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True)
class ScatterState:
    """An unfinished scatter.

    `source` and `seeds` are what it began with, where other branches could change that meanwhile (MISSING and None otherwise).
    `done` are the finished item indexes as sorted, disjoint [from, to) ranges, so its size follows the number of items in
    flight. `kept` is what finished items left for the gather, in source order as far as the items are finished from the start on
    (a fold or a list of records for each gather, see `scatter`), `ahead` the records of later ones. `first` is the index and
    port of the first item, `failure` the index and failure of the first that failed, `retried` counts items that were tried again.
    `parked` are questions of node bodies, `children` documents of items in flight, `pending` journalled rows (plain) for documents
    not opened again yet. `total` is the number of items (or batches) once the source has ended.
    """

    source: Any = MISSING
    seeds: dict[str, Any] | None = None
    done: list[list[int]] = field(default_factory=list[list[int]])
    tally: dict[str, int] = field(default_factory=dict[str, int])
    first: list[Any] | None = None
    kept: list[Any] | None = None
    ahead: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    parked: dict[int, ParkedItem] = field(default_factory=dict[int, ParkedItem])
    children: dict[int, Child] = field(default_factory=dict[int, Child])
    pending: dict[int, list[dict[str, Any]]] = field(default_factory=dict[int, list[dict[str, Any]]])
    failure: list[Any] | None = None
    retried: int = 0
    total: int | None = None

    def is_done(self, index: int) -> bool:
        """True if item `index` has finished."""
        return any(low <= index < high for low, high in self.done)

    @property
    def watermark(self) -> int:
        """Every item below it has finished."""
        return self.done[0][1] if self.done and self.done[0][0] == 0 else 0


@dataclass(slots=True, eq=False)
class Branch:
    """One line of control. `lineage` has a bit for each entrypoint that went into it; two branches never share one.

    `since` is how many steps the document had made when the branch came here. `inner` is unfinished work at the placement; `arrived`
    what a gather that fired has to fold, one entry per source; `waits` is True while a node here waits for an answer to `question`.
    Never stored: `resumed`, True while journalled rows were taken in here that no step has made count yet, `rows`, what finished
    inside since the last step was told, and `counted`, how many that were in this visit.
    """

    at: int
    lineage: int
    since: int = 0
    inner: Child | ScatterState | None = None
    arrived: list[Any] | None = None
    waits: bool = False
    question: Any = None
    resumed: bool = False
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    counted: int = 0


@dataclass(slots=True)
class Barrier:
    """A gather that has not fired: per source, the arrivals in order as (lineage, arrival). `fired` is the lineage of its last firing."""

    waiting: dict[int, list[tuple[int, Any]]] = field(default_factory=dict[int, list[tuple[int, Any]]])
    fired: int = 0


@dataclass(slots=True)
class Position:
    """`visits` finished visits, `reached` terminals, `pre` and `post` finished phases, `races` see there."""

    visits: int = 0
    branches: list[Branch] = field(default_factory=list[Branch])
    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])
    reached: list[int] = field(default_factory=list[int])
    races: Races = field(default_factory=dict[str, Any])
    pre: int = 0
    post: int = 0

    @property
    def steps(self) -> int:
        """Finished visits and phases."""
        return self.visits + self.pre + self.post

    def fork(self) -> "Position":
        """A copy whose branches and barriers can change alone; unfinished inner work is shared."""
        return Position(
            self.visits,
            [Branch(one.at, one.lineage, one.since, one.inner, one.arrived, one.waits, one.question) for one in self.branches],
            {
                number: Barrier({source: list(queue) for source, queue in barrier.waiting.items()}, barrier.fired)
                for number, barrier in self.barriers.items()
            },
            list(self.reached),
            dict(self.races),
            self.pre,
            self.post,
        )

    def is_parked(self) -> bool:
        """True if some visit at any depth waits for an answer."""
        return any(branch.waits or _inner_parked(branch.inner) for branch in self.branches)

    def holds(self) -> bool:
        """True if a barrier still holds records."""
        return any(queue for barrier in self.barriers.values() for queue in barrier.waiting.values())


@dataclass(frozen=True, slots=True)
class Pause:
    """One open question. `key` is what an answer is given under: the path joined by `/`, with `@entrypoint` where the same
    placement can be reached from several entrypoints. `node` is the placement that asked."""

    key: str
    path: tuple[str | int, ...]
    node: str
    question: Any

    def to_plain(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"key": self.key, "path": list(self.path), "node": self.node, "question": self.question}


def labels(plan: Plan, lineage: int) -> list[str]:
    """The entrypoint labels in a lineage, in declared order."""
    return [label for bit, label in enumerate(plan.entries) if lineage >> bit & 1]


def key_part(plan: Plan, branch: Branch) -> str:
    """What tells this branch's placement from all others of the document: its name, and the entrypoints the branch comes from where
    the placement can be reached from several."""
    name = plan.placements[branch.at].name
    if len(plan.entries) > 1 and len(plan.branches[branch.at]) > 1:
        return f"{name}@{'+'.join(labels(plan, branch.lineage))}"
    return name


def branch_at(plan: Plan, position: Position, part: str | int) -> Branch | None:
    """The branch a `key_part` names, None if none stands there."""
    return next((branch for branch in position.branches if key_part(plan, branch) == part), None)


def pauses(plan: Plan, position: Position, path: tuple[str | int, ...] = (), key: str = "") -> Iterator[Pause]:
    """Every open question at any depth, outermost first, items in source order."""
    for branch in position.branches:
        yield from pauses_of(plan, branch, path, key)


def pauses_of(plan: Plan, branch: Branch, path: tuple[str | int, ...] = (), key: str = "") -> Iterator[Pause]:
    """The open questions of one branch."""
    name = plan.placements[branch.at].name
    here, path_here = key + key_part(plan, branch), (*path, name)
    if branch.waits:
        yield Pause(here, path_here, name, branch.question)
    if isinstance(branch.inner, Child):
        yield from pauses(branch.inner.plan, branch.inner.position, path_here, f"{here}/")
    elif isinstance(branch.inner, ScatterState):
        scatter = branch.inner
        for index in sorted({*scatter.parked, *scatter.children}):
            if index in scatter.parked:
                yield Pause(f"{here}/{index}", (*path_here, index), name, scatter.parked[index].question)
            else:
                child = scatter.children[index]
                yield from pauses(child.plan, child.position, (*path_here, index), f"{here}/{index}/")


def _inner_parked(inner: Child | ScatterState | None) -> bool:
    if inner is None:
        return False
    if isinstance(inner, Child):
        return inner.position.is_parked()
    return bool(inner.parked) or any(child.position.is_parked() for child in inner.children.values())

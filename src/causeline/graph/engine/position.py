"""Where an execution is: plain data, nested for embedded documents and scatter items.

Law: `from_plain(to_plain(p))` is `p` at every step. Inside, placements are numbers of their plan and entrypoints are bits of
a `lineage`; the plain form uses names and labels, so it can be read by a person and survives a renumbering.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from causeline.errors import Conflict
from causeline.graph.documents.document import Embedded, Scatter
from causeline.graph.engine.channels import Channels, Reducer, plain
from causeline.graph.engine.plan import Plan


class PositionMismatch(Conflict):
    """A saved position does not belong to this document: the hash differs (adopt it on purpose), or a place in it is gone."""

    code = "position_mismatch"


UNCOUNTED = -1
"""The slot of an arrival from a placement the gather does not name as a source; such a branch ends there and the walk stalls."""


@dataclass(slots=True)
class Child:
    """A running or parked child document: of an embedded placement, or of one scatter item."""

    plan: Plan
    position: "Position"
    channels: Channels


@dataclass(slots=True)
class Fan:
    """An unfinished scatter.

    `done` are the finished item indexes as sorted, disjoint [from, to) ranges, so its size follows the number of items in
    flight. `kept` is what finished items left for the gather, in source order as far as the items are finished from the start on
    (a fold or a list of records for each gather, see `scatter`), `ahead` the records of later ones. `first` is the index and
    port of the first item, `failure` the index and failure of the first that failed. `parked` are questions of node bodies,
    `children` documents of items in flight, `pending` journalled rows (plain) for documents not opened again yet. `total`
    is the number of items (or batches) once the source has ended.
    """

    done: list[list[int]] = field(default_factory=list[list[int]])
    tally: dict[str, int] = field(default_factory=dict[str, int])
    first: list[Any] | None = None
    kept: list[Any] | None = None
    ahead: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])
    parked: dict[int, Any] = field(default_factory=dict[int, Any])
    children: dict[int, Child] = field(default_factory=dict[int, Child])
    pending: dict[int, list[dict[str, Any]]] = field(default_factory=dict[int, list[dict[str, Any]]])
    failure: list[Any] | None = None
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

    `inner` is unfinished work at the placement; `arrived` what a gather that fired has to fold, one entry per slot;
    `waits` is True while a node here waits for an answer to `question`; `folded`, never stored, while journalled rows were taken in here
    that no step has made count yet.
    """

    at: int
    lineage: int
    inner: Child | Fan | None = None
    arrived: list[Any] | None = None
    waits: bool = False
    question: Any = None
    folded: bool = False


@dataclass(slots=True)
class Barrier:
    """A gather that has not fired: per slot, the arrivals in order as (lineage, arrival). `fired` is the lineage of its last firing."""

    waiting: dict[int, list[tuple[int, Any]]] = field(default_factory=dict[int, list[tuple[int, Any]]])
    fired: int = 0


@dataclass(slots=True)
class Position:
    """`visits` finished visits, `reached` terminals, `pre` and `post` finished phases. `races` holds, for an override channel that
    branches wrote without knowing of each other, the last write of each: (lineage, placement, value)."""

    visits: int = 0
    branches: list[Branch] = field(default_factory=list[Branch])
    barriers: dict[int, Barrier] = field(default_factory=dict[int, Barrier])
    reached: list[int] = field(default_factory=list[int])
    races: dict[str, list[tuple[int, int, Any]]] = field(default_factory=dict[str, list[tuple[int, int, Any]]])
    pre: int = 0
    post: int = 0

    def fork(self) -> "Position":
        """A copy whose branches and barriers can change alone; unfinished inner work is shared."""
        return Position(
            self.visits,
            [Branch(one.at, one.lineage, one.inner, one.arrived, one.waits, one.question) for one in self.branches],
            {
                number: Barrier({slot: list(queue) for slot, queue in one.waiting.items()}, one.fired)
                for number, one in self.barriers.items()
            },
            list(self.reached),
            {channel: list(entries) for channel, entries in self.races.items()},
            self.pre,
            self.post,
        )

    def is_parked(self) -> bool:
        """True if some visit at any depth waits for an answer."""
        return any(branch.waits or _inner_parked(branch.inner) for branch in self.branches)

    def holds(self) -> bool:
        """True if a barrier still holds records."""
        return any(queue for barrier in self.barriers.values() for queue in barrier.waiting.values())

    def to_plain(self, plan: Plan, value: "Taken | None" = None) -> dict[str, Any]:
        """Plain JSON; parts that are empty are left out. Values are shared where nothing changes them any more, or taken by `value`."""
        take = value or _shared
        found: dict[str, Any] = {"visits": self.visits}
        many = len(plan.entries) > 1
        if self.branches:
            found["branches"] = [_branch_to_plain(plan, branch, many, take) for branch in self.branches]
        if self.barriers:
            found["barriers"] = {
                plan.placements[number].name: _barrier_to_plain(plan, number, barrier, take) for number, barrier in self.barriers.items()
            }
        if self.reached:
            found["reached"] = [plan.placements[number].name for number in self.reached]
        if self.races:
            found["races"] = {
                channel: [[labels(plan, lineage), plan.placements[at].name, take(written, channel)] for lineage, at, written in entries]
                for channel, entries in self.races.items()
            }
        if self.pre:
            found["pre"] = self.pre
        if self.post:
            found["post"] = self.post
        return found


Taken = Callable[[Any, str], Any]


def _shared(value: Any, _what: str) -> Any:
    return value


Resolve = Callable[[str], tuple[Plan, Mapping[str, Reducer]]]
"""A child document's IRI -> its plan and reducers; raises Missing for one that is not registered."""


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
    """This placement's part of a pause key."""
    name = plan.placements[branch.at].name
    if len(plan.entries) > 1 and len(plan.branches[branch.at]) > 1:
        return f"{name}@{'+'.join(labels(plan, branch.lineage))}"
    return name


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
    elif isinstance(branch.inner, Fan):
        fan = branch.inner
        for index in sorted({*fan.parked, *fan.children}):
            if index in fan.parked:
                yield Pause(f"{here}/{index}", (*path_here, index), name, fan.parked[index])
            else:
                child = fan.children[index]
                yield from pauses(child.plan, child.position, (*path_here, index), f"{here}/{index}/")


def _inner_parked(inner: Child | Fan | None) -> bool:
    if inner is None:
        return False
    if isinstance(inner, Child):
        return inner.position.is_parked()
    return bool(inner.parked) or any(child.position.is_parked() for child in inner.children.values())


def _branch_to_plain(plan: Plan, branch: Branch, many: bool, take: Taken) -> dict[str, Any]:
    found: dict[str, Any] = {"at": plan.placements[branch.at].name}
    if many:
        found["from"] = labels(plan, branch.lineage)
    if branch.waits:
        found["waits"] = True
        found["question"] = take(branch.question, "question")
    if branch.arrived is not None:
        found["arrived"] = take(branch.arrived, "arrived")
    if isinstance(branch.inner, Child):
        found["child"] = child_to_plain(branch.inner, take)
    elif branch.inner is not None:
        found["fan"] = _fan_to_plain(branch.inner, take)
    return found


def _barrier_to_plain(plan: Plan, number: int, barrier: Barrier, take: Taken) -> dict[str, Any]:
    sources = list(plan.slots[number])
    found: dict[str, Any] = {
        "waiting": {
            "" if slot == UNCOUNTED else sources[slot]: [[labels(plan, lineage), take(arrival, "arrival")] for lineage, arrival in queue]
            for slot, queue in sorted(barrier.waiting.items())
            if queue
        }
    }
    if barrier.fired:
        found["fired"] = labels(plan, barrier.fired)
    return found


def child_to_plain(child: Child, take: Taken = _shared) -> dict[str, Any]:
    """Plain JSON of a child document; its channels are copied, because they still change."""
    return {
        "document": child.plan.document.id,
        "hash": child.plan.document.hash,
        "position": child.position.to_plain(child.plan, take),
        "channels": child.channels.to_plain(),
    }


def _fan_to_plain(fan: Fan, take: Taken) -> dict[str, Any]:
    found: dict[str, Any] = {"done": [list(one) for one in fan.done], "tally": dict(fan.tally)}
    if fan.first is not None:
        found["first"] = list(fan.first)
    if fan.kept is not None:
        found["kept"] = plain(fan.kept, "kept")
    if fan.ahead:
        found["ahead"] = [[index, plain(record, "ahead")] for index, record in sorted(fan.ahead.items())]
    if fan.parked:
        found["parked"] = [[index, take(question, "question")] for index, question in sorted(fan.parked.items())]
    if fan.children:
        found["children"] = [[index, child_to_plain(child, take)] for index, child in sorted(fan.children.items())]
    if fan.pending:
        found["pending"] = [[index, take(rows, "pending")] for index, rows in sorted(fan.pending.items())]
    if fan.failure is not None:
        found["failure"] = take(fan.failure, "failure")
    if fan.total is not None:
        found["total"] = fan.total
    return found


class Reader:
    """Reads plain positions back. With `adopt` a document whose hash changed is accepted as long as every place still exists."""

    def __init__(self, resolve: Resolve, *, adopt: bool = False) -> None:
        self._resolve = resolve
        self._adopt = adopt

    def position(self, plan: Plan, found: Mapping[str, Any]) -> Position:
        """Raises PositionMismatch naming what does not fit."""
        try:
            return self._position(plan, found)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise PositionMismatch(
                f"the saved position cannot be read against {plan.document.id}: {error!r}; it was damaged, or written by another version"
            ) from error

    def check_hash(self, plan: Plan, expected: object) -> None:
        """Refuse a position made for another version of the document."""
        if expected != plan.document.hash and not self._adopt:
            raise PositionMismatch(
                f"the position was saved for another version of {plan.document.id} "
                f"(hash {str(expected)[:12]}, registered {plan.document.hash[:12]}); register the version it was made "
                "for, or pass adopt=True to continue on this one",
                document=plan.document.id,
            )

    def _position(self, plan: Plan, found: Mapping[str, Any]) -> Position:
        names = {placement.name: number for number, placement in enumerate(plan.placements)}
        bits = {label: 1 << bit for bit, label in enumerate(plan.entries)}

        def at(name: str) -> int:
            if name not in names:
                raise PositionMismatch(
                    f"{plan.document.id} has no placement named {name!r}, where the saved position stands; "
                    "continue on a version that has it",
                    document=plan.document.id,
                    placement=name,
                )
            return names[name]

        def lineage(given: list[str]) -> int:
            missing = [label for label in given if label not in bits]
            if missing:
                raise PositionMismatch(
                    f"{plan.document.id} has no entrypoint {missing[0]!r}, from which a saved branch came", document=plan.document.id
                )
            return sum(bits[label] for label in given)

        visits, pre, post = (int.__index__(count) for count in (found["visits"], found.get("pre", 0), found.get("post", 0)))
        position = Position(visits=visits, pre=pre, post=post)
        for one in found.get("branches", ()):
            position.branches.append(self._branch(plan, at(one["at"]), lineage(one["from"]) if "from" in one else 1, one))
        for name, one in found.get("barriers", {}).items():
            number = at(name)
            slots = plan.slots[number]
            position.barriers[number] = Barrier(
                {
                    slots[source] if source else UNCOUNTED: [(lineage(origin), plain(arrival, "arrival")) for origin, arrival in queue]
                    for source, queue in one["waiting"].items()
                },
                lineage(one.get("fired", [])),
            )
        position.reached = [at(name) for name in found.get("reached", ())]
        position.races = {
            channel: [(lineage(origin), at(name), plain(value, channel)) for origin, name, value in entries]
            for channel, entries in found.get("races", {}).items()
        }
        return position

    def _branch(self, plan: Plan, at: int, lineage: int, found: Mapping[str, Any]) -> Branch:
        arrived, question = plain(found.get("arrived"), "arrived"), plain(found.get("question"), "question")
        branch = Branch(at, lineage, arrived=arrived, waits=found.get("waits", False), question=question)
        placement = plan.placements[at]
        if "child" in found:
            self._fits(plan, placement, Embedded)
            branch.inner = self._child(found["child"])
        elif "fan" in found:
            self._fits(plan, placement, Scatter)
            branch.inner = self._fan(found["fan"])
        return branch

    def _fits(self, plan: Plan, placement: Any, kind: type) -> None:
        if not isinstance(placement, kind):
            raise PositionMismatch(
                f"placement {placement.name!r} of {plan.document.id} was a {kind.__name__} when the position was saved "
                f"and is a {type(placement).__name__} now",
                document=plan.document.id,
                placement=placement.name,
            )

    def _child(self, found: Mapping[str, Any]) -> Child:
        plan, reducers = self._resolve(found["document"])
        self.check_hash(plan, found["hash"])
        return Child(
            plan,
            self._position(plan, found["position"]),
            Channels(cast("Mapping[str, Any]", plain(found["channels"], "channels")), reducers),
        )

    def _fan(self, found: Mapping[str, Any]) -> Fan:
        return Fan(
            [list(one) for one in found["done"]],
            dict(found["tally"]),
            plain(found.get("first"), "first"),
            plain(found.get("kept"), "kept"),
            {index: plain(record, "ahead") for index, record in found.get("ahead", ())},
            {index: plain(question, "question") for index, question in found.get("parked", ())},
            {index: self._child(one) for index, one in found.get("children", ())},
            {index: plain(rows, "pending") for index, rows in found.get("pending", ())},
            plain(found.get("failure"), "failure"),
            found.get("total"),
        )

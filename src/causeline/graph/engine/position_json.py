"""Positions as plain JSON, and back.

Law: reading what was written gives the same position at every step. The plain form uses names and labels, so a person can read it and
it survives a renumbering.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from causeline.errors import Conflict
from causeline.graph.documents.document import Embedded, Gather, Scatter, Terminal
from causeline.graph.engine.channels import Channels, Reducer
from causeline.graph.engine.plain_values import plain
from causeline.graph.engine.plan import Plan
from causeline.graph.engine.position import UNCOUNTED, Barrier, Branch, Child, ParkedItem, Position, ScatterState, labels
from causeline.graph.engine.races import Race, Writer
from causeline.graph.engine.state_paths import MISSING

Copy = Callable[[Any, str], Any]
"""How values are taken into the plain form: `plain` copies and checks, `shared` hands on what nothing changes any more."""


class PositionMismatch(Conflict):
    """A saved position does not belong to this document: the hash differs (adopt it on purpose), or a place in it is gone."""

    code = "position_mismatch"


def shared(value: Any, _what: str) -> Any:
    """For values that are written or copied before anything changes them."""
    return value


# -- writing


def position_to_plain(plan: Plan, position: Position, copy: Copy = shared) -> dict[str, Any]:
    """Plain JSON; parts that are empty are left out."""
    found: dict[str, Any] = {"visits": position.visits}
    many = len(plan.entries) > 1
    if position.branches:
        found["branches"] = [branch_to_plain(plan, branch, many, copy) for branch in position.branches]
    if position.barriers:
        found["barriers"] = {
            plan.placements[number].name: _barrier_to_plain(plan, number, barrier, copy) for number, barrier in position.barriers.items()
        }
    if position.reached:
        found["reached"] = [plan.placements[number].name for number in position.reached]
    if position.races:
        found["races"] = {channel: _race_to_plain(plan, race, copy, channel) for channel, race in position.races.items()}
    if position.pre:
        found["pre"] = position.pre
    if position.post:
        found["post"] = position.post
    return found


def moved_to_plain(plan: Plan, position: Position, target: int) -> dict[str, Any] | None:
    """What `position_to_plain` says once the one branch of a document has moved on to `target`, without making that position; None where
    more changes than the place of a branch."""
    place = plan.placements[target]
    if len(position.branches) != 1 or position.barriers or position.reached or position.races or isinstance(place, Gather | Terminal):
        return None
    moved: dict[str, Any] = {"visits": position.visits + 1, "branches": [{"at": place.name}]}
    if position.pre:
        moved["pre"] = position.pre
    if position.post:
        moved["post"] = position.post
    return moved


def branch_to_plain(plan: Plan, branch: Branch, many: bool, copy: Copy = shared) -> dict[str, Any]:
    """One branch whole; where it came from is told if there are many."""
    found: dict[str, Any] = {"at": plan.placements[branch.at].name}
    if many:
        found["from"] = labels(plan, branch.lineage)
        found["since"] = branch.since
    if branch.waits:
        found["waits"] = True
        found["question"] = copy(branch.question, "question")
    if branch.arrived is not None:
        found["arrived"] = copy(branch.arrived, "arrived")
    if isinstance(branch.inner, Child):
        found["child"] = child_to_plain(branch.inner, copy)
    elif branch.inner is not None:
        found["scatter"] = _scatter_to_plain(branch.inner, copy)
    return found


def child_to_plain(child: Child, copy: Copy = shared) -> dict[str, Any]:
    """Plain JSON of a child document; its channels are copied, because they still change."""
    return {
        "document": child.plan.document.id,
        "hash": child.plan.document.hash,
        "position": position_to_plain(child.plan, child.position, copy),
        "channels": child.channels.to_plain(),
    }


def _race_to_plain(plan: Plan, race: Race, copy: Copy, channel: str) -> dict[str, Any]:
    writers = [
        [labels(plan, writer.lineage), plan.placements[writer.at].name, [[op, copy(value, channel)] for op, value in writer.changes]]
        for writer in race.writers
    ]
    return {"writers": writers} if race.base is MISSING else {"base": copy(race.base, channel), "writers": writers}


def _barrier_to_plain(plan: Plan, number: int, barrier: Barrier, copy: Copy) -> dict[str, Any]:
    sources = list(plan.sources[number])
    found: dict[str, Any] = {
        "waiting": {
            "" if source == UNCOUNTED else sources[source]: [
                [labels(plan, lineage), copy(arrival, "arrival")] for lineage, arrival in queue
            ]
            for source, queue in sorted(barrier.waiting.items())
            if queue
        }
    }
    if barrier.fired:
        found["fired"] = labels(plan, barrier.fired)
    return found


def _scatter_to_plain(state: ScatterState, copy: Copy) -> dict[str, Any]:
    found: dict[str, Any] = {
        "done": [list(span) for span in state.done],
        "tally": dict(state.tally),
        "source": MISSING if state.source is MISSING else copy(state.source, "source"),
        "seeds": copy(state.seeds, "seeds"),
        "first": None if state.first is None else list(state.first),
        "kept": plain(state.kept, "kept"),
        "ahead": [[index, plain(record, "ahead")] for index, record in sorted(state.ahead.items())],
        "parked": [
            [index, copy(item.question, "question"), *([copy(item.writes, "writes")] if item.writes else ())]
            for index, item in sorted(state.parked.items())
        ],
        "children": [[index, child_to_plain(child, copy)] for index, child in sorted(state.children.items())],
        "pending": [[index, copy(rows, "pending")] for index, rows in sorted(state.pending.items())],
        "failure": copy(state.failure, "failure"),
        "retried": state.retried or None,
        "total": state.total,
    }
    return {key: value for key, value in found.items() if value is not MISSING and (key in _ALWAYS or (value is not None and value != []))}


_ALWAYS = frozenset({"done", "tally", "source"})


# -- reading

Resolve = Callable[[str], tuple[Plan, Mapping[str, Reducer]]]
"""A child document's IRI -> its plan and reducers; raises Missing for one that is not registered."""


class PositionReader:
    """Reads plain positions back. With `adopt` a document whose hash changed is accepted as long as every place still exists."""

    def __init__(self, resolve: Resolve, *, adopt: bool = False) -> None:
        self._resolve = resolve
        self._adopt = adopt

    def position(self, plan: Plan, found: Mapping[str, Any]) -> Position:
        """Raises PositionMismatch naming what does not fit."""
        try:
            return self._position(plan, found)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise unreadable(plan, "position", error) from error

    def branch(self, plan: Plan, found: Mapping[str, Any]) -> Branch:
        """One branch, as `branch_to_plain` writes it. Raises PositionMismatch."""
        places = _Places(plan)
        return self._branch(plan, places.at(found["at"]), places.lineage(found["from"]) if "from" in found else 1, found)

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
        places = _Places(plan)
        visits, pre, post = (int.__index__(count) for count in (found["visits"], found.get("pre", 0), found.get("post", 0)))
        position = Position(visits=visits, pre=pre, post=post)
        for branch in found.get("branches", ()):
            lineage = places.lineage(branch["from"]) if "from" in branch else 1
            position.branches.append(self._branch(plan, places.at(branch["at"]), lineage, branch, position.steps))
        for name, barrier in found.get("barriers", {}).items():
            number = places.at(name)
            sources = plan.sources[number]
            position.barriers[number] = Barrier(
                {
                    sources[source] if source else UNCOUNTED: [
                        (places.lineage(origin), plain(arrival, "arrival")) for origin, arrival in queue
                    ]
                    for source, queue in barrier["waiting"].items()
                },
                places.lineage(barrier.get("fired", [])),
            )
        position.reached = [places.at(name) for name in found.get("reached", ())]
        for channel, race in found.get("races", {}).items():
            writers = [
                Writer(places.lineage(origin), places.at(name), [(op, plain(value, channel)) for op, value in changes])
                for origin, name, changes in race["writers"]
            ]
            position.races[channel] = Race(plain(race["base"], channel) if "base" in race else MISSING, writers)
        return position

    def _branch(self, plan: Plan, at: int, lineage: int, found: Mapping[str, Any], steps: int = 0) -> Branch:
        arrived, question = plain(found.get("arrived"), "arrived"), plain(found.get("question"), "question")
        since = int.__index__(found.get("since", steps))
        branch = Branch(at, lineage, since, arrived=arrived, waits=found.get("waits", False), question=question)
        placement = plan.placements[at]
        if "child" in found:
            _fits(plan, placement, Embedded)
            branch.inner = self._child(found["child"])
        elif "scatter" in found:
            _fits(plan, placement, Scatter)
            branch.inner = self._scatter(found["scatter"])
        return branch

    def _child(self, found: Mapping[str, Any]) -> Child:
        plan, reducers = self._resolve(found["document"])
        self.check_hash(plan, found["hash"])
        return Child(
            plan,
            self._position(plan, found["position"]),
            Channels(cast("Mapping[str, Any]", plain(found["channels"], "channels")), reducers),
        )

    def _scatter(self, found: Mapping[str, Any]) -> ScatterState:
        return ScatterState(
            plain(found["source"], "source") if "source" in found else MISSING,
            plain(found.get("seeds"), "seeds"),
            [list(span) for span in found["done"]],
            dict(found["tally"]),
            plain(found.get("first"), "first"),
            plain(found.get("kept"), "kept"),
            {index: plain(record, "ahead") for index, record in found.get("ahead", ())},
            {
                index: ParkedItem(plain(question, "question"), plain(writes[0], "writes") if writes else {})
                for index, question, *writes in found.get("parked", ())
            },
            {index: self._child(child) for index, child in found.get("children", ())},
            {index: plain(rows, "pending") for index, rows in found.get("pending", ())},
            plain(found.get("failure"), "failure"),
            found.get("retried", 0),
            found.get("total"),
        )


class _Places:
    """Names and labels of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names = {placement.name: number for number, placement in enumerate(plan.placements)}
        self._bits = {label: 1 << bit for bit, label in enumerate(plan.entries)}

    def at(self, name: str) -> int:
        if name not in self._names:
            raise PositionMismatch(
                f"{self._plan.document.id} has no placement named {name!r}, where the saved position stands; "
                "continue on a version that has it",
                document=self._plan.document.id,
                placement=name,
            )
        return self._names[name]

    def lineage(self, origins: list[str]) -> int:
        missing = [label for label in origins if label not in self._bits]
        if missing:
            raise PositionMismatch(
                f"{self._plan.document.id} has no entrypoint {missing[0]!r}, from which a saved branch came",
                document=self._plan.document.id,
            )
        return sum(self._bits[label] for label in origins)


def unreadable(plan: Plan, what: str, error: Exception) -> PositionMismatch:
    """The error of saved data that makes no sense."""
    return PositionMismatch(
        f"the saved {what} cannot be read against {plan.document.id}: {error!r}; it was damaged, or written by another version"
    )


def _fits(plan: Plan, placement: Any, kind: type) -> None:
    if not isinstance(placement, kind):
        raise PositionMismatch(
            f"placement {placement.name!r} of {plan.document.id} was a {kind.__name__} when the position was saved "
            f"and is a {type(placement).__name__} now",
            document=plan.document.id,
            placement=placement.name,
        )

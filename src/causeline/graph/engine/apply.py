"""What a finished visit, item or phase means: the one place that makes it count, live once the journal has it, and again on resume.

Law: pure. What is live is what a replay of the same rows gives, because both come through here. Rows come in the order they were
journalled; a row about a place the position has already left is passed over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from causeline.graph.documents.document import Embedded, Scatter
from causeline.graph.engine.binding import BoundDocument, Site
from causeline.graph.engine.channels import Changes, Delta, changes_of
from causeline.graph.engine.embedded import open_child, resolve, seeds
from causeline.graph.engine.plan import Plan
from causeline.graph.engine.position import Branch, Child, Position, ScatterState, branch_at, key_part
from causeline.graph.engine.position_json import PositionReader, branch_to_plain
from causeline.graph.engine.races import Race, settled
from causeline.graph.engine.scatter import FinishedItem, take
from causeline.graph.engine.state_paths import MISSING
from causeline.graph.engine.step_events import Progress
from causeline.graph.engine.walk import parked, phase_over, returned
from causeline.graph.node import PARKED

NO_CHANGES: Changes = {}


@dataclass(slots=True)
class FinishedVisit:
    """A visit that left by `port` with these changes, as its branch means them. `arrival` is what it leaves for the gather it leads to.
    By the port `parked` it waits: to its node's own `question` (`asks`), or to one inside its unfinished work."""

    port: str
    changes: Changes
    arrival: Any = None
    asks: bool = True
    question: Any = None


@dataclass(slots=True)
class Settled:
    """Changes as they count beside what other branches wrote: worked out before the journal, without touching anything."""

    counted: Changes
    races: Mapping[str, Race | None] = field(default_factory=dict[str, Race | None])
    ready: Mapping[str, Any] = field(default_factory=dict[str, Any])


def settle(bound: BoundDocument, child: Child, branch: Branch, changes: Changes) -> Settled:
    """Raises what a reducer of the caller's own raises, and Invalid where a change does not fit."""
    if not bound.forks:
        return Settled(changes, ready=child.channels.prepared(changes))
    everyone = (1 << len(child.plan.entries)) - 1
    counted, races = settled(child.position.races, branch.lineage, branch.at, changes, child.channels, bound.ordered, everyone)
    return Settled(counted, races, child.channels.prepared(counted))


def visit(child: Child, branch: Branch, finished: FinishedVisit, settled: Settled) -> Branch | None:
    """A visit counts. Returns the branch to follow, or None."""
    child.channels.take(settled.counted, settled.ready)
    return move(child.plan, child.position, branch, finished, settled.races)


def move(plan: Plan, position: Position, branch: Branch, finished: FinishedVisit, races: Mapping[str, Race | None]) -> Branch | None:
    """What a visit means for the position alone."""
    for channel, race in races.items():
        if race is None:
            position.races.pop(channel, None)
        else:
            position.races[channel] = race
    if finished.port == PARKED:
        parked(position, branch, asks=finished.asks, question=finished.question)
        return None
    return returned(plan, position, branch, finished.port, finished.arrival)


def phase(child: Child, number: int, changes: Changes, ready: Mapping[str, Any] | None = None) -> None:
    """A phase counts; `ready` is what `Channels.prepared` said of its changes, if that was asked."""
    child.channels.take(changes, child.channels.prepared(changes) if ready is None else ready)
    phase_over(child.plan, child.position, number)


def item(scatter: ScatterState, site: Site, finished: FinishedItem) -> None:
    """A scatter item (or a batch) counts."""
    take(scatter, site.feeds, finished)


def again(scatter: ScatterState, index: int) -> None:
    """An item is tried again from its beginning."""
    scatter.children.pop(index, None)
    scatter.pending.pop(index, None)


# -- rows: what a Progress holds as `writes`

BEGUN = "begun"
"""Port and key of a row that says what an embedded document or a scatter began with."""
AGAIN = "again"
"""Port and key of a row that says that an item's document is tried again."""


def visit_writes(delta: Delta, arrival: Any) -> dict[str, Any]:
    """About a placement of an embedded document."""
    return {"delta": delta} if arrival is None else {"delta": delta, "arrival": arrival}


def fold(programs: Mapping[str, BoundDocument], child: Child, rows: Iterable[Progress]) -> None:
    """Take rows into a document's position and channels. Their paths start at this document's placements."""
    for row in rows:
        part, *deeper = row.path
        branch = branch_at(child.plan, child.position, part)
        if branch is None:
            _phase_row(child, part, row)
        elif deeper or BEGUN in row.writes:
            branch.resumed = True
            _row_inside(programs, child, branch, row, deeper)
        else:
            bound = programs[child.plan.document.id]
            finished = FinishedVisit(row.port, changes_of(row.writes["delta"]), row.writes.get("arrival"))
            visit(child, branch, finished, settle(bound, child, branch, finished.changes))


def _phase_row(child: Child, name: str | int, row: Progress) -> None:
    plan, position = child.plan, child.position
    due = plan.pre[position.pre : position.pre + 1] or plan.post[position.post : position.post + 1]
    if due and plan.placements[due[0]].name == name:
        phase(child, due[0], changes_of(row.writes["delta"]))


def _row_inside(programs: Mapping[str, BoundDocument], child: Child, branch: Branch, row: Progress, deeper: list[str | int]) -> None:
    bound = programs[child.plan.document.id]
    site = bound.sites[branch.at]
    begun: Mapping[str, Any] = row.writes.get(BEGUN, {}) if not deeper else {}
    if isinstance(site.placement, Scatter):
        if not isinstance(branch.inner, ScatterState):
            branch.inner = ScatterState(begun.get("source", MISSING), begun.get("seeds"))
        if deeper:
            _row_of_item(programs, bound, branch, branch.inner, row, deeper)
    elif isinstance(site.placement, Embedded) and site.dag is not None:
        if not isinstance(branch.inner, Child):
            iri = begun["dag"] if begun else resolve(site.dag, child.channels.values, None, site.name)
            values = seeds(site.placement.state_input, child.channels)
            branch.inner = open_child(programs[iri], {**values, **begun.get("seeds", {})} if begun else values)
        if deeper:
            fold(programs, branch.inner, [row.inside(1)])


def _row_of_item(
    programs: Mapping[str, BoundDocument],
    bound: BoundDocument,
    branch: Branch,
    scatter: ScatterState,
    row: Progress,
    deeper: list[str | int],
) -> None:
    index, *rest = deeper
    if not isinstance(index, int) or scatter.is_done(index):
        return
    if rest:
        if index in scatter.children:
            fold(programs, scatter.children[index], [row.inside(2)])
        else:
            scatter.pending.setdefault(index, []).append(row.inside(2).to_plain())
    elif AGAIN in row.writes:
        again(scatter, index)
    else:
        scatter.pending.pop(index, None)
        item(scatter, bound.sites[branch.at], FinishedItem.from_row(index, row.port, row.writes))


# -- steps: where a document with several entrypoints is after a step is told as what the step changed

CHANGE = "change"


def is_whole(position: Any) -> bool:
    """True if a told position says all, False if it says what one step changed."""
    return not isinstance(position, Mapping) or CHANGE not in position


def position_change(child: Child, branch: Branch, finished: FinishedVisit, delta: Delta, counted: Delta) -> dict[str, Any]:
    """What a visit changes about a position, before it counts: so a step costs only what it did, not what other branches hold.
    `delta` is what the visit means to write, `counted` what of it counts. Takes the rows of other branches along."""
    plan = child.plan
    change: dict[str, Any] = {"at": key_part(plan, branch), "port": finished.port}
    meant = {channel: one for channel, one in delta.items() if counted.get(channel) != one}
    if meant:
        change["meant"] = meant
    if finished.arrival is not None:
        change["arrival"] = finished.arrival
    if finished.port == PARKED:
        asking = Branch(branch.at, branch.lineage, branch.since, branch.inner, branch.arrived, finished.asks, finished.question)
        change["parked"] = branch_to_plain(plan, asking, True)
    return _told(child, change, branch)


def phase_change(child: Child, name: str) -> dict[str, Any]:
    """What a phase changes about a position."""
    return _told(child, {"phase": name}, None)


def _told(child: Child, change: dict[str, Any], mover: Branch | None) -> dict[str, Any]:
    found: dict[str, Any] = {"visits": child.position.visits + (mover is not None), CHANGE: change}
    rows: list[dict[str, Any]] = []
    for branch in child.position.branches:
        if branch is not mover and branch.rows:
            rows.extend(branch.rows)
            branch.rows = []
    if rows:
        found["rows"] = rows
    return found


def replay_step(
    bound: Mapping[str, BoundDocument], reader: PositionReader, child: Child, position: Mapping[str, Any], delta: Delta
) -> None:
    """Take a told step into the position and channels before it."""
    rows = [Progress.from_plain({"step": 0, **row}) for row in position.get("rows", ())]
    if is_whole(position):
        child.channels.replay(delta)
        child.position = reader.position(child.plan, position)
        fold(bound, child, rows)
        return
    fold(bound, child, rows)
    change = position[CHANGE]
    if "phase" in change:
        _phase_row(child, change["phase"], Progress(0, (change["phase"],), 0, "", {"delta": delta}))
        return
    branch = branch_at(child.plan, child.position, change["at"])
    if branch is None:
        raise KeyError(change["at"])
    finished = FinishedVisit(change["port"], changes_of({**delta, **change.get("meant", {})}), change.get("arrival"))
    if "parked" in change:
        branches = child.position.branches
        branches[branches.index(branch)] = branch = reader.branch(child.plan, change["parked"])
        finished.asks, finished.question = branch.waits, branch.question
    visit(child, branch, finished, settle(bound[child.plan.document.id], child, branch, finished.changes))

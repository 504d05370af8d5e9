"""The walk through a document: pure functions that say where a position goes next.

Law: no await, clock or dice; the position is updated in place. No placement forks, so each entrypoint's line of control is in at
most one branch: branches only end or meet at a gather.
"""

from collections.abc import Callable
from typing import Any, Literal

from causeline.graph.documents.document import Gather, Terminal
from causeline.graph.engine.plan import Plan
from causeline.graph.engine.position import UNCOUNTED, Barrier, Branch, Position


def begin(plan: Plan, arrivals: Callable[[str, int], Any], only: str | None = None) -> Position:
    """The position before the first visit, at every entrypoint or `only` at one. `arrivals(label, gather)` is what an entrypoint that
    leads straight into a gather leaves there."""
    position = Position()
    for bit, (label, number) in enumerate(plan.entries.items()):
        if only is not None and label != only:
            continue
        branch = Branch(number, 1 << bit)
        position.branches.append(branch)
        kind = type(plan.placements[number])
        if kind is Gather:
            source = plan.entry_feeds[label].get(number)
            _arrive(plan, position, branch, number, source, None if source is None else arrivals(label, number))
        elif kind is Terminal:
            _end(position, branch, number)
    return position


def returned(plan: Plan, position: Position, branch: Branch, port: str, arrival: Any = None) -> Branch | None:
    """The visit of a branch is over and left by `port`, which has a route; `arrival` is what it leaves for the gather that leads to, if
    it does. Returns the branch to follow (this one, or the one a gather released), or None where it ended or waits."""
    number = branch.at
    position.visits += 1
    branch.inner = branch.arrived = branch.question = None
    branch.waits = branch.resumed = False
    if branch.counted:
        branch.rows, branch.counted = [], 0
    target = plan.routes[number][port]
    kind = type(plan.placements[target])
    if kind is Terminal:
        _end(position, branch, target)
        return None
    if kind is Gather:
        return _arrive(plan, position, branch, target, plan.feeds[number].get(target), arrival)
    branch.at = target
    branch.since = position.visits + position.pre + position.post
    return branch


def parked(position: Position, branch: Branch, *, asks: bool, question: Any = None) -> None:
    """The visit of a branch waits for an answer: to its node's own `question` (`asks`), or to one inside its unfinished work."""
    position.visits += 1
    branch.waits = asks
    branch.question = question
    branch.resumed = False
    branch.rows, branch.counted = [], 0


def phase_over(plan: Plan, position: Position, number: int) -> None:
    """A phase has finished. Branches begin where the pre phases end."""
    if number not in plan.pre:
        position.post += 1
        return
    position.pre += 1
    for branch in position.branches:
        branch.since = position.steps


def verdict(plan: Plan, position: Position) -> Literal["completed", "failed", "stalled"]:
    """What a position without anything left to run has come to. A failed terminal counts before a barrier that waits."""
    if any(isinstance(place := plan.placements[number], Terminal) and place.outcome == "failed" for number in position.reached):
        return "failed"
    if position.holds() or not position.reached:
        return "stalled"
    return "completed"


def _end(position: Position, branch: Branch, terminal: int) -> None:
    position.branches.remove(branch)
    if terminal not in position.reached:
        position.reached.append(terminal)
        position.reached.sort()


def _arrive(plan: Plan, position: Position, branch: Branch, gather: int, source: int | None, arrival: Any) -> Branch | None:
    """A branch reaches a gather. It becomes the released branch if that fires, else it ends here and its records wait.

    An arrival that knows nothing of the last firing (no entrypoint in common) comes too late for `any` and `quorum` and is dropped.
    """
    placement = plan.placements[gather]
    assert isinstance(placement, Gather)
    barrier = position.barriers.setdefault(gather, Barrier())
    position.branches.remove(branch)
    late = barrier.fired and not barrier.fired & branch.lineage
    if not late:
        barrier.waiting.setdefault(UNCOUNTED if source is None else source, []).append((branch.lineage, arrival))
    ready = [number for number, queue in barrier.waiting.items() if queue and number != UNCOUNTED]
    if late or len(ready) < placement.needed:
        return None
    return _fire(plan, position, branch, gather, barrier)


def _fire(plan: Plan, position: Position, branch: Branch, gather: int, barrier: Barrier) -> Branch:
    arrived: list[Any] = []
    lineage = 0
    for source in range(len(plan.sources[gather])):
        queue = barrier.waiting.get(source)
        if queue:
            origin, arrival = queue.pop(0)
            lineage |= origin
            arrived.append([source, arrival])
    barrier.waiting = {source: queue for source, queue in barrier.waiting.items() if queue}
    barrier.fired = lineage if len(arrived) < len(plan.sources[gather]) else 0
    if not barrier.waiting and not barrier.fired:
        del position.barriers[gather]
    branch.at, branch.lineage, branch.arrived = gather, lineage, arrived
    branch.since = position.steps
    position.branches.append(branch)
    position.branches.sort(key=_age)
    return branch


def _age(branch: Branch) -> int:
    return branch.lineage & -branch.lineage

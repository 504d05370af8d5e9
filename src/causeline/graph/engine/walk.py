"""The walk through a document as a pure state machine: `step(plan, position, signal) -> (position, commands)`.

Law: no await, clock or dice; the position is updated in place. No placement forks, so each entrypoint's line of control is in at
most one branch: branches only end or meet at a gather. A command says which branch to run next; a signal says what came of it.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from causeline.graph.documents.document import Gather, Terminal
from causeline.graph.engine.plan import Plan
from causeline.graph.engine.position import UNCOUNTED, Barrier, Branch, Position


@dataclass(frozen=True, slots=True)
class Run:
    """Command: visit the placement the branch stands at."""

    branch: Branch


@dataclass(frozen=True, slots=True)
class RunPhase:
    """Command: visit a phase placement."""

    number: int


@dataclass(frozen=True, slots=True)
class Finish:
    """Command: nothing is left to run."""

    status: str


Command = Run | RunPhase | Finish


@dataclass(frozen=True, slots=True)
class Started:
    """Signal: the execution begins or goes on."""


@dataclass(frozen=True, slots=True)
class Returned:
    """Signal: the visit left by `port`, which has a route. `arrival` is what it leaves for the gather it leads to, if it does."""

    branch: Branch
    port: str
    arrival: Any = None


@dataclass(frozen=True, slots=True)
class Parked:
    """Signal: the visit waits for an answer: the node's own `question`, or one inside the unfinished work (`own` False)."""

    branch: Branch
    own: bool
    question: Any = None


@dataclass(frozen=True, slots=True)
class PhaseReturned:
    """Signal: a phase is over."""

    number: int


Signal = Started | Returned | Parked | PhaseReturned
Commands = tuple[Command, ...]


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
            slot = plan.entry_feeds[label].get(number)
            _arrive(plan, position, branch, number, slot, None if slot is None else arrivals(label, number))
        elif kind is Terminal:
            _end(position, branch, number)
    return position


def step(plan: Plan, position: Position, signal: Signal) -> tuple[Position, Commands]:
    """Take one signal. After `Returned` the commands hold the same branch, the branch a gather released, or nothing."""
    return position, _TABLE[type(signal)](plan, position, signal)


def returned(plan: Plan, position: Position, branch: Branch, port: str, arrival: Any = None) -> Branch | None:
    """`Returned` without the records: the branch to run next, or None. The driver's loop uses this form."""
    number = branch.at
    position.visits += 1
    branch.inner = branch.arrived = branch.question = None
    branch.waits = False
    target = plan.routes[number][port]
    kind = type(plan.placements[target])
    if kind is Terminal:
        _end(position, branch, target)
        return None
    if kind is Gather:
        return _arrive(plan, position, branch, target, plan.feeds[number].get(target), arrival)
    branch.at = target
    return branch


def _on_returned(plan: Plan, position: Position, signal: Any) -> Commands:
    branch = returned(plan, position, signal.branch, signal.port, signal.arrival)
    if branch is not None:
        return (Run(branch),)
    return () if position.branches else _ended(plan, position)


def _on_parked(_plan: Plan, position: Position, signal: Any) -> Commands:
    position.visits += 1
    signal.branch.waits = signal.own
    signal.branch.question = signal.question
    return ()


def _on_started(plan: Plan, position: Position, _signal: Any) -> Commands:
    if position.pre < len(plan.pre):
        return (RunPhase(plan.pre[position.pre]),)
    runs = tuple(Run(branch) for branch in position.branches)
    return runs or _ended(plan, position)


def _on_phase(plan: Plan, position: Position, signal: Any) -> Commands:
    if signal.number in plan.pre:
        position.pre += 1
        return _on_started(plan, position, None)
    position.post += 1
    return _ended(plan, position)


def _ended(plan: Plan, position: Position) -> Commands:
    if position.post < len(plan.post):
        return (RunPhase(plan.post[position.post]),)
    return (Finish(verdict(plan, position)),)


def verdict(plan: Plan, position: Position) -> Literal["completed", "failed", "stalled"]:
    """What a position without anything left to run has come to. A failed terminal counts before a barrier that waits."""
    if any(isinstance(one := plan.placements[number], Terminal) and one.outcome == "failed" for number in position.reached):
        return "failed"
    if position.holds() or not position.reached:
        return "stalled"
    return "completed"


def _end(position: Position, branch: Branch, terminal: int) -> None:
    position.branches.remove(branch)
    if terminal not in position.reached:
        position.reached.append(terminal)
        position.reached.sort()


def _arrive(plan: Plan, position: Position, branch: Branch, gather: int, slot: int | None, arrival: Any) -> Branch | None:
    """A branch reaches a gather. It becomes the released branch if that fires, else it ends here and its records wait.

    An arrival that knows nothing of the last firing (no entrypoint in common) comes too late for `any` and `quorum` and is dropped.
    """
    placement = plan.placements[gather]
    assert isinstance(placement, Gather)
    barrier = position.barriers.setdefault(gather, Barrier())
    position.branches.remove(branch)
    late = barrier.fired and not barrier.fired & branch.lineage
    if not late:
        barrier.waiting.setdefault(UNCOUNTED if slot is None else slot, []).append((branch.lineage, arrival))
    ready = [number for number, queue in barrier.waiting.items() if queue and number != UNCOUNTED]
    if late or len(ready) < placement.needed:
        return None
    return _fire(plan, position, branch, gather, barrier)


def _fire(plan: Plan, position: Position, branch: Branch, gather: int, barrier: Barrier) -> Branch:
    arrived: list[Any] = []
    lineage = 0
    for slot in range(len(plan.slots[gather])):
        queue = barrier.waiting.get(slot)
        if queue:
            origin, arrival = queue.pop(0)
            lineage |= origin
            arrived.append([slot, arrival])
    barrier.waiting = {slot: queue for slot, queue in barrier.waiting.items() if queue}
    barrier.fired = lineage if len(arrived) < len(plan.slots[gather]) else 0
    if not barrier.waiting and not barrier.fired:
        del position.barriers[gather]
    branch.at, branch.lineage, branch.arrived = gather, lineage, arrived
    position.branches.append(branch)
    position.branches.sort(key=_age)
    return branch


def _age(branch: Branch) -> int:
    return branch.lineage & -branch.lineage


Races = dict[str, list[tuple[int, int, Any]]]


def settle(
    position: Position, branch: Branch, writes: Mapping[str, Any], values: Mapping[str, Any], ordered: Container[str]
) -> tuple[Mapping[str, Any], Races]:
    """The writes as they count when several branches run, and the races to remember: of the last writes of branches that do not know of
    each other, the one of the placement declared last counts, whichever finished first. `values` are the channels before the
    writes; channels in `ordered` (those with another reducer than override) are let through.

    Each race entry is (lineage, placement, value); the entry that counts keeps no value, because the channel holds it.
    """
    counted: dict[str, Any] = {}
    races: Races = {}
    for channel, value in writes.items():
        if channel in ordered:
            counted[channel] = value
            continue
        old = position.races.get(channel, [])
        winner = max(old, key=_standing, default=None)
        entries = [
            (entry[0], entry[1], values.get(channel) if entry is winner else entry[2]) for entry in old if not entry[0] & branch.lineage
        ]
        entries.append((branch.lineage, branch.at, value))
        best = max(entries, key=_standing)
        counted[channel] = best[2]
        races[channel] = sorted(((entry[0], entry[1], None if entry is best else entry[2]) for entry in entries), key=_standing)
    return counted, races


def _standing(entry: tuple[int, int, Any]) -> tuple[int, int]:
    return entry[1], -entry[0]


_TABLE: Mapping[type, Callable[[Plan, Position, Any], Commands]] = {
    Started: _on_started,
    Returned: _on_returned,
    Parked: _on_parked,
    PhaseReturned: _on_phase,
}

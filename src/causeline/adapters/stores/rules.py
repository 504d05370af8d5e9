"""What every store decides in the same way: pure functions over records."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from causeline.adapters.stores import refusals
from causeline.causal import canonical
from causeline.causal.limits import WRAPPED_DEPTH
from causeline.errors import Invalid, Misuse
from causeline.run.ledger import CALL_STATES, MOVES, CallState
from causeline.runtime.records import ACTIVE, STATUS_MOVES, CallRow, Commit, Link, Run, Session

MOVES_INTO: Mapping[CallState, frozenset[CallState]] = {
    state: frozenset(origin for origin in CALL_STATES if state in MOVES[origin]) for state in CALL_STATES
}
"""The call ledger's table read backwards: to each state, the states it may be reached from."""
BODY = ("session", "agent", "input", "at", "answers", "tools", "context")
"""The fields that make two starts with one run id the same start."""


def same_start(stored: Run, asked: Run) -> bool:
    """Whether a start with a known run id asks for what is stored. Compared as JSON, so 1 and 1.0 are equal, 1 and true are not."""
    return all(same_json(getattr(stored, name), getattr(asked, name)) for name in BODY)


def same_json(left: Any, right: Any) -> bool:
    """Whether two values are one as JSON."""
    return _text(left) == _text(right)


def _text(value: Any) -> bytes:
    if isinstance(value, tuple):
        value = list(cast("tuple[Any, ...]", value))
    return canonical(value, depth=WRAPPED_DEPTH)


def speaks(run: Run) -> bool:
    """Whether the input holds a user message, which supersedes interrupts open at the run's base."""
    return any(message.get("role") == "user" for message in run.input)


def as_queued(run: Run) -> Run:
    """The row of a new run that has to wait."""
    return replace(run, status="queued", base=None, head=None, started_at=None, holder=None, cancel_requested=False, beat=0, epoch=0)


def as_running(run: Run, base: str | None) -> Run:
    """The row of a new run that begins at once."""
    started = run.started_at or run.created_at
    return replace(run, status="running", base=base, head=None, started_at=started, cancel_requested=False, beat=0, epoch=1)


def check_start(run: Run) -> None:
    """A new run is running under a holder, or queued. Raises Misuse."""
    if run.status not in ACTIVE:
        raise Misuse(f"run {run.id} would start as {run.status}; a new run is running or queued")
    if run.status == "running" and run.holder is None:
        raise Misuse(f"run {run.id} would start running without a holder; give it one, or start it as queued")


def check_commit(commit: Commit) -> None:
    """A commit agrees with itself, and a running run may become what it says. Raises Misuse, and Conflict for the latter."""
    if commit.patch is not None and commit.patch.status is not None and commit.patch.status not in STATUS_MOVES["running"]:
        raise refusals.wrong_status(commit.run, commit.patch.status)
    checkpoint = commit.checkpoint
    if checkpoint is None:
        if commit.nodes:
            raise Misuse(f"a commit of run {commit.run} has nodes but no checkpoint that lists them")
    elif (checkpoint.run, checkpoint.session) != (commit.run, commit.session):
        raise Misuse(f"checkpoint {checkpoint.id} is of run {checkpoint.run}, the commit of run {commit.run}")
    elif [node.id for node in commit.nodes] != list(checkpoint.appended):
        raise Misuse(f"checkpoint {checkpoint.id} lists other nodes as appended than its commit holds")
    if commit.events and commit.first_event < 1:
        raise Misuse(f"events of run {commit.run} begin with number {commit.first_event}; the first number is 1")


def check_fence(commit: Commit, *, status: str, epoch: int, last_event: int, head: str | None) -> None:
    """Whether a run as it is stored may be written by this commit; `head` is its session's. Raises Conflict."""
    if status != "running" or epoch != commit.epoch:
        raise refusals.lost_lease(commit, status, epoch)
    if commit.events and commit.first_event != last_event + 1:
        raise refusals.event_gap(commit, last_event)
    if commit.checkpoint is not None and head != commit.expect_head:
        raise refusals.stale_head(commit, head)


def check_session(session: Session, runs: Sequence[Run], links: Sequence[Link], calls: Sequence[CallRow]) -> Sequence[Link]:
    """The links of an imported session, each after its parent. Raises Invalid where rows do not belong together."""
    names = {run.id for run in runs}
    if any(run.session != session.id or run.owner != session.owner for run in runs):
        raise _incomplete(session, "a run belongs to another session or owner")
    if sum(run.status == "running" for run in runs) > 1:
        raise _incomplete(session, "two of its runs are running")
    for call in calls:
        if call.run not in names:
            raise _incomplete(session, f"call {call.call.call_id} is of run {call.run}, which is not among its runs")
    ordered = _parents_first(session, links)
    for link in ordered:
        if link.checkpoint.run not in names:
            raise _incomplete(session, f"checkpoint {link.checkpoint.id} is of run {link.checkpoint.run}, which is not among its runs")
        if [node.id for node in link.nodes] != list(link.checkpoint.appended):
            raise _incomplete(session, f"checkpoint {link.checkpoint.id} does not come with the nodes it lists")
    if session.head is not None and all(link.checkpoint.id != session.head for link in ordered):
        raise _incomplete(session, f"its head {session.head} is not among its checkpoints")
    return ordered


def _parents_first(session: Session, links: Sequence[Link]) -> list[Link]:
    waiting: dict[str | None, list[Link]] = {}
    for link in links:
        waiting.setdefault(link.checkpoint.parent, []).append(link)
    ordered = waiting.pop(None, [])
    for link in ordered:
        ordered.extend(waiting.pop(link.checkpoint.id, ()))
    if waiting:
        raise _incomplete(session, f"checkpoint {next(iter(waiting))} is a parent and is not among its checkpoints")
    return ordered


def _incomplete(session: Session, what: str) -> Invalid:
    return Invalid(f"the imported session {session.id} does not hold together: {what}", session=session.id)

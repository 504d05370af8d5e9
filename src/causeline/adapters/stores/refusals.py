"""Why a store says no: one code and one message for one reason, whichever backend says it."""

from causeline.errors import Conflict, Missing
from causeline.run.ledger import Call
from causeline.runtime.records import Commit


def run_conflict(run_id: str) -> Conflict:
    """The run id is taken by another start."""
    return Conflict(f"run {run_id} exists with another body; use a new run id", code="run_conflict", run=run_id)


def session_busy(session: str, run_id: str) -> Conflict:
    """Another run of the session is queued or running."""
    return Conflict(
        f"session {session} is busy with run {run_id}; wait for it, cancel it, or start with on_busy='enqueue'",
        code="session_busy",
        session=session,
        run=run_id,
    )


def interrupt_closed(interrupt: str, state: str) -> Conflict:
    """An answer to an interrupt that is not open."""
    return Conflict(f"interrupt {interrupt} is {state} already", code="interrupt_closed", interrupt=interrupt, state=state)


def lost_lease(commit: Commit, status: str, epoch: int) -> Conflict:
    """The run is not running under the writer's epoch."""
    return Conflict(
        f"run {commit.run} is {status} under epoch {epoch}; this writer has epoch {commit.epoch} and must stop",
        code="lost_lease",
        run=commit.run,
        epoch=epoch,
        status=status,
    )


def stale_head(commit: Commit, head: str | None) -> Conflict:
    """The session's head is not the one the writer has seen."""
    return Conflict(
        f"the head of session {commit.session} is {head}, not {commit.expect_head}; another run has moved it",
        code="stale_head",
        session=commit.session,
        head=head,
        expected=commit.expect_head,
    )


def event_gap(commit: Commit, last: int) -> Conflict:
    """The events do not follow those that are stored."""
    return Conflict(
        f"events of run {commit.run} end with number {last}; this commit goes on with {commit.first_event}",
        code="event_gap",
        run=commit.run,
        last=last,
    )


def call_moved(run_id: str, call: Call, state: str) -> Conflict:
    """The call is not where this move may start."""
    return Conflict(
        f"call {call.call_id} of run {run_id} is {state} and may not become {call.state}",
        code="call_moved",
        run=run_id,
        call=call.call_id,
        state=state,
    )


def wrong_status(run_id: str, then: str) -> Conflict:
    """The run may not become what the commit says."""
    return Conflict(f"run {run_id} is running and may not become {then}", code="run_ended", run=run_id, status="running")


def session_exists(session: str) -> Conflict:
    """An import of a session that is there."""
    return Conflict(f"session {session} exists already; delete it before importing it again", code="session_exists", session=session)


def run_exists(run_id: str, session: str) -> Conflict:
    """An import of a run id that another session has."""
    return Conflict(f"run {run_id} of the imported session {session} exists already", code="run_conflict", run=run_id)


def still_active(session: str, run_id: str) -> Conflict:
    """A session with a queued or running run is not deleted."""
    return Conflict(
        f"run {run_id} of session {session} is active; cancel it before deleting", code="session_busy", session=session, run=run_id
    )


def twice(checkpoint: str, session: str) -> Conflict:
    """The session has the checkpoint."""
    return Conflict(f"session {session} holds checkpoint {checkpoint} already", code="stale_head", session=session, checkpoint=checkpoint)


def no_session(session: str) -> Missing:
    """The owner has no such session."""
    return Missing(f"no session {session}", session=session)


def no_run(run_id: str) -> Missing:
    """The owner has no such run."""
    return Missing(f"no run {run_id}", run=run_id)


def no_checkpoint(checkpoint: str, session: str) -> Missing:
    """The session has no such checkpoint."""
    return Missing(f"session {session} has no checkpoint {checkpoint}", checkpoint=checkpoint, session=session)


def no_interrupt(interrupt: str, session: str) -> Missing:
    """The session has no such interrupt."""
    return Missing(f"session {session} has no interrupt {interrupt}", interrupt=interrupt, session=session)

"""Results that a client brings for calls of its own, checked before a run is stored.

Law: a result is for a call that is open where the run begins, and is the client's; everything else is refused.
"""

from collections.abc import Sequence

from causeline.errors import Invalid
from causeline.models.messages import Message
from causeline.runtime.branch_history import Branch
from causeline.runtime.records import CallRow, Run, Session
from causeline.runtime.store import Store


async def check_results(store: Store, run: Run, messages: Sequence[Message]) -> None:
    """Raises Invalid for results of calls that the client has not open where the run begins."""
    given = [one.tool_call_id for one in messages if one.role == "tool"]
    if not given:
        return
    known = await store.rows(Run, owner=run.owner, id=run.id)
    if known:
        return
    sessions = await store.rows(Session, owner=run.owner, id=run.session)
    base = run.at or (sessions[0].head if sessions else None)
    branch = Branch.read(await store.branch(run.owner, run.session, base)) if sessions else None
    open_calls = branch.transcript.open if branch else {}
    client = (
        {row.call.call_id for row in await store.rows(CallRow, owner=run.owner, session=run.session) if row.call.client}
        if sessions
        else set[str]()
    )
    findings = [f"{name}: no open call of the client has this id" for name in given if name not in open_calls or name not in client]
    if len(set(given)) != len(given):
        findings.append("the same call is answered twice")
    if findings:
        raise Invalid("; ".join(findings), findings=findings)

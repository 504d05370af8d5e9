"""A session as one verified file, and back.

Law: what is imported was verified whole before a row is written. Runs come in as they ended; one that had not
ended is cancelled, since its process is not here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, cast

from causeline.causal import AgentState, CheckpointRow, Export, build_export, checkpoint_id
from causeline.run.ledger import Call
from causeline.runtime.import_rows import check_rows
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Link, Run, Session

_NOT_EXPORTED = frozenset({"holder", "beat", "epoch", "queue", "cancel_requested", "last_event"})
"""Fields of a run that belong to the place where it runs."""
_RUN = {one.name for one in fields(Run)} - _NOT_EXPORTED
_CALL = {one.name for one in fields(Call)}


def checkpoint_row(checkpoint: Checkpoint) -> CheckpointRow:
    """A checkpoint as exports carry it, without facts."""
    row = {one.name: getattr(checkpoint, one.name) for one in fields(Checkpoint) if one.name != "facts"}
    lists = {"path": list(checkpoint.path), "appended": list(checkpoint.appended), "frontier": list(checkpoint.frontier)}
    return cast("CheckpointRow", {**row, **lists})


def run_row(run: Run) -> dict[str, Any]:
    """A run as exports carry it."""
    return {name: _plain(getattr(run, name)) for name in sorted(_RUN)}


def call_row(row: CallRow) -> dict[str, Any]:
    """A ledger row as exports carry it: `run_id` and the call."""
    return {"run_id": row.run, **asdict(row.call)}


def export(session: Session, head: str | None, links: Sequence[Link], runs: Sequence[Run], calls: Sequence[CallRow]) -> bytes:
    """The bundle of the branches in `links`; only runs and calls that have a part in them go along."""
    present = {link.checkpoint.run for link in links}
    nodes = {node.id: node for link in links for node in link.nodes}
    return build_export(
        session=session.id,
        owner=session.owner,
        head=head,
        nodes=nodes.values(),
        checkpoints=[checkpoint_row(link.checkpoint) for link in links],
        runs=[run_row(one) for one in runs if one.id in present],
        calls=[call_row(one) for one in calls if one.run in present],
        facts=[{"checkpoint": link.checkpoint.id, **link.checkpoint.facts} for link in links if link.checkpoint.facts],
    )


def rows_of(bundle: Export, owner: str, at: str) -> tuple[Session, Sequence[Run], Sequence[Link], Sequence[CallRow]]:
    """The rows of a verified bundle, for `owner`. Raises VerifyError for a row that no run can have written."""
    check_rows(bundle)
    nodes = {node.id: node for node in (*bundle.state.nodes, *bundle.nodes)}
    facts = {row["checkpoint"]: {key: value for key, value in row.items() if key != "checkpoint"} for row in bundle.facts}
    links = [
        Link(Checkpoint(**cast("Any", row), facts=facts.get(row["id"], {})), [nodes[name] for name in row["appended"]])
        for row in parents_first(bundle.checkpoints)
    ]
    runs = [_ended(Run(**cast("Any", {**_only(row, _RUN), "owner": owner})), at) for row in bundle.runs]
    calls = [CallRow(run=row["run_id"], call=Call(**cast("Any", _only(row, _CALL)))) for row in bundle.calls]
    return Session(id=bundle.session, owner=owner, head=bundle.head, created_at=at, updated_at=at), runs, links, calls


def as_bundle(state: AgentState, session: str, run: str, at: str) -> Export:
    """A bare log as a bundle: one checkpoint that appended all of it, of a run that only took it in."""
    names = [node.id for node in state.nodes]
    hashed: dict[str, Any] = {
        "parent": None, "run": run, "path": [], "node": "import", "port": "done", "next": None, "appended": names,
        "frontier": sorted(state.frontier), "delta": {}, "position": None,
    }  # fmt: skip
    head = checkpoint_id(**hashed)
    row = cast("CheckpointRow", {**hashed, "id": head, "session": session, "step": 0, "created_at": at})
    took = Run(
        id=run, session=session, owner="", status="succeeded", agent="import", created_at=at, started_at=at, finished_at=at, head=head
    )
    return Export(
        session=session, owner="", head=head, state=state, nodes=(), checkpoints=(row,), runs=(run_row(took),), calls=(), facts=(),
        digest="",
    )  # fmt: skip


def parents_first(rows: Sequence[CheckpointRow]) -> Sequence[CheckpointRow]:
    """The rows so that each follows its parent."""
    children: dict[str | None, list[CheckpointRow]] = {}
    for row in rows:
        children.setdefault(row["parent"], []).append(row)
    ordered: list[CheckpointRow] = []
    todo: list[str | None] = [None]
    while todo:
        for row in children.get(todo.pop(), ()):
            ordered.append(row)
            todo.append(row["id"])
    return ordered


def _only(row: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key in names}


def _ended(run: Run, at: str) -> Run:
    if run.status in ACTIVE:
        return replace(run, status="cancelled", stop_reason="cancelled", finished_at=at)
    return run


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    return value

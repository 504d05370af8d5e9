"""What a read does, as `operations` says what a write does: queries out, rows in, records back."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from causeline.adapters.stores import refusals, rules
from causeline.adapters.stores.sql import encoding
from causeline.adapters.stores.sql.writes import Operation
from causeline.causal import CausalNode
from causeline.errors import Corrupt
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Interrupt, Link, Progress, Run, Session


def branch(owner: str, session: str, head: str | None) -> Operation[Sequence[Link]]:
    """See `Store.branch`. Raises Corrupt where a node is not what its id says, or not there."""
    if head is None:
        return []
    packed = encoding.pack("ck_", head)
    rows: Sequence[Sequence[Any]] = ()
    if packed is not None:
        rows = yield "branch", (owner, session, packed)
    if not rows:
        raise refusals.no_checkpoint(head, session)
    links: list[Link] = []
    nodes: dict[str, CausalNode] = {}
    for _, place, text, number, parent, name, ids, extra, created_at, body in rows:
        if place >= 0:
            node = encoding.node_from(name, text, ids, extra, created_at, body)
            nodes[node.id] = node
        else:
            checkpoint = encoding.checkpoint_from((session, text, number, parent, name, ids, extra, created_at, body))
            links.append(Link(checkpoint, []))
    for place, link in enumerate(links):
        links[place] = Link(link.checkpoint, (yield from _nodes(owner, session, link.checkpoint, nodes)))
    return links


def _nodes(owner: str, session: str, checkpoint: Checkpoint, nodes: dict[str, CausalNode]) -> Operation[list[CausalNode]]:
    """The nodes a checkpoint lists. One that another branch brought is not among those of this branch."""
    found: list[CausalNode] = []
    for name in checkpoint.appended:
        if name not in nodes:
            rows = yield "node_in_session", (owner, session, bytes.fromhex(name[3:]))
            if not rows:
                raise Corrupt(f"checkpoint {checkpoint.id} lists node {name}, which is not stored", checkpoint=checkpoint.id, node=name)
            nodes[name] = encoding.node_from(*rows[0])
        found.append(nodes[name])
    return found


def node(owner: str, node_id: str) -> Operation[Sequence[tuple[str, CausalNode]]]:
    """See `Store.node`."""
    packed = encoding.pack("cw_", node_id)
    if packed is None:
        return []
    rows = yield "node_by_id", (owner, packed)
    return [(row[0], encoding.node_from(*row[1:])) for row in rows]


def events(owner: str, run_id: str, after: int, limit: int) -> Operation[Sequence[Mapping[str, Any]]]:
    """See `Store.events`."""
    rows = yield "run_no", (owner, run_id)
    if not rows:
        raise refusals.no_run(run_id)
    packed = yield "events_after", (rows[0][0], max(after, 0) + 1, limit + 1)
    return encoding.events_from(packed, after, limit)


_RUN = {"owner": "r.owner", "session": "s.id", "run": "r.id"}
_SESSION = {"owner": "s.owner", "session": "s.id"}
# To each kind: its query, its filters' columns, its order, and how a row becomes a record.
_KINDS: Mapping[type, tuple[str, Mapping[str, str], str, Callable[[encoding.Columns], Any]]] = {
    Session: ("rows_session", _SESSION | {"id": "s.id"}, "s.no", encoding.session_from),
    Run: ("rows_run", _RUN | {"id": "r.id", "status": "r.status"}, "r.no", encoding.run_from),
    Checkpoint: ("rows_checkpoint", _SESSION | {"run": "r.id", "id": "c.id"}, "c.session, c.no", encoding.checkpoint_from),
    CallRow: ("rows_call", _RUN | {"id": "c.id", "status": "c.state"}, "c.run, c.no", encoding.call_from),
    Interrupt: (
        "rows_interrupt",
        _SESSION | {"run": "i.run", "id": "i.id", "status": "i.state"},
        "i.session, i.no",
        encoding.interrupt_from,
    ),
    Progress: ("rows_progress", _RUN, "p.run, p.no", encoding.progress_from),
}


def rows(
    kind: type, *, owner: str | None, session: str | None, run: str | None, name: str | None, status: Sequence[str], limit: int | None
) -> Operation[Sequence[Any]]:
    """See `Store.rows`. The query is put together from fixed text; what was given is a parameter always."""
    rules.check_filters(kind, run=run, id=name, status=status)
    query, columns, order, decode = _KINDS[kind]
    given: list[Any] = []
    text = ""
    for field, value in (("owner", owner), ("session", session), ("run", run), ("id", _stored(kind, name))):
        if value is not None:
            given.append(value)
            text += f" AND {columns[field]} = ${len(given)}"
    if owner is not None and columns["owner"] == "r.owner":
        text += " AND s.owner = $1"
    if status:
        if kind is Run and ACTIVE.issuperset(status):
            query = "rows_run_active"
        numbers = [f"${len(given) + place}" for place in range(1, len(status) + 1)]
        given.extend(encoding.STATE_CODES.get(word, -1) if kind is CallRow else word for word in status)
        text += f" AND {columns['status']} IN ({', '.join(numbers)})"
    text += f" ORDER BY {order}"
    if limit is not None:
        given.append(limit)
        text += f" LIMIT ${len(given)}"
    found = yield f"{query}{text}", given
    return [decode(row) for row in found]


def _stored(kind: type, name: str | None) -> str | bytes | None:
    """An id as its column holds it; what is no checkpoint id matches none."""
    if name is None:
        return None
    if kind is Checkpoint:
        return encoding.pack("ck_", name) or b""
    return encoding.text_bytes(name) if kind is CallRow else name

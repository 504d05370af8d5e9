"""What a read does, as `operations` says what a write does: queries out, rows in, records back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from causeline.adapters.stores import refusals
from causeline.adapters.stores.row_filters import Wanted, no_cursor
from causeline.adapters.stores.sql import encoding
from causeline.adapters.stores.sql.operation import Operation
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


@dataclass(frozen=True, slots=True)
class _Kind:
    """How rows of one kind are read: the end of its queries' names, its filters' columns, its order, and what a row becomes."""

    name: str
    columns: Mapping[str, str]
    order: Sequence[str]
    decode: Callable[[encoding.Columns], Any]


_RUN = {"owner": "r.owner", "session": "s.id", "run": "r.id"}
_SESSION = {"owner": "s.owner", "session": "s.id"}
_KINDS: Mapping[type, _Kind] = {
    Session: _Kind("session", _SESSION | {"id": "s.id"}, ["s.no"], encoding.session_from),
    Run: _Kind("run", _RUN | {"id": "r.id", "status": "r.status", "parent": "r.parent"}, ["r.no"], encoding.run_from),
    Checkpoint: _Kind("checkpoint", _SESSION | {"run": "r.id", "id": "c.id"}, ["c.session", "c.no"], encoding.checkpoint_from),
    CallRow: _Kind("call", _RUN | {"id": "c.id", "status": "c.state"}, ["c.run", "c.no"], encoding.call_from),
    Interrupt: _Kind(
        "interrupt", _SESSION | {"run": "i.run", "id": "i.id", "status": "i.state"}, ["i.session", "i.no"], encoding.interrupt_from
    ),
    Progress: _Kind("progress", _RUN, ["p.run", "p.no"], encoding.progress_from),
}  # fmt: skip


class _Clause:
    """What follows WHERE, put together from fixed text; what was given is a parameter always."""

    def __init__(self) -> None:
        self.text = ""
        self.parameters: list[Any] = []

    def put(self, value: Any) -> str:
        """A parameter, as the text names it."""
        self.parameters.append(value)
        return f"${len(self.parameters)}"

    def equal(self, column: str, value: Any) -> None:
        """Only rows with this value; None stands for any."""
        if value is not None:
            self.text += f" AND {column} = {self.put(value)}"


def rows(kind: type, wanted: Wanted) -> Operation[Sequence[Any]]:
    """See `Store.rows`."""
    read = _KINDS[kind]
    clause = _scope(read, wanted)
    clause.equal(read.columns.get("id", ""), _stored(kind, wanted.id))
    clause.equal(read.columns.get("parent", ""), wanted.parent)
    if wanted.status:
        words = [encoding.STATE_CODES.get(word, -1) if kind is CallRow else word for word in wanted.status]
        clause.text += f" AND {read.columns['status']} IN ({', '.join(map(clause.put, words))})"
    if wanted.after is not None:
        place = yield from _place(kind, read, wanted, wanted.after)
        sign = "<" if wanted.newest else ">"
        clause.text += f" AND ({', '.join(read.order)}) {sign} ({', '.join(map(clause.put, place))})"
    direction = " DESC" if wanted.newest else ""
    clause.text += f" ORDER BY {', '.join(column + direction for column in read.order)}"
    if wanted.limit is not None:
        clause.text += f" LIMIT {clause.put(wanted.limit)}"
    found = yield f"{_query(kind, read, wanted)}{clause.text}", clause.parameters
    return [read.decode(row) for row in found]


def _query(kind: type, read: _Kind, wanted: Wanted) -> str:
    if wanted.turn:
        return "rows_run_turn_in_session" if wanted.session is not None else "rows_run_turn"
    if kind is Run and wanted.status and ACTIVE.issuperset(wanted.status):
        return "rows_run_active"
    return f"rows_{read.name}"


def _scope(read: _Kind, wanted: Wanted) -> _Clause:
    clause = _Clause()
    clause.equal(read.columns["owner"], wanted.owner)
    if wanted.owner is not None and read.columns["owner"] != "s.owner":
        clause.text += " AND s.owner = $1"
    clause.equal(read.columns["session"], wanted.session)
    clause.equal(read.columns.get("run", ""), wanted.run)
    return clause


def _place(kind: type, read: _Kind, wanted: Wanted, after: str) -> Operation[Sequence[int]]:
    clause = _scope(read, wanted)
    clause.equal(read.columns["id"], _stored(kind, after))
    places = yield f"place_{read.name}{clause.text}", clause.parameters
    if not places:
        raise no_cursor(kind, after)
    return places[0]


def _stored(kind: type, name: str | None) -> str | bytes | None:
    """An id as its column holds it; what is no checkpoint id matches none."""
    if name is None:
        return None
    if kind is Checkpoint:
        return encoding.pack("ck_", name) or b""
    return encoding.text_bytes(name) if kind is CallRow else name

"""What a read does, as `operations` says how: queries out, rows in, records back.

Law: what is stored is not trusted to be whole. Bytes that cannot be read are Corrupt, with the row they are in, and never an error
of the code that reads them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from causeline.adapters.stores import refusals
from causeline.adapters.stores.row_filters import Wanted, no_cursor
from causeline.adapters.stores.sql import encoding, log_rows
from causeline.adapters.stores.sql.log_writes import place_of
from causeline.adapters.stores.sql.operation import Operation
from causeline.adapters.stores.sql.row_checks import checked, checked_events
from causeline.causal import CausalNode
from causeline.errors import CauselineError, Corrupt
from causeline.run.ledger import Call
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Interrupt, Link, Progress, Run, Session

T = TypeVar("T")
Columns = Sequence[Any]


def decoded(what: str, decode: Callable[..., T], *columns: Any) -> T:
    """What the columns stand for. Raises Corrupt where they stand for nothing."""
    try:
        return decode(*columns)
    except CauselineError:
        raise
    except Exception as error:
        raise Corrupt(f"{what} cannot be read ({type(error).__name__}: {error}); restore the store from a copy") from error


# the log


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the log that tells of a checkpoint."""

    no: int
    run: str
    parent: int | None
    keys: bytes
    body: bytes


def located(owner: str, key: bytes | None) -> Operation[Sequence[Columns]]:
    """The rows of `log_at` that list an id, oldest first."""
    found: list[Columns] = []
    if key is not None:
        for (number,) in (yield "places", (place_of(key), key)):
            rows = yield "log_at", (number, owner)
            found += [row for row in rows if key == row[4][: log_rows.ID] or key in log_rows.ids(row[4])]
    return found


def branch(owner: str, session: str, head: str | None) -> Operation[Sequence[Link]]:
    """See `Store.branch`. Raises Corrupt where a node is not what its id says, or not there."""
    if head is None:
        return []
    rows = yield from _chain(owner, session, head)
    before: bytes | None = None
    parts: list[tuple[Checkpoint, log_rows.Said, list[bytes]]] = []
    for row in rows:
        said, payloads, _ = decoded(f"row {row.no} of session {session}", log_rows.whole, row.body)
        checkpoint = decoded(f"row {row.no}", _checkpoint_of, session, row.run, before, row.keys, said.step)
        parts.append((checkpoint, said, payloads))
        before = row.keys
    elsewhere = yield from _elsewhere({node for _, said, _ in parts for node in said.nodes if type(node) is int})
    return [Link(checkpoint, _nodes(checkpoint, said, payloads, elsewhere)) for checkpoint, said, payloads in parts]


def _checkpoint_of(session: str, run: str, parent: bytes | None, keys: bytes, step: Any) -> Checkpoint:
    return checked(log_rows.checkpoint_of(session, run, parent, keys, step))


def _chain(owner: str, session: str, head: str) -> Operation[list[_Row]]:
    """The rows from the root of a branch to its head. A run's rows are fetched at once, the ones beside the branch are left out."""
    at = yield from _row_of(owner, session, head)
    if at is None:
        raise refusals.no_checkpoint(head, session)
    fetched: dict[int, _Row] = {}
    chain: list[_Row] = []
    while at is not None:
        row = fetched.get(at)
        if row is None:
            yield from _fetch(owner, at, fetched)
            row = fetched.get(at)
        if row is None:
            raise Corrupt(
                f"row {at}, which the branch of {head} goes through, is not stored; restore the store from a copy", checkpoint=head
            )
        if row.parent is not None and row.parent >= at:
            raise Corrupt(f"row {at} of session {session} comes before its own parent; restore the store from a copy", checkpoint=head)
        chain.append(row)
        at = row.parent
    chain.reverse()
    return chain


def _row_of(owner: str, session: str, checkpoint: str) -> Operation[int | None]:
    packed = encoding.pack("ck_", checkpoint)
    for row in (yield from located(owner, packed)):
        if row[7] == session and row[4][: log_rows.ID] == packed:
            return row[0]
    return None


def _fetch(owner: str, number: int, fetched: dict[int, _Row]) -> Operation[None]:
    """Fetch the checkpoints of the run that a row belongs to, up to that row."""
    found = yield "log_at", (number, owner)
    for _, run, name, *_, first in found:
        rows = yield "log_of_run", (run, first, number)
        fetched.update((no, _Row(no, name, parent, keys, body)) for no, parent, keys, body in rows)


def _elsewhere(numbers: set[int]) -> Operation[Mapping[int, tuple[bytes, log_rows.Said, list[bytes]]]]:
    """The rows of other branches that have nodes of this one."""
    found: dict[int, tuple[bytes, log_rows.Said, list[bytes]]] = {}
    for number in sorted(numbers):
        for keys, body in (yield "log_body", (number,)):
            said, payloads, _ = decoded(f"row {number}", log_rows.whole, body)
            found[number] = keys, said, payloads
    return found


def _nodes(
    checkpoint: Checkpoint,
    said: log_rows.Said,
    payloads: Sequence[bytes],
    elsewhere: Mapping[int, tuple[bytes, log_rows.Said, list[bytes]]],
) -> list[CausalNode]:
    names = list(checkpoint.appended)
    nodes: list[CausalNode] = []
    own = iter(payloads)
    for place, name in enumerate(names):
        node: Any = said.nodes[place] if place < len(said.nodes) else None
        payload = next(own, None) if log_rows.has_payload(node) else None
        if payload is not None:
            nodes.append(decoded(f"node {name}", log_rows.node_at, place, names, said, payload))
        elif type(node) is int and node in elsewhere:
            nodes.append(_node_elsewhere(name, elsewhere[node]))
        else:
            raise Corrupt(f"checkpoint {checkpoint.id} lists node {name}, which is not stored", checkpoint=checkpoint.id, node=name)
    return nodes


def _node_elsewhere(name: str, row: tuple[bytes, log_rows.Said, list[bytes]]) -> CausalNode:
    keys, said, payloads = row
    names = log_rows.names(keys)
    return _node_in(name, names, said, payloads)


def _node_in(name: str, names: Sequence[str], said: log_rows.Said, payloads: Sequence[bytes]) -> CausalNode:
    place = names.index(name)
    return decoded(f"node {name}", log_rows.node_at, place, names, said, payloads[log_rows.payload_place(said.nodes, place)])


def node(owner: str, node_id: str) -> Operation[Sequence[tuple[str, CausalNode]]]:
    """See `Store.node`."""
    found: list[tuple[int, str, CausalNode]] = []
    for row in (yield from located(owner, encoding.pack("cw_", node_id))):
        said, payloads, _ = decoded(f"row {row[0]}", log_rows.whole, row[5])
        names = log_rows.names(row[4])
        if node_id in names and log_rows.has_payload(said.nodes[names.index(node_id)]):
            found.append((row[6], row[7], _node_in(node_id, names, said, payloads)))
    return [(session, node) for _, session, node in sorted(found, key=lambda entry: entry[0])]


def events(owner: str, run_id: str, after: int, limit: int) -> Operation[Sequence[Mapping[str, Any]]]:
    """See `Store.events`."""
    rows = yield "run_no", (owner, run_id)
    if not rows:
        raise refusals.no_run(run_id)
    after = max(after, 0)
    found: list[Mapping[str, Any]] = []
    for first, told, body in (yield "events_after", (rows[0][0], after + 1, after + limit)):
        for place, event in enumerate(decoded(f"the events of run {run_id} from number {first} on", _events_in, body, told)):
            if first + place > after:
                event["seq"] = first + place
                found.append(event)
    return found[:limit]


def _events_in(body: bytes, told: int) -> list[dict[str, Any]]:
    return checked_events(log_rows.events_in(body), told)


# rows


@dataclass(frozen=True, slots=True)
class _Kind:
    """How rows of one kind are read: the end of its queries' names, its filters' columns, its order, and what a row becomes."""

    name: str
    columns: Mapping[str, str]
    order: Sequence[str]
    decode: Callable[[Columns], Any]


def _checkpoint(row: Columns) -> Checkpoint:
    session, run, parent, keys, body = row
    return log_rows.checkpoint_of(session, run, parent, keys, log_rows.said(body).step)


_SCOPE = {"owner": "s.owner", "session": "s.id"}
_RUN = _SCOPE | {"run": "r.id"}
_KINDS: Mapping[type, _Kind] = {
    Session: _Kind("session", _SCOPE | {"id": "s.id"}, ["s.no"], encoding.session_from),
    Run: _Kind("run", _RUN | {"id": "r.id", "status": "r.status", "parent": "r.parent"}, ["r.no"], encoding.run_from),
    Checkpoint: _Kind("checkpoint", _RUN, ["s.no", "r.no", "l.first", "l.no"], _checkpoint),
    Interrupt: _Kind(
        "interrupt", _SCOPE | {"run": "i.run", "id": "i.id", "status": "i.state"}, ["i.session", "i.no"], encoding.interrupt_from
    ),
    Progress: _Kind("progress", _RUN, ["p.run", "p.no"], encoding.progress_from),
}  # fmt: skip
_CALLS = _Kind("call", _RUN, ["r.no", "l.first", "l.no"], lambda row: row)


class _Clause:
    """What follows WHERE, put together from fixed text; what was given is a parameter always."""

    def __init__(self, read: _Kind, wanted: Wanted) -> None:
        self.text = ""
        self.parameters: list[Any] = []
        self.equal(read.columns["owner"], wanted.owner)
        if wanted.owner is not None and "run" in read.columns:
            self.text += " AND r.owner = $1" if read.columns["run"] == "r.id" else ""
        self.equal(read.columns["session"], wanted.session)
        self.equal(read.columns.get("run", ""), wanted.run)

    def put(self, value: Any) -> str:
        """A parameter, as the text names it."""
        self.parameters.append(value)
        return f"${len(self.parameters)}"

    def equal(self, column: str, value: Any) -> None:
        """Only rows with this value; None stands for any."""
        if value is not None:
            self.text += f" AND {column} = {self.put(value)}"

    def one_of(self, column: str, values: Sequence[Any]) -> None:
        """Only rows with one of these values."""
        self.text += f" AND {column} IN ({', '.join(map(self.put, values))})"

    def ordered(self, order: Sequence[str], wanted: Wanted, place: Sequence[int] | None, *, limited: bool = True) -> str:
        """The whole of it, with its order, from a place on."""
        if place is not None:
            sign = "<" if wanted.newest else ">"
            self.text += f" AND ({', '.join(order)}) {sign} ({', '.join(map(self.put, place))})"
        direction = " DESC" if wanted.newest else ""
        self.text += f" ORDER BY {', '.join(column + direction for column in order)}"
        if limited and wanted.limit is not None:
            self.text += f" LIMIT {self.put(wanted.limit)}"
        return self.text


def rows(kind: type, wanted: Wanted) -> Operation[Sequence[Any]]:
    """See `Store.rows`."""
    if kind is CallRow:
        return (yield from _call_rows(wanted))
    read = _KINDS[kind]
    clause = _Clause(read, wanted)
    if kind is Checkpoint:
        if wanted.id is not None:
            numbers = yield from _numbers(wanted.id)
            if not numbers:
                return []
            clause.one_of("l.no", numbers)
    else:
        clause.equal(read.columns.get("id", ""), wanted.id)
    clause.equal(read.columns.get("parent", ""), wanted.parent)
    if wanted.status:
        clause.one_of(read.columns["status"], wanted.status)
    place = None if wanted.after is None else (yield from _place(kind, read, wanted, wanted.after))
    found = yield f"{_query(kind, read, wanted)}{clause.ordered(read.order, wanted, place)}", clause.parameters
    return [decoded(f"a row of {kind.__name__}", _read_record, read.decode, row) for row in found]


def _read_record(decode: Callable[[Columns], Any], row: Columns) -> Any:
    return checked(decode(row))


def _query(kind: type, read: _Kind, wanted: Wanted) -> str:
    if wanted.turn:
        return "rows_run_turn_in_session" if wanted.session is not None else "rows_run_turn"
    if kind is Run and wanted.status and ACTIVE.issuperset(wanted.status):
        return "rows_run_active"
    return f"rows_{read.name}"


def _numbers(checkpoint: str) -> Operation[Sequence[int]]:
    """The rows that may tell of a checkpoint."""
    packed = encoding.pack("ck_", checkpoint)
    if packed is None:
        return []
    numbers: list[int] = []
    for (number,) in (yield "places", (place_of(packed), packed)):
        bodies = yield "log_body", (number,)
        numbers += [number for keys, _ in bodies if keys[: log_rows.ID] == packed]
    return numbers


def _place(kind: type, read: _Kind, wanted: Wanted, after: str) -> Operation[Sequence[int]]:
    """Where the row with this id stands in the order of its kind. Raises Missing."""
    clause = _Clause(read, wanted)
    if kind is Checkpoint:
        numbers = yield from _numbers(after)
        clause.one_of("l.no", numbers or [-1])
    else:
        clause.equal(read.columns["id"], after)
    places = yield f"place_{read.name}{clause.text}", clause.parameters
    if not places:
        raise no_cursor(kind, after)
    return places[0]


def _call_rows(wanted: Wanted) -> Operation[Sequence[CallRow]]:
    """Calls, folded from the rows that tell of them, run by run."""
    clause = _Clause(_CALLS, wanted)
    everything = Wanted(owner=wanted.owner)
    folds: dict[tuple[str, int], log_rows.CallFold] = {}
    for run, number, body in (yield f"rows_call{clause.ordered(_CALLS.order, everything, None)}", clause.parameters):
        decoded(f"the calls of run {run}", folds.setdefault((run, number), log_rows.CallFold()).read, body)
    found = [CallRow(run=run, call=call) for (run, _), fold in folds.items() for call in decoded(f"the calls of run {run}", fold.calls)]
    if wanted.newest:
        found.reverse()
    if wanted.after is not None:
        names = [row.call.call_id for row in found]
        if wanted.after not in names:
            raise no_cursor(CallRow, wanted.after)
        found = found[names.index(wanted.after) + 1 :]
    return [row for row in found if _wanted_call(row.call, wanted)][: wanted.limit]


def _wanted_call(call: Call, wanted: Wanted) -> bool:
    return wanted.id in (None, call.call_id) and (not wanted.status or call.state in wanted.status)

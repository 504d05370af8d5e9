"""A commit as one row of the log, and back.

Law: a row alone says everything its commit said, except of a call what an earlier row of its run has said already, and except of
a node what an earlier row of its session has. What it says is text, squeezed once: a line of JSON (the checkpoint, what the
nodes are besides their payload, the calls), a line for each payload byte for byte, and a line for the events.

    [step, nodes, calls]            step is 0 where there is no checkpoint
    step   [index, node, port, next, frontier, delta, position, facts, created_at, path]
    node   [kind, parents, key, created_at], or the number of the row that has it
    call   [id, state, spec, rest]  spec is [name, arguments, args_hash, index, client, idempotency_key, opened_in], 0 as said before
                                    rest is [attempts, step, ok, result, reason, reported, decisions], its end left out where that is None

0 stands for None and for a node's time that is the checkpoint's. `ok` is 1 for True and 2 for False. Ids of nodes are places
among those the checkpoint appends, or 24 digits. The ids themselves are in the column `keys`: the checkpoint's 12 bytes, then
those of each node.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from causeline.adapters.stores import refusals
from causeline.adapters.stores.rules import MOVES_INTO
from causeline.adapters.stores.sql.compression import expand, expand_line, squeeze
from causeline.adapters.stores.sql.encoding import STATE_CODES, STATES, dump, load_text, pack, pack_checkpoint, pack_node
from causeline.adapters.stores.sql.row_checks import checked
from causeline.causal import CausalNode, stored_node
from causeline.errors import Corrupt
from causeline.run.ledger import FINISHED, Call
from causeline.runtime.records import Checkpoint, Commit

ID = 12
"""Bytes of an id in `keys`."""
_SPACE = 32


class PackedCall(NamedTuple):
    """A call as text: its id, the code of its state, what never changes of it, what does, and whether it is over."""

    id: str
    name: bytes
    code: int
    spec: bytes
    rest: bytes
    finished: bool


@dataclass(slots=True)
class PackedCommit:
    """What a commit says, as text that only has to be put together. `parent` and `expect_head` are ids as bytes."""

    keys: bytes | None = None
    parent: bytes | None = None
    step: bytes = b"0"
    nodes: list[Any] = field(default_factory=list[Any])
    payloads: list[bytes] = field(default_factory=list[bytes])
    calls: list[PackedCall] = field(default_factory=list[PackedCall])
    events: bytes = b""

    @property
    def size(self) -> int:
        """Bytes of what may be large in it."""
        return (
            len(self.step) + len(self.events) + sum(map(len, self.payloads)) + sum([len(call.spec) + len(call.rest) for call in self.calls])
        )

    @property
    def head(self) -> bytes | None:
        """The id of its checkpoint."""
        return None if self.keys is None else self.keys[:ID]


# packing


def packed(commit: Commit) -> PackedCommit:
    """A commit as text. Raises Invalid for what JSON cannot hold and for what is no id, Missing for a parent that is none."""
    row = PackedCommit() if commit.checkpoint is None else packed_step(commit.checkpoint, commit.nodes)
    if commit.calls:
        row.calls = [packed_call(call) for call in commit.calls]
    if commit.events:
        row.events = dump(commit.events)
    return row


def packed_step(checkpoint: Checkpoint, nodes: Sequence[CausalNode]) -> PackedCommit:
    """A checkpoint and its nodes alone; see `packed`."""
    parent = None if checkpoint.parent is None else pack("ck_", checkpoint.parent)
    if parent is None and checkpoint.parent is not None:
        raise refusals.no_checkpoint(checkpoint.parent, checkpoint.session)
    places = {node.id: place for place, node in enumerate(nodes)}
    step = dump([
        checkpoint.step, checkpoint.node, checkpoint.port, 0 if checkpoint.next is None else checkpoint.next,
        _references(checkpoint.frontier, places), checkpoint.delta, checkpoint.position, checkpoint.facts, checkpoint.created_at,
        checkpoint.path,
    ])  # fmt: skip
    return PackedCommit(
        keys=b"".join([pack_checkpoint(checkpoint.id), *[pack_node(node.id) for node in nodes]]),
        parent=parent,
        step=step,
        nodes=[_packed_node(node, places, checkpoint.created_at) for node in nodes],
        payloads=[node.payload_bytes for node in nodes],
    )


def _packed_node(node: CausalNode, places: Mapping[str, int], created_at: str) -> list[Any]:
    time = 0 if node.created_at == created_at else node.created_at
    return [node.kind, _references(node.parents, places), 0 if node.resource_key is None else node.resource_key, time]


def _references(names: Iterable[str], places: Mapping[str, int]) -> list[int | str]:
    return [places[name] if name in places else pack_node(name).hex() for name in names]


def packed_call(call: Call) -> PackedCall:
    """A call as text. Raises Invalid for what JSON cannot hold."""
    reason, reported = 0 if call.reason is None else call.reason, 0 if call.reported is None else call.reported
    rest: list[Any] = [call.attempts, call.step, _OKS[call.ok], call.result, reason, reported, call.decisions or 0]
    while len(rest) > _REST and rest[-1] == 0 and type(rest[-1]) is int:
        rest.pop()
    if len(rest) == _REST and call.result is None and call.ok is None:
        del rest[2:]
    spec = dump([call.name, call.arguments, call.args_hash, call.index, call.client, call.idempotency_key, call.opened_in])
    return PackedCall(call.call_id, dump(call.call_id), STATE_CODES[call.state], spec, dump(rest), call.state in FINISHED)


_REST = 4
_OKS = {None: 0, True: 1, False: 2}


def body(row: PackedCommit, said: Mapping[str, bytes], elsewhere: Mapping[bytes, int]) -> bytes:
    """The column. `said` is, to each call id, what was said before as `spec`; `elsewhere` the rows that have nodes already."""
    nodes, payloads = row.nodes, row.payloads
    if elsewhere and nodes:
        rows = [elsewhere.get(name) for name in ids(row.keys or b"")]
        nodes = [node if number is None else number for node, number in zip(nodes, rows, strict=True)]
        payloads = [payload for payload, number in zip(payloads, rows, strict=True) if number is None]
    parts = [row.step, dump(nodes) if nodes else b"[]"]
    texts: list[bytes] = []
    for call in row.calls:
        spec = b"0" if said.get(call.id) == call.spec else call.spec
        parts += (call.name, spec, call.rest)
        texts.append(b"[%b,%d,%b,%b]" % (call.name, call.code, spec, call.rest))
    # A part that begins with a space is one that orjson does not read exactly.
    exact = b" " if any(part[0] == _SPACE for part in parts) else b""
    first = b"%b[%b,%b,[%b]]" % (exact, parts[0], parts[1], b",".join(texts))
    return squeeze(b"\n".join([first, *payloads, row.events]))


# reading


class Said(NamedTuple):
    """What a row says: the three parts of its first line."""

    step: Any
    nodes: list[Any]
    calls: list[Any]


def said(data: bytes) -> Said:
    """The first line alone, which costs less than the whole."""
    return Said(*load_text(expand_line(data)))


def whole(data: bytes) -> tuple[Said, list[bytes], bytes]:
    """All lines: the first, the payloads, the events as text."""
    first, *payloads, events = expand(data).split(b"\n")
    return Said(*load_text(first)), payloads, events


def events_in(data: bytes) -> list[Any]:
    """The events of a row."""
    return load_text(expand(data).rpartition(b"\n")[2])


def ids(keys: bytes) -> list[bytes]:
    """The ids of nodes in the column `keys`."""
    return [keys[place : place + ID] for place in range(ID, len(keys), ID)]


def names(keys: bytes) -> list[str]:
    """The same as text."""
    text = keys.hex()
    return ["cw_" + text[place : place + 2 * ID] for place in range(2 * ID, len(text), 2 * ID)]


def rows_of_ids(rows: Iterable[Sequence[Any]]) -> dict[bytes, int]:
    """From (number, keys) of rows in order: to each node the first row that lists it, which is the one that has it."""
    found: dict[bytes, int] = {}
    for number, keys in rows:
        for name in ids(keys):
            found.setdefault(name, number)
    return found


def checkpoint_of(session: str, run: str, parent: bytes | None, keys: bytes, step: Sequence[Any]) -> Checkpoint:
    """The checkpoint a row tells of; `parent` are the keys of the row before it."""
    number, node, port, then, frontier, delta, position, facts, created_at, path = step
    appended = names(keys)
    return Checkpoint(
        id="ck_" + keys[:ID].hex(), session=session, run=run, step=number,
        parent=None if parent is None else "ck_" + parent[:ID].hex(), path=path, node=node, port=port, next=None if then == 0 else then,
        appended=appended, frontier=_resolved(frontier, appended), delta=delta, position=position, created_at=created_at, facts=facts,
    )  # fmt: skip


def node_at(place: int, appended: Sequence[str], row: Said, payload: bytes) -> CausalNode:
    """The node at a place of a row that has it. Raises VerifyError where the bytes are not those the id was made of."""
    kind, parents, key, created_at = row.nodes[place]
    return stored_node(
        id=appended[place], kind=kind, parents=tuple(_resolved(parents, appended)), payload_bytes=payload,
        created_at=created_at or row.step[8], resource_key=None if key == 0 else key,
    )  # fmt: skip


def has_payload(node: Any) -> bool:
    """Whether a row has the payload of this node; else another row has it."""
    return type(node) is list


def payload_place(nodes: Sequence[Any], place: int) -> int:
    """Which of a row's payloads is that of the node at a place."""
    return sum(map(has_payload, nodes[:place]))


def _resolved(references: Sequence[int | str], appended: Sequence[str]) -> list[str]:
    return [appended[name] if type(name) is int else f"cw_{name}" for name in references]


class CallFold:
    """The calls of one run, as its rows tell of them one after the other."""

    def __init__(self) -> None:
        self.told: dict[str, list[Any]] = {}

    def add(self, calls: Iterable[Sequence[Any]]) -> None:
        """The next row. Raises Corrupt where a call is told of whose beginning no row has."""
        for name, code, spec, rest in calls:
            if spec != 0:
                self.told[name] = [code, spec, rest]
            elif name in self.told:
                self.told[name] = [code, self.told[name][1], rest]
            else:
                raise Corrupt(f"call {name} has no beginning in the stored rows; restore the store from a copy", call=name)

    def read(self, data: bytes) -> None:
        """See `add`; `data` is the body of a row."""
        self.add(said(data).calls)

    def states(self) -> dict[str, int]:
        """The codes of their states."""
        return {name: code for name, (code, _, _) in self.told.items()}

    def specs(self) -> dict[str, bytes]:
        """What was said of those that are not over, as text."""
        return {name: dump(spec) for name, (code, spec, _) in self.told.items() if STATES[code] not in FINISHED}

    def calls(self) -> list[Call]:
        """The calls in the order in which they were opened."""
        return [checked(_call(name, *parts)) for name, parts in self.told.items()]


def _call(name: str, code: int, spec: Any, rest: Any) -> Call:
    tool, arguments, args_hash, index, client, key, opened_in = spec
    attempts, step, *end = rest
    ok, result, reason, reported, decisions = [*end, *_NO_END[len(end) :]]
    return Call(
        call_id=name, name=tool, arguments=arguments, args_hash=args_hash, state=STATES[code], index=index, step=step, client=client,
        ok=_OKS_READ[ok], result=result, reason=None if reason == 0 else reason, attempts=attempts,
        reported=None if reported == 0 else reported, opened_in=opened_in, idempotency_key=key,
        decisions=decisions or [],
    )  # fmt: skip


_NO_END: tuple[Any, ...] = (0, None, 0, 0, 0)
_OKS_READ = {0: None, 1: True, 2: False}
ORIGINS: Mapping[int, frozenset[int]] = {
    STATE_CODES[state]: frozenset(STATE_CODES[origin] for origin in origins) for state, origins in MOVES_INTO.items()
}
"""To the code of each state, the codes of those a call may come from."""

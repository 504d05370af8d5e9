"""Records as columns and back: what every SQL store writes, byte for byte.

Law: a JSON value that is read equals the one that was written, or it was refused. What orjson writes exactly
is stored as orjson writes it. The rest (integers beyond 64 bits, lone surrogates) is written by the standard
library behind a leading space, which orjson never writes first, or as it would write them if it took integers of
any length; what is left is Invalid.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import orjson

from causeline.adapters.stores.sql.compression import expand, squeeze
from causeline.causal.canonical import integer_text
from causeline.causal.json_text import parse_integer
from causeline.errors import Corrupt, Invalid
from causeline.run.ledger import CALL_STATES, CallState
from causeline.runtime.records import Interrupt, Progress, Run, Session

Columns = Sequence[Any]
_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_SPACE = 32
_type: Callable[[Any], Any] = type  # as `type`, but a checker does not take it for a proof about the argument
_ID_BYTES = 12

# The numbers are in stored rows, so a new state gets a new one.
STATE_CODES: Mapping[str, int] = {
    "pending": 0, "awaiting": 1, "started": 2, "succeeded": 3, "failed": 4, "denied": 5, "unknown": 6, "superseded": 7,
}  # fmt: skip
STATES: Mapping[int, CallState] = {STATE_CODES[state]: state for state in CALL_STATES}


def dump(value: Any) -> bytes:
    """JSON as bytes that `load` reads back exactly. Raises Invalid for what JSON cannot hold."""
    try:
        data = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return _dump_exactly(value)
    # orjson writes NaN and the infinities as null; only then does the text not read back as the value.
    if b"null" in data and orjson.loads(data) != value:
        _check(value)
    return data


def dump_or_none(value: Any) -> bytes | None:
    """None stays None, for columns in which it means that nothing is there."""
    return None if value is None else dump(value)


def dump_small(value: Any) -> bytes:
    """As `dump`, squeezed. For what runs write all the time."""
    return squeeze(dump(value))


def load(data: bytes) -> Any:
    """What `dump` was given, with lists for tuples. Raises Corrupt for bytes it did not write."""
    return load_text(expand(data))


def load_text(text: bytes) -> Any:
    """As `load`, of text that was never squeezed or is expanded already."""
    try:
        return json.loads(text, parse_int=parse_integer) if text[0] == _SPACE else orjson.loads(text)
    except (ValueError, IndexError) as error:
        raise Corrupt(f"stored JSON cannot be read: {error}; restore the store from a copy") from error


def load_or_none(data: bytes | None) -> Any:
    """See `dump_or_none`."""
    return None if data is None else load(data)


def _dump_exactly(value: Any) -> bytes:
    _check(value)
    try:
        return b" " + json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError as error:
        raise Invalid(f"a value cannot be stored as JSON: {error}") from error
    except ValueError:  # all was checked, so this is an integer of more digits than Python converts
        return f" {_text(value)}".encode()


def _text(value: Any) -> str:
    """As the standard library writes it, with integers of any length. The library has been through it, so its depth is bounded."""
    if _type(value) is int:
        return integer_text(value)
    if _type(value) is dict:
        return f"{{{','.join(f'{json.dumps(key)}:{_text(inner)}' for key, inner in value.items())}}}"
    if _type(value) in (list, tuple):
        return f"[{','.join(map(_text, value))}]"
    return json.dumps(value)


def _check(value: Any) -> None:
    """Raise Invalid unless every part is a JSON value of exactly a built-in type (tuples pass as arrays)."""
    waiting: list[tuple[str, Any]] = [("$", value)]
    while waiting:
        path, part = waiting.pop()
        kind = _type(part)
        if kind is dict:
            for key, inner in cast("dict[Any, Any]", part).items():
                if type(key) is not str:
                    raise Invalid(f"{path} has the key {key!r}; keys of JSON objects are text")
                waiting.append((f"{path}.{ascii(key)[1:-1][:40]}", inner))
        elif kind in (list, tuple):
            waiting.extend((f"{path}[{place}]", inner) for place, inner in enumerate(part))
        elif kind is float:
            if not math.isfinite(part):
                raise Invalid(f"{path} is {part}; JSON has no such number")
        elif part is not None and kind not in (str, int, bool):
            raise Invalid(f"{path} is of type {kind.__name__}; JSON has no such value")


# Ids


def pack(prefix: str, name: str) -> bytes | None:
    """The 12 bytes of an id `ck_...` or `cw_...`, None if it is not written like one."""
    try:
        data = bytes.fromhex(name[3:])
    except ValueError:
        return None
    return data if len(data) == _ID_BYTES and prefix + data.hex() == name else None


def pack_checkpoint(name: str) -> bytes:
    """Raises Invalid for what is no checkpoint id."""
    data = pack("ck_", name)
    if data is None:
        raise Invalid(f"{name!r} is no checkpoint id; it is ck_ and 24 hexadecimal digits")
    return data


def pack_node(name: str) -> bytes:
    """Raises Invalid for what is no node id."""
    data = pack("cw_", name)
    if data is None:
        raise Invalid(f"{name!r} is no node id; it is cw_ and 24 hexadecimal digits")
    return data


def unpack_checkpoint(data: bytes | None) -> str | None:
    """The id of a checkpoint, None for none."""
    return None if data is None else "ck_" + data.hex()


def text_bytes(text: str) -> bytes:
    """Text that anybody may have chosen. PostgreSQL's text cannot hold NUL, bytes can."""
    return text.encode("utf-8", "surrogatepass")


def bytes_text(data: bytes) -> str:
    """See `text_bytes`."""
    return data.decode("utf-8", "surrogatepass")


# Rows


def run_columns(run: Run, session: int) -> Columns:
    """For `run_add`."""
    return (
        run.owner, run.id, session, run.status, run.holder, run.beat, run.epoch, int(run.cancel_requested),
        None if run.base is None else pack_checkpoint(run.base), None if run.head is None else pack_checkpoint(run.head),
        run.started_at, run.finished_at, run.stop_reason, dump_or_none(run.answer), dump_or_none(run.error), dump_or_none(run.usage),
        dump(run.pending_tool_call_ids) if run.pending_tool_call_ids else None, run.parent_run,
    )  # fmt: skip


def run_body(run: Run) -> bytes:
    """For `run_body_add`: what a run was started with."""
    given, tools = list(run.input), list(run.tools)
    return dump_small(
        [run.agent, run.created_at, given, run.manifest, run.at, run.parent_run, run.parent_call, run.answers, tools, run.context]
    )


def run_from(row: Columns) -> Run:
    """From `run_by_id` and its like."""
    agent, created_at, given, manifest, at, parent_run, parent_call, answers, tools, context = load(row[18])
    return Run(
        id=row[2], session=row[3], owner=row[1], status=row[4], agent=agent, created_at=created_at, input=given, manifest=manifest, at=at,
        base=unpack_checkpoint(row[9]), head=unpack_checkpoint(row[10]), parent_run=parent_run, parent_call=parent_call, answers=answers,
        tools=tools, context=context, started_at=row[11], finished_at=row[12], stop_reason=row[13], answer=load_or_none(row[14]),
        error=load_or_none(row[15]), usage=load_or_none(row[16]), pending_tool_call_ids=() if row[17] is None else load(row[17]),
        cancel_requested=bool(row[8]), holder=row[5], beat=row[6], epoch=row[7], queue=row[0], last_event=row[19],
    )  # fmt: skip


def session_from(row: Columns) -> Session:
    """From `rows_session`."""
    return Session(
        id=row[0], owner=row[1], head=unpack_checkpoint(row[2]), created_at=row[3], updated_at=row[4],
        metadata={} if row[5] is None else load(row[5]), next_context=load_or_none(row[6]),
    )  # fmt: skip


def session_columns(session: Session) -> Columns:
    """For `session_add`."""
    return (
        session.owner, session.id, None if session.head is None else pack_checkpoint(session.head), session.created_at, session.updated_at,
        dump(session.metadata) if session.metadata else None, dump_or_none(session.next_context),
    )  # fmt: skip


def interrupt_columns(row: Interrupt) -> Columns:
    """For `interrupt_put`, after the session."""
    body = dump([
        row.kind, row.tool_call_id, row.name, row.args_hash, row.arguments, row.question, row.reason, row.path, row.parent_call,
    ])  # fmt: skip
    decision = dump_or_none(row.decision)
    return (row.id, row.run, pack_checkpoint(row.checkpoint), row.state, row.answered_by, decision, body)


def interrupt_from(row: Columns) -> Interrupt:
    """From `rows_interrupt`."""
    kind, tool_call_id, name, args_hash, arguments, question, reason, path, parent_call = load(row[7])
    return Interrupt(
        id=row[1], session=row[0], run=row[2], checkpoint="ck_" + row[3].hex(), kind=kind, tool_call_id=tool_call_id, name=name,
        args_hash=args_hash, arguments=arguments, question=question, reason=reason, state=row[4], decision=load_or_none(row[6]),
        answered_by=row[5], path=path, parent_call=parent_call,
    )  # fmt: skip


def progress_columns(row: Progress) -> Columns:
    """For `progress_put`, after the run."""
    return (row.step, dump([row.path, row.index]), dump_small([row.port, row.writes]))


def progress_from(row: Columns) -> Progress:
    """From `rows_progress`."""
    (path, index), (port, writes) = load(row[2]), load(row[3])
    return Progress(run=row[0], step=row[1], path=path, index=index, port=port, writes=writes)

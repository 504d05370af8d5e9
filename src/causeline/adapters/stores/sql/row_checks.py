"""Whether a record that was read is one that could have been written: the types of its fields, which no id covers.

Law: what passes can be used without care. It costs a few microseconds a row; what an id covers is checked by the id.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args

from causeline.run.ledger import Call
from causeline.runtime.records import RUN_STATUSES, Checkpoint, Interrupt, InterruptKind, InterruptState, Progress, Run, Session

T = TypeVar("T")
Check = Callable[[Any], bool]


def _of(*types: type) -> Check:
    kinds = frozenset(types)
    return lambda value: type(value) in kinds


def _one_of(words: Sequence[str]) -> Check:
    known = frozenset(words)
    return lambda value: type(value) is str and value in known


def _list_of(*types: type) -> Check:
    kinds = frozenset(types)
    return lambda value: type(value) in (list, tuple) and all(type(part) in kinds for part in cast("list[Any]", value))


_NONE = type(None)
_text, _words, _count, _flag, _object = _of(str), _of(str, _NONE), _of(int), _of(bool), _of(dict)
_maybe_object = _of(dict, _NONE)
_FIELDS: Mapping[type, Mapping[str, Check]] = {
    Session: {
        "id": _text, "owner": _text, "head": _words, "created_at": _text, "updated_at": _text, "metadata": _object,
        "next_context": _maybe_object,
    },
    Run: {
        "id": _text, "session": _text, "owner": _text, "status": _one_of(RUN_STATUSES), "agent": _text, "created_at": _text,
        "input": _list_of(dict), "manifest": _maybe_object, "at": _words, "base": _words, "head": _words, "parent_run": _words,
        "parent_call": _words, "answers": _object, "tools": _list_of(dict), "context": _maybe_object, "started_at": _words,
        "finished_at": _words, "stop_reason": _words, "error": _maybe_object, "usage": _maybe_object,
        "pending_tool_call_ids": _list_of(str), "holder": _words, "beat": _count, "epoch": _count, "queue": _count, "last_event": _count,
    },
    Checkpoint: {
        "session": _text, "run": _text, "step": _count, "path": _list_of(str, int), "node": _text, "port": _text, "next": _words,
        "delta": _object, "created_at": _text, "facts": _object,
    },
    Call: {
        "call_id": _text, "name": _text, "args_hash": _text, "index": _count, "step": _count, "client": _flag, "reason": _words,
        "attempts": _count, "reported": _maybe_object, "idempotency_key": _text, "decisions": _list_of(dict),
    },
    Interrupt: {
        "id": _text, "session": _text, "run": _text, "kind": _one_of(get_args(InterruptKind)), "tool_call_id": _text, "name": _text,
        "args_hash": _text, "question": _words, "reason": _words, "path": _list_of(str), "parent_call": _words,
        "state": _one_of(get_args(InterruptState)), "decision": _maybe_object, "answered_by": _words,
    },
    Progress: {"run": _text, "step": _count, "path": _list_of(str, int), "index": _count, "port": _text},
}  # fmt: skip


def checked(record: T) -> T:
    """The record. Raises ValueError for a field that no causeline writes like this."""
    for name, good in _FIELDS[type(record)].items():
        value = getattr(record, name)
        if not good(value):
            raise ValueError(f"its {name} is {ascii(value)[:60]}")
    return record


def checked_events(events: Any, count: int) -> list[dict[str, Any]]:
    """Events as they were read. Raises ValueError for what is no event, and where there are not so many."""
    if type(events) is not list or len(cast("list[Any]", events)) != count:
        raise ValueError(f"there should be {count}")
    if any(type(event) is not dict for event in cast("list[Any]", events)):
        raise ValueError("one of them is no event")
    return cast("list[dict[str, Any]]", events)

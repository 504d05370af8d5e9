"""The form of the rows that ids do not cover, checked before they are taken in.

Law: what an import stores reads back like what a run here has written. Ids and the parent chain are verified in
`causeline.causal`; that a payload has the form of its kind they do not say, and runs, calls and facts are covered
by the digest alone, which anybody can make afresh.
"""

from collections.abc import Callable, Mapping, Sequence
from re import compile as pattern
from typing import Any, cast

from causeline.causal import Export, VerifyError
from causeline.errors import Invalid
from causeline.models.payload_checks import InvalidPayload, check_payload
from causeline.run.ledger import CALL_STATES
from causeline.runtime.records import RUN_STATUSES
from causeline.runtime.run_names import checked_name

Check = Callable[[Any], bool]
_CHECKPOINT = pattern(r"ck_[0-9a-f]{24}")


def check_rows(bundle: Export) -> None:
    """Raises VerifyError for the first row that no run can have written: its id, its index, and the field."""
    _name("session id", bundle.session, None, None)
    for index, node in enumerate((*bundle.state.nodes, *bundle.nodes)):
        try:
            check_payload(node.kind, node.payload)
        except InvalidPayload as error:
            raise VerifyError(node.id, index, error.message) from None
    for index, row in enumerate(bundle.runs):
        _name("run id", row["id"], row["id"], index)
        _fields("run", row, index, row["id"], _RUN)
        if row["session"] != bundle.session:
            raise VerifyError(row["id"], index, "the run is of another session")
    for index, row in enumerate(bundle.calls):
        _fields("call", row, index, row["call_id"], _CALL)
    for index, row in enumerate(bundle.facts):
        _fields("facts", {**_NO_FACTS, **row}, index, row["checkpoint"], _FACTS)


def _name(what: str, name: str, place: str | None, index: int | None) -> None:
    try:
        checked_name(what, name)
    except Invalid as error:
        raise VerifyError(place, index, error.message) from None


def _fields(what: str, row: Mapping[str, Any], index: int, place: str, wanted: Mapping[str, Check]) -> None:
    for field, good in wanted.items():
        if field not in row:
            raise VerifyError(place, index, f"the row of this {what} lacks {field}")
        if not good(row[field]):
            raise VerifyError(place, index, f"{field} of this {what} is {ascii(row[field])[:60]}, which no run writes there")


def _text(value: Any) -> bool:
    return type(value) is str


def _flag(value: Any) -> bool:
    return type(value) is bool


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _object(value: Any) -> bool:
    return type(value) is dict


def _any(_: Any) -> bool:
    return True


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _checkpoint(value: Any) -> bool:
    return type(value) is str and _CHECKPOINT.fullmatch(value) is not None


def _one_of(values: Sequence[str]) -> Check:
    return lambda value: type(value) is str and value in values


def _list(inner: Check) -> Check:
    return lambda value: type(value) is list and all(map(inner, cast("list[Any]", value)))


def _maybe(inner: Check) -> Check:
    return lambda value: value is None or inner(value)


def _message(value: Any) -> bool:
    return _object(value) and type(value.get("role")) is str


def _usage(value: Any) -> bool:
    return _object(value) and all(_usage(held) if key == "own" else held is None or _number(held) for key, held in value.items())


_RUN: Mapping[str, Check] = {
    "session": _text, "status": _one_of(RUN_STATUSES), "agent": _text, "created_at": _text, "input": _list(_message),
    "manifest": _maybe(_object), "at": _maybe(_checkpoint), "base": _maybe(_checkpoint), "head": _maybe(_checkpoint),
    "parent_run": _maybe(_text), "parent_call": _maybe(_text), "answers": _object, "tools": _list(_object), "context": _maybe(_object),
    "started_at": _maybe(_text), "finished_at": _maybe(_text), "stop_reason": _maybe(_text), "answer": _any, "error": _maybe(_object),
    "usage": _maybe(_usage), "pending_tool_call_ids": _list(_text),
}  # fmt: skip
_CALL: Mapping[str, Check] = {
    "name": _text, "arguments": _any, "args_hash": _text, "state": _one_of(CALL_STATES), "index": _count, "step": _count,
    "client": _flag, "ok": _maybe(_flag), "result": _any, "reason": _maybe(_text), "attempts": _count, "reported": _maybe(_object),
    "opened_in": _text, "idempotency_key": _text, "decisions": _list(_object),
}  # fmt: skip
_FACTS: Mapping[str, Check] = {
    "usage": _maybe(_usage), "ms": _maybe(_number), "model": _maybe(_text), "attempt": _maybe(_count), "pauses": _maybe(_object),
}  # fmt: skip
_NO_FACTS: Mapping[str, Any] = dict.fromkeys(_FACTS)

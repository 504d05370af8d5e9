"""Rows of a server as the records that a Runtime returns."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, cast

from causeline.run.ledger import Call
from causeline.runtime.handle import RunResult
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Run, Session

Record = TypeVar("Record", Session, Run, Checkpoint, Interrupt, RunResult)
HIDDEN: Mapping[str, Any] = {"owner": "", "checkpoint": "", "args_hash": "", "position": None}
"""Fields that a server does not send, as a client's records have them."""


def record(kind: type[Record], row: Mapping[str, Any]) -> Record:
    """The row as a record; what the server sends beyond it is passed over."""
    names = _names(kind)
    return kind(**{name: value for name, value in {**HIDDEN, **row}.items() if name in names})


def call_row(row: Mapping[str, Any]) -> CallRow:
    """A ledger row from its flat form."""
    names = _names(Call)
    return CallRow(run=row["run_id"], call=Call(**{name: value for name, value in row.items() if name in names}))


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


def plain_answer(reply: Any) -> Any:
    """A reply in the SPARQL results format as `Runtime.query` gives it; text stays text."""
    if not isinstance(reply, dict):
        return reply
    answer = cast("dict[str, Any]", reply)
    if "boolean" in answer:
        return answer["boolean"]
    rows: list[dict[str, dict[str, Any]]] = answer["results"]["bindings"]
    return [{name: _term(term) for name, term in row.items()} for row in rows]


def _term(term: Mapping[str, Any]) -> dict[str, Any]:
    return {"lang" if key == "xml:lang" else key: value for key, value in term.items()}

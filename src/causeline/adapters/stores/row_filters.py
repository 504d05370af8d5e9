"""What `Store.rows` is asked for, checked once for every store."""

from collections.abc import Sequence
from dataclasses import dataclass

from causeline.errors import Missing, Misuse
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Progress, Run, Session
from causeline.runtime.store import RowFilters

_ALWAYS = frozenset({"session", "limit", "newest"})
_FILTERS: dict[type, frozenset[str]] = {
    Session: _ALWAYS | {"id", "after"},
    Run: _ALWAYS | {"run", "id", "after", "status", "parent", "turn"},
    Checkpoint: _ALWAYS | {"run", "id", "after"},
    CallRow: _ALWAYS | {"run", "id", "after", "status"},
    Interrupt: _ALWAYS | {"run", "id", "after", "status"},
    Progress: _ALWAYS | {"run"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The filters of `RowFilters` with their defaults."""

    owner: str | None
    session: str | None = None
    run: str | None = None
    id: str | None = None
    status: Sequence[str] = ()
    parent: str | None = None
    turn: bool = False
    limit: int | None = None
    after: str | None = None
    newest: bool = False


def wanted_rows(kind: type, owner: str | None, filters: RowFilters) -> Wanted:
    """Raises Misuse for a kind that no store keeps, a filter the kind does not have, and a cursor that may name several rows."""
    if kind not in _FILTERS:
        raise Misuse(f"a store keeps no rows of {kind.__name__}; ask for {', '.join(known.__name__ for known in _FILTERS)}")
    for name, value in filters.items():
        if value and name not in _FILTERS[kind]:
            raise Misuse(f"rows of {kind.__name__} have no {name} to filter by")
    limit = filters.get("limit")
    if limit is not None and (type(limit) is not int or limit < 0):
        raise Misuse(f"limit is a number of rows from 0 on, not {limit!r}")
    wanted = Wanted(owner=owner, **filters)
    if wanted.after is not None and (owner is None or (kind is CallRow and wanted.run is None)):
        raise Misuse(f"after={wanted.after!r} may name several rows of {kind.__name__}; give the owner too, and for calls the run")
    return wanted


def no_cursor(kind: type, after: str) -> Missing:
    """The row behind which a page begins is not there."""
    return Missing(f"no row {after} of {kind.__name__} to read on after; begin again without it", after=after)

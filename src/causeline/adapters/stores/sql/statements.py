"""SQL by name, read from the `.sql` files beside this module.

A file holds blocks that begin with `-- name: some_name`. Files beside this one are for every database, those in `<dialect>/`
add to them or replace from them, and `<dialect>/migrations/NNNN_name.sql` are the steps of the schema, in order.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from causeline.errors import Invalid

Dialect = Literal["sqlite", "postgres"]
FIRST_FORMAT = 3
"""The format of the first step. Those before it were never released."""
_FOLDER = Path(__file__).parent
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"\$(\d+)")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: `version` counts from `FIRST_FORMAT` without gaps."""

    version: int
    name: str
    statements: Sequence[str]


@cache
def queries(dialect: Dialect) -> Mapping[str, str]:
    """Every named query, with parameters written as the dialect wants them."""
    found: dict[str, str] = {}
    for path in (*sorted(_FOLDER.glob("*.sql")), *sorted((_FOLDER / dialect).glob("*.sql"))):
        found |= _blocks(path)
    return {name: localized(text, dialect) for name, text in found.items()}


@lru_cache(maxsize=512)
def resolve(query: str, dialect: Dialect) -> str:
    """The SQL of a named query; what follows the name is added to it."""
    name, _, rest = query.partition(" ")
    return f"{queries(dialect)[name]} {localized(rest, dialect)}"


def localized(text: str, dialect: Dialect) -> str:
    """SQL with `$1` parameters, with parameters as the dialect writes them."""
    return _PARAMETER.sub(r"?\1", text) if dialect == "sqlite" else text


@cache
def migrations(dialect: Dialect) -> Sequence[Migration]:
    """The steps of the schema, first to last."""
    found: list[Migration] = []
    for path in sorted((_FOLDER / dialect / "migrations").glob("*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(int(number), name, _statements(path.read_text(encoding="utf-8"))))
    return found


def newest_format(dialect: Dialect) -> int:
    """The format a store has once all steps are applied."""
    return migrations(dialect)[-1].version


def too_old(place: str, version: int) -> Invalid:
    """The refusal of a store of a format from before the first release."""
    return Invalid(
        f"{place} has format {version}, which no released causeline wrote; this one knows formats from {FIRST_FORMAT} on. "
        "Export its sessions with the causeline that wrote it, and import them into a new store", place=place, version=version,
    )  # fmt: skip


def too_new(place: str, version: int, newest: int) -> Invalid:
    """The refusal of a store that a later causeline wrote."""
    return Invalid(
        f"{place} has format {version}, this causeline knows formats up to {newest}; use the causeline that wrote it, or a later one",
        place=place, version=version,
    )  # fmt: skip


def _blocks(path: Path) -> dict[str, str]:
    parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {name: _without_comments(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("--"))


def _statements(text: str) -> Sequence[str]:
    """Statements end with `;` at the end of a line; a function's body keeps its own inside `$$`."""
    found: list[str] = []
    open_lines: list[str] = []
    quoted = False
    for line in _without_comments(text).splitlines():
        open_lines.append(line)
        quoted ^= line.count("$$") % 2 == 1
        if line.endswith(";") and not quoted:
            found.append("\n".join(open_lines).removesuffix(";"))
            open_lines = []
    return found

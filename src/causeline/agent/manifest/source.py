"""The text of a manifest: plain data, and on which line each key stands.

Law: a file is read whole or refused with its line; what it says is nobody's business here.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from causeline.errors import Invalid, Missing
from causeline.models.messages import Json

Place = tuple[str | int, ...]
"""Keys and indices from the top of a file to a value."""
Reader = Callable[[str], tuple[Json, Mapping[Place, int]]]
"""Data and line numbers of a text. Raises UnreadableText."""

MAX_BYTES = 1_000_000

_KEY = r"(?:[A-Za-z0-9_-]+|\"(?:[^\"\\]|\\.)*\"|'[^']*')"
_KEYS = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_KEYS})\s*\]\]?\s*(?:#.*)?")
_ENTRY = re.compile(rf"\s*({_KEYS})\s*=")
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
_LONG = re.compile(r'"""|\'\'\'')


class UnreadableText(Invalid):
    """A text is not of its format. `line` is where, from 1, or None."""

    code = "invalid_manifest"

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message, line=line)
        self.line = line


@dataclass(frozen=True, slots=True)
class Source:
    """`name` of the file as it was given, its `directory`, its data, and the lines of its keys."""

    name: str
    directory: Path
    data: Json
    lines: Mapping[Place, int]

    def line(self, place: Place) -> int | None:
        """The line of a key, else of the table around it."""
        return next((self.lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in self.lines), None)


def read_source(path: Path, readers: Mapping[str, Reader]) -> Source:
    """The file at `path`, by its ending: `.toml`, `.json`, and those that `readers` know. Raises Missing or UnreadableText."""
    known: dict[str, Reader] = {".toml": _toml, ".json": _json, **readers}
    if not path.is_file():
        raise Missing(f"{path}: no such file; give the path of an agent.toml, .json or .hcl", path=str(path))
    if path.suffix not in known:
        if path.suffix == ".hcl":
            raise Missing(f"{path}: reading .hcl needs another package; install causeline[hcl], or write the file as TOML", path=str(path))
        raise UnreadableText(f"{path}: a manifest ends in {', '.join(known)}")
    if path.stat().st_size > MAX_BYTES:
        raise UnreadableText(f"{path}: larger than {MAX_BYTES} bytes")
    try:
        data, lines = known[path.suffix](path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError as error:
        raise UnreadableText(f"{path}: not UTF-8 text: {error}") from error
    return Source(str(path), path.resolve().parent, data, lines)


def _toml(text: str) -> tuple[Json, Mapping[Place, int]]:
    try:
        return tomllib.loads(text), toml_lines(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise UnreadableText(f"not TOML: {error}", int(found.group(1)) if found else len(text.splitlines())) from error


def _json(text: str) -> tuple[Json, Mapping[Place, int]]:
    try:
        data: Any = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise UnreadableText(f"not JSON: {error.msg}", error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableText(f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise UnreadableText("not a manifest: expected one JSON object")
    return cast(Json, data), json_lines(text)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the key {key!r} is there twice")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def json_lines(text: str) -> dict[Place, int]:
    """The line, from 1, of each key, and of each object in a list. The text has to be JSON."""
    lines: dict[Place, int] = {}
    place: list[str | int] = []  # a key or an index for each object and list around
    number, end, string = 1, 0, ("", 1)
    for match in _JSON_TOKEN.finditer(text):
        mark = match.group()
        number += text.count("\n", end, match.start())
        end = match.start()
        if mark in ("{", "["):
            lines.setdefault(tuple(place), number)
            place.append("" if mark == "{" else 0)
        elif mark in ("}", "]"):
            place.pop()
        elif mark == ":":
            place[-1] = json.loads(string[0])
            lines.setdefault(tuple(place), string[1])
        elif mark == ",":
            index = place[-1]
            place[-1] = index + 1 if isinstance(index, int) else ""
        else:
            string = (mark, number)
    return lines


def toml_lines(text: str) -> dict[Place, int]:
    """The line, from 1, of each table header and key. Keys inside inline tables count as on their table's line."""
    lines: dict[Place, int] = {}
    tables: dict[Place, int] = {}
    table: Place = ()
    quote = ""
    for number, line in enumerate(text.splitlines(), 1):
        if quote:
            quote = "" if line.count(quote) % 2 else quote
            continue
        header = _HEADER.fullmatch(line)
        if header is not None:
            table = _table(header.group(1), _split(header.group(2)), tables)
            lines.setdefault(table, number)
            continue
        entry = _ENTRY.match(line)
        if entry is not None:
            lines.setdefault(table + _split(entry.group(1)), number)
        opened = _LONG.search(line)
        if opened is not None and line.count(opened.group()) % 2:
            quote = opened.group()
    return lines


def _split(keys: str) -> Place:
    return tuple(key.strip("\"'") for key in re.findall(_KEY, keys))


def _table(bracket: str, keys: Place, tables: dict[Place, int]) -> Place:
    """The place of a table; an element of an array of tables has its index in it. `tables` counts those."""
    place: Place = ()
    for position, key in enumerate(keys):
        place = (*place, key)
        last = position == len(keys) - 1
        if last and bracket == "[[":
            tables[place] = tables.get(place, -1) + 1
        if place in tables:
            place = (*place, tables[place])
    return place

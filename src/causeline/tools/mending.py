"""Mending the syntax of arguments a model wrote.

Law: syntax only. Texts stay what they were; no word, number or sign is added, lost or moved; what was cut short in
a value is not completed. When in doubt nothing is made of a text: the model is told, and writes it again. What no
one can see is a text that ends between two fields; it looks whole.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

from causeline.models.messages import Json
from causeline.models.stream import parse_arguments

MAX_CHARS = 50_000
"""Longer texts are not mended."""

_FENCED = re.compile(r"\s*```\w*\s*(.*?)\s*(?:```\s*)?\Z", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_NONE = re.compile(r"\bNone\b")
_WHOLE = ('"', "'", "}", "]", "true", "false", "null", "True", "False", "None")


def mended(raw: str, fields: Collection[str]) -> Json | None:
    """The object `raw` is but for its syntax, with no other keys than `fields`; None if that is not certain."""
    fenced = _FENCED.match(raw) if len(raw) <= MAX_CHARS else None
    text = fenced.group(1) if fenced else raw
    found = parse_arguments(text) if text.strip() else None
    if isinstance(found, str):
        found = _guessed(found)
    if not isinstance(found, dict) or not found or any(key not in fields for key in found):
        return None
    return None if _swallowed(found, [key for key in fields if key not in found]) else found


def _guessed(text: str) -> Json | None:
    import json_repair  # noqa: PLC0415 - only broken arguments need it

    if len(text) > MAX_CHARS or _cut(text):
        return None
    try:
        value: Any = json_repair.loads(text)
    except Exception:  # noqa: BLE001 - text that the library stumbles over is text it cannot mend
        return None
    if isinstance(value, str):  # JSON inside JSON: nothing was guessed about it
        inner = parse_arguments(value)
        return inner if isinstance(inner, dict) else None
    return cast(Json, value) if isinstance(value, dict) and _says_the_same(text, cast(Json, value)) else None


def _says_the_same(raw: str, found: Json) -> bool:
    """Whether `found` has the words, numbers and quotes of `raw`, but for quotes that keys lacked, and its texts stand
    in `raw` between quotes, one after the other."""
    flat, written = _unescaped(raw), _unescaped(json.dumps(found, ensure_ascii=False))
    bare = sum(times for key, times in Counter(_keys(found)).items() if _after(key, flat) is None)
    if _words(flat) != _words(written) or _quotes(flat) != _quotes(written) - 2 * bare:
        return False
    place: int | None = 0
    for text in _texts(found):
        place = None if place is None else _after(text, flat, place)
    return place is not None


def _after(text: str, flat: str, start: int = 0) -> int | None:
    """Where `flat` goes on after the first occurrence of `text` in quotes, from `start` on."""
    places = [flat.find(f"{quote}{text}{quote}", start) for quote in "\"'"]
    return min((place + len(text) + 2 for place in places if place >= 0), default=None)


def _swallowed(found: Json, missing: Collection[str]) -> bool:
    """Whether a text holds what looks like one of the fields that are not there."""
    names = "|".join(map(re.escape, missing))
    return bool(names) and any(re.search(rf"(?:{names})[\"']?\s*[:=]", text) for text in _texts(found))


def _words(text: str) -> str:
    """Letters, digits and signs."""
    return "".join(letter for letter in _NONE.sub("null", text) if letter.isalnum() or letter in "+-.").casefold()


def _quotes(text: str) -> int:
    return text.count('"') + text.count("'")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)) if found.group(1) else _ESCAPED.get(found.group(2), found.group(2)), text)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, keys not counted."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        members: Iterable[Any] = cast(Json, value).values() if isinstance(value, dict) else cast(list[Any], value)
        for member in members:
            yield from _texts(member)


def _keys(value: Any) -> Iterator[str]:
    """Every key in a value."""
    if isinstance(value, dict):
        yield from cast(Json, value)
    if isinstance(value, list | dict):
        members: Iterable[Any] = cast(Json, value).values() if isinstance(value, dict) else cast(list[Any], value)
        for member in members:
            yield from _keys(member)


def _cut(raw: str) -> bool:
    """Whether a text seems to end in the middle of a value. Missing closing brackets alone do not count."""
    quote, escaped = "", False
    for letter in raw:
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = bool(quote)
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
    return bool(quote) or not raw.rstrip().endswith(_WHOLE)

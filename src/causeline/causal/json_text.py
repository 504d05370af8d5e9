"""Strict reading of JSON text: nothing is repaired, dropped or rounded.

`decode` reads bytes that `canonical` wrote. `parse` reads text from outside and refuses repeated keys,
NaN and Infinity, lone surrogates, byte order marks, too deep nesting and integers whose digits would
take seconds to convert.
"""

import json
from collections.abc import Callable, Collection
from typing import Any, NoReturn

import orjson

from causeline.causal.canonical import DEPTH, InvalidValue, raise_fault

_type: Callable[[Any], Any] = type
_PLAIN_DIGITS = 600
_FREE_DIGITS = 4_300
_DIGIT_WORK = 100_000**2
_ROUNDED = 2.0**63
_LOOKED_AT = frozenset[type]({list, dict, float})


def decode(data: bytes) -> Any:
    """The value whose canonical bytes are `data`; integers of any size come back exact."""
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:  # an integer beyond the largest float
        return json.loads(data, parse_int=parse_integer)
    if _type(value) is str or (_type(value) is dict and _LOOKED_AT.isdisjoint(map(type, value.values()))):
        return value
    # orjson reads an integer beyond 64 bits as a float, so a float that large may have been one.
    return json.loads(data, parse_int=parse_integer) if has_rounded(value) else value


def has_rounded(value: object) -> bool:
    """Whether `value`, read by orjson, holds a float so large that it may have been written as an integer."""
    todo: list[Any] = [[value]]
    while todo:
        box = todo.pop()
        kind = _type(box)
        members: Collection[Any] = box.values() if kind is dict else box
        if _LOOKED_AT.isdisjoint(map(type, members)):  # most values are small and flat
            continue
        for member in members:
            kind = _type(member)
            if kind is dict or kind is list:
                todo.append(member)
            elif kind is float and abs(member) >= _ROUNDED:
                return True
    return False


def parse_integer(text: str) -> int:
    """An integer from its decimal digits, of any length (Python's own conversion may refuse long ones)."""
    if text.startswith("-"):
        return -parse_integer(text[1:])
    if len(text) <= _PLAIN_DIGITS:
        return int(text)
    low_digits = len(text) // 2
    return parse_integer(text[:-low_digits]) * 10**low_digits + parse_integer(text[-low_digits:])


def parse(text: bytes | str, *, depth: int = DEPTH) -> Any:
    """The value of JSON text from outside, or InvalidValue. Integers may have 100,000 digits, or together cost as much."""
    reader = _Reader()
    try:
        value = json.loads(
            text.decode() if isinstance(text, bytes) else text,
            object_pairs_hook=reader.object,
            parse_int=reader.integer,
            parse_constant=reader.constant,
        )
    except UnicodeDecodeError as fault:
        raise InvalidValue("$", f"not UTF-8 text, at byte {fault.start}") from None
    except RecursionError:
        raise InvalidValue("$", f"nested deeper than {depth} containers") from None
    except ValueError as fault:
        raise InvalidValue("$", f"not JSON: {fault}") from None
    raise_fault(value, depth)
    return value


class _Reader:
    """The hooks of one `parse`; counts the work that long integers cost (it grows with the square of their length)."""

    def __init__(self) -> None:
        self.work = 0

    def object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise InvalidValue("$", f"the key {ascii(repeated)[:80]} is repeated in one object")
        return found

    def integer(self, text: str) -> int:
        if len(text) > _FREE_DIGITS:
            self.work += len(text) ** 2
            if self.work > _DIGIT_WORK:
                raise InvalidValue("$", f"integers with too many digits (one has {len(text)})")
        return parse_integer(text)

    def constant(self, text: str) -> NoReturn:
        raise InvalidValue("$", f"{text} is not a JSON number")

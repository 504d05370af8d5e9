"""One JSON value, exactly one byte string: the JSON Canonicalization Scheme (RFC 8785).

Law: equal values give equal bytes, different values give different bytes, and whatever cannot be
written exactly is refused with its place. Two extensions: integers of any size are written exactly
(RFC 8785 stops at 2**53), and only the exact built-in types count as JSON values.

How it is fast: `orjson` writes almost every value as RFC 8785 wants it. `_survey` walks the
containers and asks for the types of their members, which is cheap because strings are never looked
into; members that orjson would write differently (some floats, wide integers, objects with keys
beyond the Basic Multilingual Plane) are first replaced by their exact text.
"""

from collections.abc import Iterable
from typing import Any, cast

import orjson

from causeline.errors import Invalid

DEPTH = 128
"""Containers inside containers that a value may have; a scalar has none."""

_OPTIONS = (
    orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_NULL = type(None)
_LEAVES = frozenset[type]({str, int, bool, _NULL})
_ALLOWED = _LEAVES | {float, list, dict}
_BOXES = frozenset[type]({list, dict})
_FOUR_BYTE_LEADS = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_BIGGEST_NATIVE = 2**64
_SMALLEST_NATIVE = -(2**63)
_EXACT_FLOAT = 2.0**53
_SPLIT_BITS = 2_000


class InvalidValue(Invalid):
    """A value that cannot enter the log. `path` is its place, such as `$.a[3].b`, or the name of an argument."""

    code = "invalid_value"

    def __init__(self, path: str, reason: str = "not a JSON value") -> None:
        super().__init__(f"{path}: {reason}", findings=(f"{path}: {reason}",), path=path)
        self.path = path
        self.reason = reason


class _Unwritable(Exception):
    """A member must be refused; the caller looks for its place."""


def canonical(value: object, *, depth: int = DEPTH) -> bytes:
    """The RFC 8785 form of `value` as UTF-8 bytes.

    `value` is None, bool, int, float, str, list or dict with str keys, all of exactly these types, nested at
    most `depth` containers deep (at most 240). Raises InvalidValue with the place of the first fault.
    """
    try:
        exotic = _survey(value, depth)
        if not exotic:
            data = orjson.dumps(value, option=_OPTIONS)
            if data.isascii() or not _wide_keys(value, data):
                return data
    except (TypeError, _Unwritable):
        raise_fault(value, depth)
    try:
        return _dump_exact(value)
    except (TypeError, _Unwritable):
        raise_fault(value, depth)
        raise InvalidValue("$", "this value cannot be written as JSON") from None


def _survey(value: object, depth: int) -> bool:
    """Whether some member needs its exact text. Raises _Unwritable on a foreign type or too deep nesting.

    Depth first, so that a container that holds itself is found out at once.
    """
    exotic = False
    todo: list[tuple[list[Any], int]] = [([[value]], 0)]
    while todo:
        boxes, level = todo.pop()
        if level > depth:
            raise _Unwritable
        for box in boxes:
            members = box.values() if type(box) is dict else box
            types = set(map(type, members))
            if types <= _LEAVES:
                continue
            if not types <= _ALLOWED:
                raise _Unwritable
            if float in types and not exotic:
                exotic = _has_exotic_float(members)
            if list in types or dict in types:
                todo.append(([member for member in members if type(member) in _BOXES], level + 1))
    return exotic


def _has_exotic_float(members: Iterable[Any]) -> bool:
    """Between 1e-4 and 1e16 orjson, repr and ECMAScript write a fraction alike; whole floats they do not."""
    for member in members:
        if type(member) is float and (not 1e-4 <= abs(member) < 1e16 or member.is_integer()):
            return True
    return False


def _wide_keys(value: object, data: bytes) -> bool:
    """Whether some key holds a character beyond the BMP, where UTF-16 order and code point order part."""
    if not any(lead in data for lead in _FOUR_BYTE_LEADS):
        return False
    return any(_is_wide(key) for box in _boxes(value) if type(box) is dict for key in cast("dict[str, Any]", box))


def _is_wide(key: str) -> bool:
    return not key.isascii() and max(key) > "\uffff"


def _boxes(value: object) -> list[Any]:
    """Every container of `value`, each before the ones inside it."""
    found: list[Any] = []
    todo: list[Any] = [value] if type(value) in _BOXES else []
    while todo:
        box = todo.pop()
        found.append(box)
        todo.extend(member for member in (box.values() if type(box) is dict else box) if type(member) in _BOXES)
    return found


def _dump_exact(value: object) -> bytes:
    """Write a surveyed value, its exotic members replaced by their exact text, innermost containers first."""
    done: dict[int, Any] = {}
    for box in reversed(_boxes(value)):
        if id(box) not in done:
            done[id(box)] = _plain_dict(box, done) if type(box) is dict else [_plain(member, done) for member in box]
    return orjson.dumps(_plain(value, done), option=_OPTIONS)


def _plain_dict(box: dict[Any, Any], done: dict[int, Any]) -> Any:
    plain = {key: _plain(member, done) for key, member in box.items()}
    if any(type(key) is not str for key in plain):
        raise _Unwritable
    if not any(_is_wide(key) for key in plain):
        return plain
    parts = [
        orjson.dumps(key, option=_OPTIONS) + b":" + orjson.dumps(plain[key], option=_OPTIONS)
        for key in sorted(plain, key=lambda key: key.encode("utf-16-be"))
    ]
    return orjson.Fragment(b"{" + b",".join(parts) + b"}")


def _plain(member: Any, done: dict[int, Any]) -> Any:
    """What orjson must be given for `member` so that its text comes out exactly."""
    kind = type(member)
    if kind is str or kind is bool or member is None:
        return member
    if kind is int:
        return member if _SMALLEST_NATIVE <= member < _BIGGEST_NATIVE else orjson.Fragment(integer_text(member))
    if kind is float:
        if member.is_integer() and abs(member) < _EXACT_FLOAT:
            return int(member)
        if 1e-4 <= abs(member) < 1e16:
            return member
        if member - member != 0.0:  # NaN and the infinities are the floats that do not cancel
            raise _Unwritable
        return orjson.Fragment(float_text(member))
    return done[id(member)]


def float_text(number: float) -> str:
    """A finite float as ECMAScript writes it (ECMA-262, Number::toString), which is RFC 8785, section 3.2.2.3."""
    if number == 0:
        return "0"
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if number < 0 else ""
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def integer_text(number: int) -> str:
    """The decimal digits of an integer of any size. Python's own conversion may refuse long ones, so halves are joined."""
    if number < 0:
        return "-" + integer_text(-number)
    if number.bit_length() <= _SPLIT_BITS:
        return str(number)
    low_digits = int(number.bit_length() * 0.30103) // 2
    high, low = divmod(number, 10**low_digits)
    return integer_text(high) + integer_text(low).rjust(low_digits, "0")


def raise_fault(value: object, depth: int = DEPTH) -> None:
    """Raise InvalidValue for the first fault of `value` in reading order; return if there is none."""
    todo: list[tuple[Any, Any, int]] = [(value, None, 1)]
    while todo:
        member, place, level = todo.pop()
        reason = _reason(member, level, depth)
        if reason:
            raise InvalidValue(_path(place), reason) from None
        if type(member) is dict:
            for key in member:
                if type(key) is not str:
                    raise InvalidValue(_path(place), f"a key is {_described(key)}; keys must be str") from None
                if not _encodable(key):
                    raise InvalidValue(_path((place, key)), "the key holds a lone surrogate") from None
            todo.extend((inner, (place, key), level + 1) for key, inner in reversed(member.items()))
        elif type(member) is list:
            todo.extend((member[index], (place, index), level + 1) for index in range(len(member) - 1, -1, -1))


def _reason(member: Any, level: int, depth: int) -> str | None:
    """Why this member alone cannot be written, or None."""
    kind = type(member)
    if kind in _BOXES:
        return f"nested deeper than {depth} containers" if level > depth else None
    if kind is float:
        return None if member - member == 0.0 else f"{member} is not a JSON number"
    if kind is str:
        return None if _encodable(member) else "the text holds a lone surrogate; replace it before storing"
    if kind in _LEAVES:
        return None
    return f"{_described(member)} is not a JSON value; use None, bool, int, float, str, list or dict"


def _described(value: object) -> str:
    return f"of type {type(value).__module__}.{type(value).__qualname__}"


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _path(place: Any) -> str:
    """`$.a[3].b` from the linked places (outer, key)."""
    parts: list[str] = []
    while place is not None:
        place, key = place
        if isinstance(key, int):
            parts.append(f"[{key}]")
        else:
            shown = key if len(key) <= 80 else key[:77] + "..."
            parts.append(f".{shown}" if shown.isascii() and shown.isidentifier() else f"[{ascii(shown)}]")
    return "$" + "".join(reversed(parts))

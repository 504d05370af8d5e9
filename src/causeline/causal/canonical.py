"""One JSON value, exactly one byte string: the JSON Canonicalization Scheme (RFC 8785).

Law: equal values give equal bytes, different values give different bytes, and whatever cannot be
written exactly is refused with its place. Two extensions: integers of any size are written exactly
(RFC 8785 stops at 2**53), and only the exact built-in types count as JSON values.

How it is fast: `orjson` writes almost every value as RFC 8785 wants it. `_survey` walks the
containers and asks for the types of their members, which is cheap because strings are never looked
into. Members that orjson would write differently are replaced by their exact text: some floats at
once, and wide integers and objects with keys beyond the Basic Multilingual Plane in a second,
slower walk (`_dump_exact`) that few values need.
"""

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from causeline.errors import Invalid

DEPTH = 128
"""Containers inside containers that a value may have; a scalar has none."""

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_NULL = type(None)
_type: Callable[[Any], Any] = type  # as `type`, but a checker does not take it for a proof about the argument
_LEAVES = frozenset[type]({str, int, bool, _NULL})
_only_leaves = _LEAVES.issuperset
_only_boxes = frozenset[type]({list, dict}).issuperset
_BOXES = frozenset[type]({list, dict})
_BIGGEST_NATIVE = 2**64
_SMALLEST_NATIVE = -(2**63)
_EXACT_FLOAT = 2.0**53
_SPLIT_BITS = 2_000

_Dict = dict[Any, Any]
_Box = dict[Any, Any] | list[Any]


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
        dicts: list[_Dict] = []
        kind = _type(value)
        box: Any = value
        if depth and kind is dict and _only_leaves(map(type, box.values())):  # most values are small and flat
            dicts.append(box)
            plain = value
        else:
            flat = kind in _LEAVES or (depth and kind is list and _only_leaves(map(type, box)))
            plain = value if flat else _survey(value, depth, dicts)
        data = orjson.dumps(plain, option=_OPTIONS)
        if data.isascii() or not _has_wide_keys(dicts):
            return data
    except (TypeError, _Unwritable):
        raise_fault(value, depth)
    return _dump_exact(value)


def _survey(value: object, depth: int, dicts: list[_Dict]) -> object:
    """`value` with its exotic floats replaced; the same object where there are none. Fills `dicts` with every dict.

    Raises _Unwritable on a foreign type, NaN, an infinity, or too deep nesting. Goes depth first, so that a
    container that holds itself is found out at once. Only containers around a replaced float are copied.
    """
    outer: list[_Box] = []
    changed: dict[int, Any] = {}
    root: list[Any] = [value]
    todo: list[tuple[list[Any], int]] = [([root], 0)]
    while todo:
        boxes, level = todo.pop()
        if level > depth:
            raise _Unwritable
        leafy = True
        for box in boxes:
            kind = _type(box)
            if kind is dict:
                dicts.append(box)
                if leafy and _only_leaves(map(type, box.values())):
                    continue
                leafy = False  # its siblings are likely alike: do not ask again, only look
            elif _only_leaves(map(type, box)):
                continue
            children, fresh = _look_into(box)
            if fresh is not None:
                changed[id(box)] = fresh
            if children:
                todo.append((children, level + 1))
                outer.append(box)
    if not changed:
        return value
    _join(outer, changed)
    return changed[id(root)][0]


def _look_into(box: Any) -> tuple[list[Any], Any]:
    """The containers inside `box`, and a copy with plain stand-ins for its exotic floats, or None where it has none.

    Between 1e-4 and 1e16 orjson, repr and ECMAScript write a fraction alike; whole floats they do not.
    """
    outer_kind = _type(box)
    if outer_kind is list and _only_boxes(map(type, box)):
        return box, None
    children: list[Any] = []
    fresh: Any = None
    for key, member in box.items() if outer_kind is dict else enumerate(box):
        kind = _type(member)
        if kind is float:
            if member.is_integer() or not 1e-4 <= abs(member) < 1e16:
                if fresh is None:
                    fresh = box.copy()
                # The bounds are tried here as well because a call costs more than all the rest.
                fresh[key] = int(member) if member.is_integer() and -_EXACT_FLOAT < member < _EXACT_FLOAT else _plain_float(member)
        elif kind is dict or kind is list:
            children.append(member)
        elif kind not in _LEAVES:
            raise _Unwritable
    return children, fresh


def _join(outer: list[Any], changed: dict[int, Any]) -> None:
    """Put every copy into a copy of what holds it. Inner containers come later in `outer`, so it is walked from its end."""
    for box in reversed(outer):
        fresh: Any = changed.get(id(box))
        for key, member in _items(box):
            inner = changed.get(id(member))
            if inner is not None:
                if fresh is None:
                    changed[id(box)] = fresh = box.copy()
                fresh[key] = inner


def _has_wide_keys(dicts: list[_Dict]) -> bool:
    """Whether some key holds a character beyond the BMP, where UTF-16 order and code point order part."""
    return _is_wide("".join(set[str]().union(*dicts)))


def _is_wide(key: str) -> bool:
    return not key.isascii() and max(key) > "\uffff"


def _boxes(value: object) -> list[Any]:
    """Every container of `value`, each before the ones inside it."""
    found: list[Any] = []
    todo: list[Any] = [[value]]
    while todo:
        box = todo.pop()
        found.append(box)
        todo.extend(member for _, member in _items(box) if type(member) in _BOXES)
    return found[1:]


def _items(box: Any) -> Iterable[tuple[Any, Any]]:
    """Keys or indexes of a container with its members."""
    kind = _type(box)
    members: Any = box.items() if kind is dict else enumerate(box)
    return members


def _dump_exact(value: object) -> bytes:
    """Write a surveyed value, its exotic members replaced by their exact text, innermost containers first."""
    done: dict[int, Any] = {}
    for box in reversed(_boxes(value)):
        if id(box) not in done:
            kind = _type(box)
            done[id(box)] = _plain_dict(box, done) if kind is dict else [_plain(member, done) for member in box]
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
    kind = _type(member)
    if kind is str or kind is bool or member is None:
        return member
    if kind is int:
        return member if _SMALLEST_NATIVE <= member < _BIGGEST_NATIVE else orjson.Fragment(integer_text(member))
    if kind is float:
        return _plain_float(member)
    return done[id(member)]


def _plain_float(number: float) -> Any:
    if -_EXACT_FLOAT < number < _EXACT_FLOAT and number.is_integer():
        return int(number)
    if 1e-4 <= abs(number) < 1e16 and not number.is_integer():
        return number
    if number - number != 0.0:  # NaN and the infinities are the floats that do not cancel
        raise _Unwritable
    return orjson.Fragment(float_text(number))


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
        kind = _type(member)
        if kind is dict:
            _check_keys(member, place)
        if kind in _BOXES:
            todo.extend((inner, (place, key), level + 1) for key, inner in reversed(list(_items(member))))


def _check_keys(box: dict[Any, Any], place: Any) -> None:
    for key in box:
        if type(key) is not str:
            raise InvalidValue(_path(place), f"a key is {_described(key)}; keys must be str") from None
        if not _encodable(key):
            raise InvalidValue(_path((place, key)), "the key holds a lone surrogate") from None


def _reason(member: Any, level: int, depth: int) -> str | None:
    """Why this member alone cannot be written, or None."""
    kind = _type(member)
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
            parts.append(f".{shown}" if shown.isascii() and shown.isidentifier() else f"[{shown!a}]")
    return "$" + "".join(reversed(parts))

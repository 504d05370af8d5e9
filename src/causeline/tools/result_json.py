"""Whatever a tool returns, as exact JSON.

Law: the result shares nothing mutable with what the tool returned, has only values the log accepts, and is the
same in every process (sets are sorted). What has no JSON form is refused by name, never written as Python code.
"""

import base64
import numbers
from collections import UserString, deque
from collections.abc import Callable, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum
from typing import Any, cast

from causeline.causal import InvalidValue, canonical
from causeline.errors import Invalid
from causeline.models.unicode_text import is_clean

_MANY = ("__len__", "__array__", "__dataframe__")
"""What holds many values often prints a few of them as if they were all, so its text is not taken for it."""
_type: Callable[[Any], Any] = type  # as `type`, but a checker does not take it for a proof about the argument
DEPTH = 100
"""Containers inside containers; the log wraps arguments and results in a few more."""


class NotPlain(Invalid):
    """A value has no JSON form. The message names its place and type."""

    code = "not_plain"


def plain(value: Any) -> Any:
    """`value` as None, bool, int, float, str, list and dict.

    Models and dataclasses become objects, tuples and sets lists, enums their values, dates ISO 8601 text, bytes text
    (`{"base64": ...}` where they are none), other things their own text if their class defines one. NaN, infinities and
    lone surrogates become visible text. Raises NotPlain.
    """
    return plain_with_text(value)[0]


def plain_with_text(value: Any) -> tuple[Any, str]:
    """The same, and its text: what a text says, or the JSON of anything else."""
    if type(value) is str and is_clean(value):
        return value, value
    result = _plain(value, "$", 0)
    try:
        text = canonical(result)
    except InvalidValue:
        result = _visible(result)
        text = canonical(result)
    return result, result if type(result) is str else text.decode()


def visible_text(text: str) -> str:
    r"""`text` with lone surrogates written as `\udXXX`."""
    return text.encode(errors="backslashreplace").decode()


def _plain(value: Any, place: str, depth: int) -> Any:
    kind = _type(value)
    if kind is str or kind is int or value is None or kind is bool:
        return value
    if kind is float:
        return value if value - value == 0.0 else {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, "NaN")
    if depth == DEPTH:
        raise NotPlain(f"{place}: nested deeper than {DEPTH} levels, or inside itself")
    if kind is dict:
        return _object(value, place, depth)
    if kind is list or (kind is tuple and not hasattr(value, "_fields")):
        return [_plain(member, f"{place}[{index}]", depth + 1) for index, member in enumerate(value)]
    return _plain(_reduced(value, place, depth), place, depth)


def _object(value: Mapping[Any, Any], place: str, depth: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for key, member in value.items():
        name = key if type(key) is str else _key(key, place)
        if name in members:
            raise NotPlain(f"{place}: two keys are both {name!r} when written as text")
        members[name] = _plain(member, f"{place}.{name}", depth + 1)
    return members


def _key(key: Any, place: str) -> str:
    name = _plain(key, f"{place} key", 0)
    if isinstance(name, dict | list):
        raise NotPlain(f"{place}: a key of type {type(key).__name__} has no text form")
    return name if isinstance(name, str) else canonical(name).decode()


def _reduced(value: Any, place: str, depth: int) -> Any:
    """A step towards JSON: something simpler that says the same. Raises NotPlain where there is none."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, UserString):
        return value.data
    if isinstance(value, bytes | bytearray | memoryview):
        return _from_bytes(bytes(cast(bytes, value)))
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if callable(getattr(type(cast(object, value)), "tolist", None)):
        return _from_array(value, place)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return _from_container(value, place, depth)


def _from_container(value: Any, place: str, depth: int) -> Any:
    kind = type(cast(object, value))
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump(mode="json")
    if is_dataclass(kind):
        return {each.name: getattr(value, each.name) for each in fields(kind)}
    if isinstance(value, tuple) and hasattr(kind, "_asdict"):
        return cast(Any, value)._asdict()
    if isinstance(value, Mapping):
        return dict(cast(Mapping[Any, Any], value))
    if isinstance(value, AbstractSet):
        members = [_plain(member, place, depth + 1) for member in cast(AbstractSet[Any], value)]
        return sorted(members, key=lambda member: canonical(_visible(member)))
    if isinstance(value, Sequence | deque | ValuesView):
        return list(cast(Sequence[Any], value))
    if kind.__str__ is not object.__str__ and not any(hasattr(kind, name) for name in _MANY):
        return str(value)
    raise NotPlain(f"{place}: a value of type {kind.__name__} has no JSON form; return text, numbers, lists or objects")


def _from_array(value: Any, place: str) -> Any:
    """The members of an array, or the one value of a scalar, of numpy and its like. Times become text: as numbers they have no unit."""
    members = value.astype(str).tolist() if getattr(getattr(value, "dtype", None), "kind", "") in ("m", "M") else value.tolist()
    if type(members) is type(value):
        raise NotPlain(f"{place}: a value of type {type(value).__name__} has no JSON form; return text, numbers, lists or objects")
    return members


def _from_bytes(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible_text(value)
    if isinstance(value, list):
        return [_visible(member) for member in cast(list[Any], value)]
    if isinstance(value, dict):
        return {visible_text(key): _visible(member) for key, member in cast(dict[str, Any], value).items()}
    return value

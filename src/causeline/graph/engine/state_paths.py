"""Dotted paths into values: reading one, and putting a value at one without changing what is there.

Law: pure. A part is a key of an object or a position in a list; nothing that is there is replaced by something of another kind.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

from causeline.errors import Invalid

MISSING: Any = object()
"""What `read` returns where a path leads nowhere."""
How = Literal["override", "append"]
"""How a value meets what is at a path: it takes its place, or it is a list that is added to a list."""


class BadPath(Invalid):
    """A write to a path that leads through something which cannot hold it, such as a text or a position past the end of a list."""

    code = "bad_path"


def read(values: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path (a channel, then keys or list positions), or MISSING. A channel whose own name holds
    the dots wins."""
    if path in values:
        return values[path]
    if "." not in path:
        return MISSING
    return read_in(values, path.split("."))


def read_in(value: Any, parts: list[str]) -> Any:
    """Follow keys and list positions from a value; MISSING where they lead nowhere."""
    for part in parts:
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(part, MISSING)
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[int(part)]
        else:
            return MISSING
        if value is MISSING:
            return MISSING
    return value


def put(there: Any, parts: list[str], how: How, value: Any, path: str) -> Any:
    """`there` with `value` at `parts`: what lies on the way is copied, objects that are missing (or null) are made.
    Raises BadPath, which names `path`."""
    if not parts:
        if how == "append" and isinstance(there, list):
            return [*cast("list[Any]", there), *value]
        return list(value) if how == "append" else value
    part, *rest = parts
    if there is MISSING or there is None:
        return {part: put(MISSING, rest, how, value, path)}
    if isinstance(there, Mapping):
        copied = dict(cast("Mapping[str, Any]", there))
        copied[part] = put(copied.get(part, MISSING), rest, how, value, path)
        return copied
    if not isinstance(there, list):
        raise BadPath(f"{path}: {part!r} would be inside a {type(there).__name__}; write to a path that leads through objects and lists")
    items = list(cast("list[Any]", there))
    if not part.isdecimal() or int(part) >= len(items):
        raise BadPath(f"{path}: the list on the way has {len(items)} items, so it has no position {part!r}")
    items[int(part)] = put(items[int(part)], rest, how, value, path)
    return items

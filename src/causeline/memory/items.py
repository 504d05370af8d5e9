"""What a memory is, which names it may have, and which memories a filter lets through.

Law: pure. A namespace is a tuple of texts, never glued together into one, so that no two can be mistaken for each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from causeline.errors import Invalid

MAX_NAME = 1_000
MAX_DEPTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One memory. `value` is JSON, `text` what is searched, `source` where it is from: `{run, step, node}`, each where there is one.
    `score` says how well it fits a question, from 0 to 1; None where nothing was asked. Times are ISO 8601 UTC."""

    namespace: tuple[str, ...]
    key: str
    value: Any
    text: str
    score: float | None = None
    source: Mapping[str, Any] | None = None
    created_at: str
    expires_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """A memory as a backend keeps it: with the words of its text, and its embedding if there is one."""

    item: Item
    words: Sequence[str]
    vector: bytes | None = None


def checked_namespace(namespace: Any, *, whole: bool) -> tuple[str, ...]:
    """The namespace; with `whole` it must have a part. Raises Invalid."""
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise Invalid(f"a namespace is a tuple of texts such as ('users', 'ada'), not {namespace!r}")
    parts = tuple(cast("Sequence[Any]", namespace))
    if (whole and not parts) or len(parts) > MAX_DEPTH:
        raise Invalid(f"a namespace has 1 to {MAX_DEPTH} parts, not {len(parts)}")
    for part in parts:
        checked_name("a part of a namespace", part)
    return parts


def checked_name(what: str, name: Any) -> str:
    """A text that is not empty. Raises Invalid."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise Invalid(f"{what} is a text of 1 to {MAX_NAME} characters, not {name!r:.80}")
    if not name.isascii() and any(0xD800 <= ord(letter) < 0xE000 for letter in name):
        raise Invalid(f"{what} holds half a character (a lone surrogate): {ascii(name)[:80]}")
    return name


def checked_filter(given: Any) -> Mapping[str, Any]:
    """A filter on values: `{path: value}` for equality, `{path: [values]}` for any of them, `{"$and" | "$or": [filters]}`; a path is
    dotted. All of it must hold. Raises Invalid."""
    if not isinstance(given, Mapping):
        raise Invalid(f"a filter is a table such as {{'topic': 'tea'}}, not {given!r:.80}")
    table = cast("Mapping[Any, Any]", given)
    for path, wanted in table.items():
        if not isinstance(path, str) or (path.startswith("$") and path not in ("$and", "$or")):
            raise Invalid(f"{path!r} is no part of a filter; there are dotted paths, $and and $or")
        if path in ("$and", "$or"):
            if not isinstance(wanted, list | tuple):
                raise Invalid(f"{path} takes a list of filters, not {wanted!r:.80}")
            for inner in cast("Sequence[Any]", wanted):
                checked_filter(inner)
    return cast("Mapping[str, Any]", table)


def fits(value: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether a filter lets a value through."""
    return all(_holds(value, path, expected) for path, expected in wanted.items())


def _holds(value: Any, path: str, expected: Any) -> bool:
    if path == "$and":
        return all(fits(value, inner) for inner in expected)
    if path == "$or":
        return any(fits(value, inner) for inner in expected)
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = cast("Mapping[str, Any]", value)[part]
    members = cast("Sequence[Any]", expected) if isinstance(expected, list | tuple) else ()
    return _same(value, expected) or any(_same(value, member) for member in members)


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)

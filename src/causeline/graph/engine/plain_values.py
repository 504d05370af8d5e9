"""Plain JSON values: what may be stored, copied deep, with a path to whatever may not.

Law: pure; exactly None, bool, int, float, str, list and dict with text keys, no deeper than the causal log allows.
"""

from typing import Any, cast

from causeline.errors import Invalid

DEPTH = 128
"""Nesting beyond this is refused, as in the causal log."""
_LEAVES: frozenset[type] = frozenset({str, int, float, bool, type(None)})


class NotPlain(Invalid):
    """A value that must be stored is not plain JSON; `path` leads to it."""

    code = "not_plain"

    def __init__(self, path: str, kind: str) -> None:
        super().__init__(
            f"{path} holds a {kind}, which is not plain JSON; write plain values, or register the channel with Reducer(..., stored=False)",
            path=path,
        )
        self.path = path


def plain(value: Any, path: str) -> Any:
    """A deep copy of plain JSON. Raises NotPlain(path) for anything else, and for nesting beyond DEPTH."""
    trail: list[str] = []
    try:
        return _copy(value, trail, DEPTH)
    except TypeError as error:
        raise NotPlain(path + "".join(reversed(trail)), str(error)) from None


def _copy(value: Any, trail: list[str], depth: int) -> Any:
    kind = cast("type[object]", type(value))
    if kind in _LEAVES:
        return value
    if kind is list and depth:
        return _copy_list(value, trail, depth - 1)
    if kind is dict and depth:
        return _copy_dict(value, trail, depth - 1)
    raise TypeError(kind.__name__ if depth else f"{kind.__name__} nested deeper than {DEPTH}")


def _copy_list(value: list[Any], trail: list[str], depth: int) -> list[Any]:
    copied: list[Any] = []
    try:
        copied.extend(item if type(item) in _LEAVES else _copy(item, trail, depth) for item in value)
    except TypeError:
        trail.append(f"[{len(copied)}]")
        raise
    return copied


def _copy_dict(value: dict[Any, Any], trail: list[str], depth: int) -> dict[str, Any]:
    copied: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"key of type {type(key).__name__}")
            copied[key] = item if type(item) in _LEAVES else _copy(item, trail, depth)
    except TypeError:
        trail.append(f".{key}")
        raise
    return copied

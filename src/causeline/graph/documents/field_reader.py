"""Reading one JSON object field by field, noting what is wrong and going on with a default.

Law: every fault gives exactly one finding, with the path of the value it is about.
"""

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, cast

from causeline.graph.documents.context_names import is_foreign
from causeline.graph.documents.finding import Finding
from causeline.graph.documents.plain_json import join

_NAMES: dict[object, str] = {
    dict: "an object",
    list: "an array",
    str: "a text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class FieldReader:
    """A cursor on one object. `problems` is shared by all cursors of a document."""

    def __init__(self, data: dict[str, Any], path: str, placement: str | None, problems: list[Finding]) -> None:
        self.data = data
        self.path = path
        self.placement = placement
        self.problems = problems

    def complain(self, code: str, message: str, key: str | None = None) -> None:
        path = self.path if key is None else join(self.path, key)
        self.problems.append(Finding(code, self.placement, message, path))

    def settle_keys(self, required: Iterable[str], allowed: Iterable[str]) -> None:
        """Report unknown keys and missing required ones. A misspelt required key is one finding and is read as what was meant."""
        known = {*required, *allowed}
        missing = [key for key in required if key not in self.data]
        for key in [key for key in self.data if key not in known and not is_foreign(key)]:
            meant = get_close_matches(key, missing, 1, 0.75)
            hint = meant or get_close_matches(key, [one for one in known if one not in self.data], 1, 0.75)
            self.complain("unknown_key", f"{key!r} is not a field here" + (f"; did you mean {hint[0]!r}?" if hint else "; remove it"), key)
            if meant:
                missing.remove(meant[0])
                self.data = {**self.data, meant[0]: self.data[key]}
        for key in missing:
            self.complain("missing_field", f"the field {key!r} is required", key)

    def wrong_type(self, key: str, wanted: str) -> None:
        self.complain("wrong_type", f"must be {wanted}, not {_NAMES.get(type(cast('object', self.data[key])), 'this')}", key)

    def text(self, key: str, default: str = "") -> str:
        if key not in self.data:
            return default
        value = self.data[key]
        if not isinstance(value, str):
            self.wrong_type(key, "a text")
        elif not value:
            self.complain("bad_value", "must not be empty", key)
        else:
            return value
        return default

    def optional_text(self, key: str) -> str | None:
        return self.text(key) or None

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        value = self.text(key, default)
        if value in choices:
            return value
        near = get_close_matches(value, choices, 1, 0.6)
        self.complain("bad_value", f"{value!r} is not one of {', '.join(choices)}" + (f"; did you mean {near[0]!r}?" if near else ""), key)
        return near[0] if near else default

    def whole(self, key: str, minimum: int, default: int | None = None) -> int | None:
        """A whole number of at least `minimum`; 4.0 is one too."""
        value = self.number(key, minimum)
        if value is None:
            return default
        if value != int(value):
            self.complain("bad_value", f"must be a whole number, not {value}", key)
            return default
        return int(value)

    def number(self, key: str, minimum: float, maximum: float = math.inf) -> float | int | None:
        if key not in self.data:
            return None
        value = self.data[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong_type(key, "a number")
        elif not minimum <= value <= maximum:
            limits = f"at least {minimum}" if maximum == math.inf else f"from {minimum} to {maximum}"
            self.complain("bad_value", f"must be {limits}, not {value}", key)
        else:
            return value
        return None

    def flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key, default)
        if isinstance(value, bool):
            return value
        self.wrong_type(key, "true or false")
        return default

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of distinct non-empty texts."""
        value = self.data.get(key, [])
        if not isinstance(value, list):
            self.wrong_type(key, "an array of texts")
            return ()
        kept: dict[str, None] = {}
        for index, one in enumerate(cast("list[Any]", value)):
            if not isinstance(one, str) or not one:
                self.problems.append(
                    Finding("wrong_type", self.placement, "must be a text that is not empty", join(join(self.path, key), index))
                )
            elif one in kept:
                self.problems.append(Finding("bad_value", self.placement, f"{one!r} is there twice", join(join(self.path, key), index)))
            else:
                kept[one] = None
        return tuple(kept)

    def text_map(self, key: str) -> dict[str, str]:
        """An object whose values are non-empty texts."""
        inner = self.child(key)
        if inner is None:
            return {}
        kept = {name: inner.text(name) for name in inner.data}
        if "" in kept:
            inner.complain("bad_value", "a key must not be empty", "")
        return {name: value for name, value in kept.items() if name and value}

    def child(self, key: str) -> "FieldReader | None":
        """The cursor of an inner object, or None if there is none."""
        if key not in self.data:
            return None
        value = self.data[key]
        if isinstance(value, dict):
            return FieldReader(cast("dict[str, Any]", value), join(self.path, key), self.placement, self.problems)
        self.wrong_type(key, "an object")
        return None


def misfit(data: Mapping[str, Any], required: Iterable[str], allowed: Iterable[str]) -> int:
    """How many required keys are missing and how many keys are unknown."""
    known = {*required, *allowed}
    return sum(key not in data for key in required) + sum(key not in known and not is_foreign(key) for key in data)

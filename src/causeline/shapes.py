"""Rules for values from outside, and how to put small rules together.

    rule = table({"name": FILLED, "runs": list_of(FILLED, least=1)}, needed=("name",))
    rule({"runs": []})    # ["name: required", "runs: expected a list with at least 1 entry, got []"]

Law: pure. A rule gives one line for each fault, with the place inside the value first; it never raises and never changes a value.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, cast

Rule = Callable[[Any], list[str]]
"""Gives one line for each thing wrong with a value."""

_SHOWN = 80


def expected(what: str, value: Any) -> list[str]:
    """The line of a value that is not what it should be."""
    shown = repr(value)
    return [f"expected {what}, got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'}"]


def test(what: str, passes: Callable[[Any], object]) -> Rule:
    """A rule from a test."""
    return lambda value: [] if passes(value) else expected(what, value)


def anything(_value: Any) -> list[str]:
    """Every value is right."""
    return []


def maybe(rule: Rule) -> Rule:
    """The same rule, with None allowed."""
    return lambda value: [] if value is None else rule(value)


def either(what: str, *rules: Rule) -> Rule:
    """A value that one of the rules finds nothing wrong with."""
    return test(what, lambda value: any(not rule(value) for rule in rules))


def whole(least: int) -> Rule:
    """A whole number, and no bool."""
    return test(f"a whole number from {least}", lambda value: type(value) is int and value >= least)


def choice(*words: str) -> Rule:
    """One of some words."""
    return test(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


def matching(what: str, pattern: str) -> Rule:
    """Text of a form."""
    compiled = re.compile(pattern)
    return test(what, lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None)


def is_list(value: Any) -> bool:
    """Whether a value is a list or a tuple, and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def list_of(rule: Rule, what: str = "a list", *, least: int = 0, most: int | None = None) -> Rule:
    """A list whose members all follow one rule."""

    def check(value: Any) -> list[str]:
        if not is_list(value) or len(value) < least or (most is not None and len(value) > most):
            return expected(what, value)
        return [f"[{index}]: {line}" for index, member in enumerate(value) for line in rule(member)]

    return check


def table(rules: Mapping[str, Rule], *, needed: Iterable[str] = (), what: str = "") -> Rule:
    """A mapping with these keys and no others."""
    wanted = tuple(needed)

    def check(value: Any) -> list[str]:
        if not isinstance(value, Mapping):
            return expected(what or f"a table with {', '.join(rules)}", value)
        entries = cast("Mapping[str, Any]", value)
        lines = [f"{key}: unknown key; known are {', '.join(rules)}" for key in entries if key not in rules]
        lines.extend(f"{key}: required" for key in wanted if key not in entries)
        lines.extend(f"{key}: {line}" for key, rule in rules.items() if key in entries for line in rule(entries[key]))
        return lines

    return check


def table_or(rule: Rule, rules: Mapping[str, Rule], *, needed: Iterable[str] = ()) -> Rule:
    """A table where the value is a mapping, else what `rule` says."""
    as_table = table(rules, needed=needed)
    return lambda value: as_table(value) if isinstance(value, Mapping) else rule(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


FLAG = test("true or false", lambda value: type(value) is bool)
TEXT = test("text", lambda value: isinstance(value, str))
FILLED = test("text that is not empty", lambda value: isinstance(value, str) and bool(value.strip()))
POSITIVE = test("a number above 0", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE = test("a number from 0", lambda value: _is_number(value) and value >= 0)
FUNCTION = test("a function", callable)
PATH = test("a path", lambda value: isinstance(value, str | Path) and bool(str(value)))

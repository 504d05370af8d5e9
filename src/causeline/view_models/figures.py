"""Times, tokens, money and ages in the few characters a column has."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any


def moment(text: str | None) -> float:
    """A stored time in milliseconds since 1970, 0.0 where there is none."""
    return datetime.fromisoformat(text).timestamp() * 1000 if text else 0.0


def duration(ms: float | None) -> str:
    """`0.4 ms`, `12 ms`, `3.1 s`, `4 min 10 s`, `2 h 5 min`, `3 d`; "" for None."""
    if ms is None:
        return ""
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours < 48 else f"{hours // 24} d"


def age(ms: float) -> str:
    """How long ago, in one unit: `now`, `12 s`, `5 min`, `3 h`, `2 d`."""
    seconds = max(ms, 0) / 1000
    for most, unit, size in ((2, "", 1), (60, "s", 1), (3600, "min", 60), (172_800, "h", 3600)):
        if seconds < most:
            return f"{seconds // size:.0f} {unit}" if unit else "now"
    return f"{seconds // 86_400:.0f} d"


def count(number: float | None) -> str:
    """A count: `812`, `9,104`, `12.3k`, `4.1M`."""
    if number is None:
        return ""
    if number < 10_000:
        return f"{number:,.0f}"
    return f"{number / 1000:.1f}k" if number < 1_000_000 else f"{number / 1_000_000:.1f}M"


def money(dollars: float | None) -> str:
    """US dollars, "" where nobody says what it cost."""
    return "" if dollars is None else f"${dollars:.4f}" if dollars < 1 else f"${dollars:,.2f}"


def all_tokens(usage: Mapping[str, Any] | None) -> int:
    """Input and output tokens of a usage."""
    held = usage or {}
    return (held.get("input_tokens") or 0) + (held.get("output_tokens") or 0)


def total_cost(usages: "list[Mapping[str, Any]]") -> float | None:
    """The sum of what is known to have cost something, None where nothing is."""
    known = [usage["cost"] for usage in usages if usage.get("cost") is not None]
    return sum(known) if known else None

"""Two runs of the same question beside each other.

Law: pure. Both sides are counted in the same way, from what their steps have put on record.
"""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from causeline.causal.payload import as_text, fields
from causeline.cli.views.clean_text import clean, one_line
from causeline.runtime.records import Link

_LABEL = 9
_CALLS_SHOWN = 30


@dataclass(slots=True)
class Side:
    """What a run did after the point where both begin. `cost` is in US dollars, None where no provider or price says."""

    run: str
    status: str
    answer: Any = None
    error: str = ""
    models: list[str] = field(default_factory=list[str])
    calls: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    rounds: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None

    def to_json(self) -> Mapping[str, Any]:
        return {
            "run": self.run,
            "status": self.status,
            "answer": self.answer,
            **({"error": self.error} if self.error else {}),
            "models": self.models,
            "rounds": self.rounds,
            "calls": self.calls,
            "usage": {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens, "cost": self.cost},
        }


def side(run: str, status: str, error: str, links: Iterable[Link]) -> Side:
    """A run by its steps."""
    seen = Side(run, status, error=error)
    for link in links:
        _count(seen, link.checkpoint.facts)
        for node in link.nodes:
            payload = fields(node.payload)
            if node.kind == "inference":
                seen.rounds += 1
            elif node.kind == "tool_call":
                seen.calls.append({"name": payload.get("name"), "arguments": payload.get("args")})
            elif node.kind == "answer":
                seen.answer = node.payload
    return seen


def _count(seen: Side, facts: Mapping[str, Any]) -> None:
    usage = fields(facts.get("usage"))
    seen.input_tokens += usage.get("input_tokens") or 0
    seen.output_tokens += usage.get("output_tokens") or 0
    if usage.get("cost") is not None:
        seen.cost = (seen.cost or 0.0) + usage["cost"]
    model = facts.get("model")
    if isinstance(model, str) and model not in seen.models:
        seen.models.append(model)


def compared(recorded: Side, replayed: Side, width: int) -> list[str]:
    """The two in columns, in lines of at most `width` characters."""
    column = max(20, (width - _LABEL - 4) // 2)
    rows = [("", "recorded", "replayed")]
    rows += zip(("run", "model", "status", "calls", "tokens", "cost", "answer"), _cells(recorded), _cells(replayed), strict=True)
    lines: list[str] = []
    for label, left, right in rows:
        pairs = zip_longest(_wrapped(left, column), _wrapped(right, column), fillvalue="")
        lines += [f"{label if first == 0 else '':<{_LABEL}}  {one:<{column}}  {other}".rstrip() for first, (one, other) in enumerate(pairs)]
    return lines


def _cells(seen: Side) -> Sequence[str]:
    calls = [f"{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}" for call in seen.calls[:_CALLS_SHOWN]]
    more = [f"and {len(seen.calls) - _CALLS_SHOWN} more"] if len(seen.calls) > _CALLS_SHOWN else []
    return (
        seen.run,
        ", ".join(seen.models) or "none",
        seen.status,
        "\n".join([f"{len(seen.calls)} in {seen.rounds} rounds", *map(one_line, calls), *more]),
        f"{seen.input_tokens:,} in, {seen.output_tokens:,} out",
        "unknown" if seen.cost is None else f"${seen.cost:.4f}",
        seen.error or ("none" if seen.answer is None else as_text(seen.answer)),
    )


def _wrapped(text: str, column: int) -> list[str]:
    return [piece for line in clean(text).split("\n") for piece in textwrap.wrap(line, column) or [""]]

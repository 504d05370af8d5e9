"""What one side of a comparison did: its calls, rounds, tokens and answer, counted from what its steps have put on record."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from causeline.causal.payload import fields
from causeline.runtime.records import Link


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

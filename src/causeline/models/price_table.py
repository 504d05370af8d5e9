"""What models cost: one table that anybody can change.

Law: a cost is what the provider says, or else tokens times this table, or unknown (None); it is never guessed from a
neighbouring model. Costs are facts of a step and not hashed, so a change of prices changes no id.
"""

import json
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from causeline.errors import Invalid
from causeline.models.model import Usage

_PER = 1_000_000
_FIELDS = frozenset({"input", "output", "cached", "written"})
_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|latest)$")


class PriceTable(MutableMapping[str, Mapping[str, float]]):
    """Model name -> `{input, output, cached?, written?}` in US dollars per million tokens.

    A name is `KIND:NAME` or `NAME` alone; the former wins. A date or `latest` at the end of a model's name is passed over. `cached`
    is the price of input read from the provider's cache (default: `input`), `written` of input written to it (default: `input`).
    """

    def __init__(self, rows: Mapping[str, Mapping[str, float]] | None = None) -> None:
        self._rows: dict[str, Mapping[str, float]] = {}
        self.update(rows or {})

    def __getitem__(self, name: str) -> Mapping[str, float]:
        return self._rows[name]

    def __setitem__(self, name: str, price: Mapping[str, float]) -> None:
        """Raises Invalid for a price of another shape."""
        right = {"input", "output"} <= price.keys() <= _FIELDS and all(_is_price(value) for value in price.values())
        if not right:
            raise Invalid(
                f"The price of {name!r} is {dict(price)!r}; it is {{input, output, cached?, written?}} in US dollars per million tokens."
            )
        self._rows[name] = dict(price)

    def __delitem__(self, name: str) -> None:
        del self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def replace(self, rows: Mapping[str, Mapping[str, float]]) -> None:
        """These rows and no others. Raises Invalid, and then nothing has changed."""
        self._rows = PriceTable(rows)._rows  # noqa: SLF001 - its own class

    def load(self, path: str | Path) -> None:
        """`replace` with the rows of a JSON file. Raises Invalid."""
        rows: Any = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in cast("dict[str, Any]", rows).values()):
            raise Invalid(f"{path} is no price table: a JSON object of model name -> {{input, output, cached?, written?}}.")
        self.replace(cast("dict[str, dict[str, float]]", rows))

    def price(self, model: str) -> Mapping[str, float] | None:
        """The row for a model's name, None if it has none."""
        bare = model.partition(":")[2] or model
        return next((self._rows[name] for name in (model, _DATED.sub("", model), bare, _DATED.sub("", bare)) if name in self._rows), None)

    def cost(self, model: str, usage: Usage, *, written: int = 0) -> float | None:
        """US dollars for tokens of a model; `written` of its input tokens were written to the provider's cache."""
        row = self.price(model)
        if row is None:
            return None
        fresh = max(0, usage.input_tokens - usage.cached_tokens - written)
        read = usage.cached_tokens * row.get("cached", row["input"]) + written * row.get("written", row["input"])
        return (fresh * row["input"] + read + usage.output_tokens * row["output"]) / _PER

    def priced(self, model: str, usage: Usage, *, written: int = 0) -> Usage:
        """The usage with its cost: the provider's own word, or this table's."""
        return usage if usage.cost is not None else replace(usage, cost=self.cost(model, usage, written=written))


def _is_price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _row(input: float, output: float, cached: float, written: float | None = None) -> dict[str, float]:
    return {"input": input, "output": output, "cached": cached, **({} if written is None else {"written": written})}


_OPUS, _OLD_OPUS, _SONNET = _row(5, 25, 0.5, 6.25), _row(15, 75, 1.5, 18.75), _row(3, 15, 0.3, 3.75)

prices = PriceTable({
    "openai:gpt-5.4": _row(2.5, 15, 0.25),
    "openai:gpt-5.4-mini": _row(0.75, 4.5, 0.075),
    "openai:gpt-5.1": _row(1.25, 10, 0.125),
    "openai:gpt-5": _row(1.25, 10, 0.125),
    "openai:gpt-5-mini": _row(0.25, 2, 0.025),
    "openai:gpt-5-nano": _row(0.05, 0.4, 0.005),
    "openai:gpt-4.1": _row(2, 8, 0.5),
    "openai:gpt-4.1-mini": _row(0.4, 1.6, 0.1),
    "openai:gpt-4.1-nano": _row(0.1, 0.4, 0.025),
    "openai:gpt-4o": _row(2.5, 10, 1.25),
    "openai:gpt-4o-mini": _row(0.15, 0.6, 0.075),
    "openai:o3": _row(2, 8, 0.5),
    "openai:o4-mini": _row(1.1, 4.4, 0.275),
    "anthropic:claude-opus-5": _OPUS,
    "anthropic:claude-opus-4-8": _OPUS,
    "anthropic:claude-opus-4-7": _OPUS,
    "anthropic:claude-opus-4-6": _OPUS,
    "anthropic:claude-opus-4-5": _OPUS,
    "anthropic:claude-opus-4-1": _OLD_OPUS,
    "anthropic:claude-opus-4": _OLD_OPUS,
    "anthropic:claude-sonnet-5": _row(2, 10, 0.2, 2.5),
    "anthropic:claude-sonnet-4-6": _SONNET,
    "anthropic:claude-sonnet-4-5": _SONNET,
    "anthropic:claude-sonnet-4": _SONNET,
    "anthropic:claude-haiku-4-5": _row(1, 5, 0.1, 1.25),
})  # fmt: skip
"""The table in use. The rows it begins with are list prices of November 2026; change or replace them as yours are."""

"""Two runs of the same question beside each other.

Law: pure. Both sides are counted in the same way, from what their steps have put on record.
"""

import json
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

from causeline.causal.payload import as_text
from causeline.cli.views.clean_text import clean, one_line
from causeline.view_models.run_side import Side

_LABEL = 9
_CALLS_SHOWN = 30


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

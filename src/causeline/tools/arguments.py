"""From what a model wrote to arguments that may be given to a tool.

Law: a tool never runs on arguments that did not parse or do not fit. A repair touches syntax only; the
schema decides afterwards, the raw text is kept, and text that was cut short in the middle of a value is not completed.
"""

import json
from dataclasses import dataclass
from typing import Any, cast

from causeline.causal import InvalidValue, canonical
from causeline.models.messages import Json
from causeline.models.stream import parse_arguments
from causeline.tools.plain import visible_text
from causeline.tools.schema import shortened
from causeline.tools.tool import Tool

MAX_REPAIRED = 200_000
"""Characters of raw text beyond which no repair is tried."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """`arguments` if the tool may have them, else None and `findings`. `raw` is the text as written where it did not parse."""

    arguments: Json | None
    raw: str | None = None
    findings: tuple[str, ...] = ()


def prepare(tool: Tool, arguments: Json | str) -> Prepared:
    """What `tool` would be given for `arguments`, an object or the text a model wrote. Runs nothing."""
    parsed = parse_arguments(arguments) if isinstance(arguments, str) else arguments
    if isinstance(parsed, dict):
        return _checked(tool, parsed, None)
    repaired = _repaired(tool, parsed)
    if repaired is None:
        return Prepared(None, parsed, (f"$: expected one JSON object, got {_echo(parsed)}",))
    return _checked(tool, repaired, parsed)


def _checked(tool: Tool, arguments: Json, raw: str | None) -> Prepared:
    try:
        canonical(arguments)
    except InvalidValue as error:
        return Prepared(None, raw, tuple(str(line) for line in error.findings))
    lines = tool.body.findings(arguments)
    return Prepared(None, raw, tuple(lines)) if lines else Prepared(arguments, raw)


def _repaired(tool: Tool, raw: str) -> Json | None:
    """An object in the tool's own words that `raw` is but for its syntax, or None."""
    import json_repair  # noqa: PLC0415 - only broken arguments need it

    if len(raw) > MAX_REPAIRED or _cut(raw):
        return None
    try:
        value: Any = json_repair.loads(raw)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, str):
        value = parse_arguments(value) if value.strip() else None
    if not isinstance(value, dict) or not value:
        return None
    found = cast(Json, value)
    known: Json = tool.parameters.get("properties", {})
    return found if all(key in known for key in found) else None


def _cut(raw: str) -> bool:
    """Whether a text seems to end in the middle of a value. Missing closing brackets alone do not count."""
    quote, escaped = "", False
    for letter in raw:
        if escaped:
            escaped = False
        elif letter == "\\":
            escaped = bool(quote)
        elif quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
    end = raw.rstrip().removesuffix("```").rstrip()
    return bool(quote) or not end or not (end[-1] in "\"'}]" or end.endswith(("true", "false", "null", "True", "False", "None")))


def _echo(raw: str) -> str:
    return json.dumps(shortened(visible_text(raw)), ensure_ascii=False)

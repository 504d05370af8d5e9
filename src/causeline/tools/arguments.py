"""From what a model wrote to arguments that may be given to a tool.

Law: a tool never runs on arguments that did not parse or do not fit. Syntax may be mended (see `mending`); the schema
decides afterwards, and the raw text is kept.
"""

import json
from dataclasses import dataclass

from causeline.causal import InvalidValue, canonical
from causeline.errors import words_of
from causeline.graph.engine.containment import from_outside
from causeline.models.messages import Json
from causeline.models.stream import parse_arguments
from causeline.tools.json_schema import shortened
from causeline.tools.mending import mended
from causeline.tools.result_json import DEPTH, visible_text
from causeline.tools.tool import InvalidTool, Tool


@dataclass(slots=True)
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
    repaired = mended(parsed, tool.body.schema.document.get("properties", {}))
    if repaired is None:
        return Prepared(None, parsed, (f"$: expected one JSON object, got {_echo(parsed)}{_fault(parsed)}",))
    return _checked(tool, repaired, parsed)


def _checked(tool: Tool, arguments: Json, raw: str | None) -> Prepared:
    try:
        canonical(arguments, depth=DEPTH)
    except InvalidValue as error:
        return Prepared(None, raw, tuple(str(line) for line in error.findings))
    try:
        arguments, lines = tool.findings(arguments)
    except InvalidTool:
        raise
    except BaseException as error:
        if from_outside(error):  # a validator is code of the tool's author
            raise
        lines = [f"$: checking them failed: {type(error).__name__}: {shortened(visible_text(words_of(error)))}"]
    return Prepared(None, raw, tuple(lines)) if lines else Prepared(arguments, raw)


def _fault(raw: str) -> str:
    """Where and why a text is no JSON, for the model to see; "" if that is not the matter."""
    try:
        json.loads(raw)
    except json.JSONDecodeError as error:
        return f" ({error.msg} at character {error.pos})"
    except (ValueError, RecursionError):
        pass
    return ""


def _echo(raw: str) -> str:
    return json.dumps(shortened(visible_text(raw)), ensure_ascii=False)

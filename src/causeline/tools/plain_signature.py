"""Signatures of texts, numbers and truth values alone, which need no pydantic: it takes 20 MB and a fifth of a second to import.

Law: schema and arguments are those that pydantic would make of the same signature.
"""

import inspect
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from causeline.models.messages import Json
from causeline.tools.json_schema import Schema
from causeline.tools.tool import ToolContext, argument_schema

_WORDS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_KINDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_INTEGERS = 2.0**63
"""Whole floats below it are taken for integers."""


@dataclass(frozen=True, slots=True)
class PlainSignature:
    """As `causeline.tools.signature.Signature`. `numbers` are the parameters whose values may have to be made int or float."""

    schema: Schema
    numbers: Mapping[str, type]
    context: str | None

    def findings(self, arguments: Json) -> list[str]:
        """What is wrong with the arguments, one line each."""
        return self.schema.findings(arguments) or [
            f"$.{name}: the number is too big for {kind.__name__}"
            for name, kind in self.numbers.items()
            if name in arguments and not _fits(kind, arguments[name])
        ]

    def bind(self, arguments: Json, context: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of the call. What was not given is left to the function's own defaults."""
        keywords = dict(arguments)
        for name, kind in self.numbers.items():
            if name in keywords and type(keywords[name]) is not kind:
                keywords[name] = kind(keywords[name])
        if self.context is not None:
            keywords[self.context] = context
        return [], keywords


def plain_signature(name: str, named: Iterable[inspect.Parameter], hints: Mapping[str, Any], context: str | None) -> PlainSignature | None:
    """The signature of a function with these parameters; None where one of them is not plain."""
    properties: dict[str, Json] = {}
    required: list[str] = []
    for each in named:
        kind: Any = hints.get(each.name)
        if kind not in _PLAIN or each.kind not in _KINDS:
            return None
        properties[each.name] = {"type": _WORDS[kind]}
        if each.default is inspect.Parameter.empty:
            required.append(each.name)
        elif type(each.default) is kind and (kind is not float or math.isfinite(each.default)):
            properties[each.name] = {"default": each.default, "type": _WORDS[kind]}
        else:
            return None
    document: Json = {"properties": properties, "additionalProperties": False, "type": "object"}
    if required:
        document["required"] = required
    numbers = {parameter: hints[parameter] for parameter in properties if hints[parameter] in (int, float)}
    return PlainSignature(argument_schema(name, document), numbers, context)


_PLAIN: tuple[Any, ...] = tuple(_WORDS)


def _fits(kind: type, value: float) -> bool:
    if kind is int:
        return type(value) is int or abs(value) < _INTEGERS
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False

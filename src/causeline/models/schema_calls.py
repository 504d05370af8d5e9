"""Tool calls as a reply constrained by JSON Schema, for models without tool calling of their own.

Law: pure. A reply is exactly `{"tool": NAME, "args": {...}}` or `{"answer": ...}`: one branch of an `anyOf`
for each tool, its name a constant, so that a grammar cannot mix one tool's name with another's arguments.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from causeline.models.messages import Json, Message, ToolCall, ToolSpec
from causeline.models.stream import read_json
from causeline.models.text_calls import Decoded

ANSWER: Json = {"type": "string", "minLength": 1}
_WORDS = ("Berlin", "apple", "green", "Lisbon", "river", "Madrid", "garden", "Vienna", "window", "Dublin")
_SAMPLES: Json = {"boolean": True, "null": None}
_EXAMPLES_MAX = 8
_ROUNDS_MAX = 4


def schema_for(tools: Sequence[ToolSpec], answer: Json | None = None) -> Json:
    """The schema of a reply that calls one of `tools` or answers; `answer` is the schema of the answer (default: some text).

    Definitions of a tool's schema (`$defs`, `definitions`) move to the root under names of their own.
    """
    definitions: Json = {}
    branches = [
        _record({"tool": {"const": tool.name}, "args": _hoisted(tool.parameters, f"{index}", definitions)})
        for index, tool in enumerate(tools)
    ]
    branches.append(_record({"answer": _hoisted(answer or ANSWER, "answer", definitions)}))
    schema: Json = {"anyOf": branches} if len(branches) > 1 else branches[0]
    return {**schema, "$defs": definitions} if definitions else schema


def decode_schema_reply(text: str, tools: Sequence[ToolSpec]) -> Decoded:
    """What a reply under `schema_for(tools)` says. A text that is no such reply comes back as it was, with the `problem`."""
    try:
        value = read_json(text)
    except ValueError as error:
        return Decoded(text, (), f"The reply is not JSON: {error}.")
    if isinstance(value, dict):
        record = cast(Json, value)
        if record.keys() == {"answer"}:
            return Decoded(as_text(record["answer"]))
        name, arguments = record.get("tool"), record.get("args")
        if record.keys() == {"tool", "args"} and isinstance(arguments, dict) and any(tool.name == name for tool in tools):
            return Decoded("", (ToolCall("", cast(str, name), cast(Json, arguments)),))
    return Decoded(text, (), "The reply is neither an answer nor a call of a tool in scope.")


def call_text(call: ToolCall) -> str:
    """How a call is written in a schema reply."""
    return json.dumps({"tool": call.name, "args": call.arguments}, ensure_ascii=False)


def answer_text(answer: str) -> str:
    """How an answer is written in a schema reply."""
    return json.dumps({"answer": answer}, ensure_ascii=False)


def as_text(value: Any) -> str:
    """Text as it is, any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def examples(tools: Sequence[ToolSpec]) -> list[Message]:
    """Turns that show a small model the form of a reply: a greeting that needs no tool, then for each tool a question,
    the call, its result and the answer.

    Values come from the schema's `examples`, `default`, `const` or `enum`, else they are made up. Few tools are shown more
    often, so that the form is learnt, asked for in other words each time, and every other round begins in the middle,
    because a small model prefers the tool it saw last. An answer repeats the result, because that is what it copies.
    """
    shown = list(tools)[:_EXAMPLES_MAX]
    rounds = min(_ROUNDS_MAX, _EXAMPLES_MAX // max(1, len(shown)))
    turns = [Message("user", "Hello"), Message("assistant", answer_text("Hello! How can I help you?"))]
    for number in range(rounds):
        first = number % 2 * (len(shown) // 2)
        turns += [turn for tool in shown[first:] + shown[:first] for turn in _example(tool, number)]
    return turns


def _example(tool: ToolSpec, number: int) -> list[Message]:
    properties: Json = tool.parameters.get("properties", {})
    seed = sum(map(ord, tool.name)) + 5 * number
    sample = _Sample({**tool.parameters.get("definitions", {}), **tool.parameters.get("$defs", {})}, number)
    arguments = {key: sample.of(node, seed + place) for place, (key, node) in enumerate(properties.items())}
    named = " and ".join(f"{key} {as_text(value)}" for key, value in arguments.items())
    values = " and ".join(map(as_text, arguments.values()))
    title = tool.name.replace("_", " ")
    purpose = tool.description.rstrip(".") or title
    asked = (f"{purpose}: {named}", f"{title} {named}?", f"What is the {title} of {values}?", f"{purpose} {values}?")[number]
    found = f"{_WORDS[(seed + 3) % len(_WORDS)]} {number + 4}2"
    return [
        Message("user", asked),
        Message("assistant", call_text(ToolCall("", tool.name, arguments))),
        Message("user", f"Result: {found}"),
        Message("assistant", answer_text(f"{title.capitalize()}: {found}.")),
    ]


@dataclass(frozen=True, slots=True)
class _Sample:
    """Makes up values for a schema with these definitions, other ones in each round."""

    definitions: Json
    round: int

    def of(self, node: Any, seed: int, depth: int = 4) -> Any:
        schema = self._resolved(cast(Json, node) if isinstance(node, dict) else {})
        listed: list[Any] = schema.get("examples") or schema.get("enum") or [schema[key] for key in ("const", "default") if key in schema]
        if listed:
            return listed[self.round % len(listed)]
        kinds: Any = schema.get("type")
        kind = str(cast(list[Any], kinds or [""])[0]) if isinstance(kinds, list) else kinds
        if kind in ("integer", "number"):
            low = schema.get("minimum", 1)
            return min(low + seed * 7 % 40, schema.get("maximum", low + 40))
        if kind == "array":
            return [self.of(schema.get("items"), seed, depth - 1)] if depth else []
        if kind == "object":
            children: Json = schema.get("properties", {}) if depth else {}
            return {key: self.of(child, seed, depth - 1) for key, child in children.items()}
        return _SAMPLES[kind] if kind in _SAMPLES else _WORDS[seed % len(_WORDS)]

    def _resolved(self, schema: Json) -> Json:
        """The schema behind references and first alternatives."""
        for _ in range(8):
            if isinstance(schema.get("$ref"), str):
                schema = self.definitions.get(schema["$ref"].rpartition("/")[2], {})
            elif schema.get("anyOf") or schema.get("oneOf"):
                schema = (schema.get("anyOf") or schema["oneOf"])[0]
            else:
                break
        return schema


def _record(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _hoisted(schema: Json, owner: str, definitions: Json) -> Json:
    """`schema` with its definitions moved into `definitions` and its references following them."""
    for word in ("$defs", "definitions"):
        for name, node in schema.get(word, {}).items():
            definitions[f"{owner}.{name}"] = _referring(node, owner)
    return _referring({key: value for key, value in schema.items() if key not in ("$defs", "definitions", "$schema")}, owner)


def _referring(node: Any, owner: str) -> Any:
    if isinstance(node, list):
        return [_referring(item, owner) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    found: Json = {}
    for key, value in cast(Json, node).items():
        local = key == "$ref" and isinstance(value, str) and value.startswith(("#/$defs/", "#/definitions/"))
        found[key] = f"#/$defs/{owner}.{value.rpartition('/')[2]}" if local else _referring(value, owner)
    return found

"""What an answer has to be: the schema a model is asked for, and the value its reply holds.

Law: pure. Many providers take objects only, so a value of another kind is asked for as `{"value": ...}`, and is taken with the
wrapper or without.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from causeline.errors import Invalid
from causeline.models.messages import Json

VALUE = "value"
"""The key under which a value that is no object is asked for."""


class NoSchema(Invalid):
    """A type has no JSON Schema."""

    code = "no_schema"


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """`asked` is what the model is asked for: `{"name", "schema", "strict"?}`, or a provider's own format. `schema` is what the answer
    has to fit, {} for any JSON object. `wrapped` says that the answer is asked for under `value`."""

    asked: Json
    schema: Json
    wrapped: bool = False

    def unwrapped(self, value: Any) -> Any:
        """The answer in what a reply holds."""
        if self.wrapped and isinstance(value, dict) and cast("Json", value).keys() == {VALUE}:
            return cast("Json", value)[VALUE]
        return cast("object", value)


def format_of_schema(wanted: Mapping[str, Any]) -> AnswerFormat | None:
    """The format a `response_format` stands for; None for plain text."""
    given: Json = dict(wanted)
    kind = given.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return AnswerFormat(given, {})
    if kind == "json_schema":
        return AnswerFormat(given, cast("Json", given.get("json_schema") or {}).get("schema") or {})
    if "schema" not in given:
        return _asked({"name": "answer"}, given)
    return _asked({"name": "answer", **{key: value for key, value in given.items() if key != "schema"}}, given["schema"])


def format_of_type(output_type: Any) -> AnswerFormat:
    """The format a Python type stands for. Raises NoSchema."""
    try:
        return _known_format(output_type)
    except TypeError:  # a type with something in it that has no hash
        return _format_of_type(output_type)


def _format_of_type(output_type: Any) -> AnswerFormat:
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it
    from pydantic_core import SchemaError  # noqa: PLC0415 - as above

    try:
        schema = pydantic.TypeAdapter[Any](output_type).json_schema()
    except (pydantic.PydanticUserError, SchemaError, TypeError) as error:
        hint = "; a JSON Schema is given as response_format" if isinstance(output_type, Mapping) else ""
        raise NoSchema(f"the type has no JSON Schema: {str(error).splitlines()[0]}{hint}") from error
    return _asked({"name": "answer"}, schema)


_known_format = lru_cache(maxsize=64)(_format_of_type)


def has_no_schema(output_type: Any) -> str | None:
    """Why a type has no JSON Schema; None if it has one."""
    try:
        format_of_type(output_type)
    except NoSchema as error:
        return error.message
    return None


def _asked(head: Json, schema: Mapping[str, Any]) -> AnswerFormat:
    """The format for a schema: as it is where it is one of an object, else wrapped. A reference at the root is put in its place, because
    strict readers want `type` there."""
    rooted = _rooted(dict(schema))
    if rooted.get("type") == "object":
        return AnswerFormat({**head, "schema": rooted}, rooted)
    definitions = {key: rooted[key] for key in ("$defs", "definitions") if key in rooted}
    inner = {key: value for key, value in rooted.items() if key not in definitions}
    wrapper: Json = {"type": "object", "properties": {VALUE: inner}, "required": [VALUE], "additionalProperties": False, **definitions}
    return AnswerFormat({**head, "schema": wrapper}, rooted, wrapped=True)


def _rooted(schema: Json) -> Json:
    name = str(schema.get("$ref", ""))
    for word in ("$defs", "definitions"):
        prefix = f"#/{word}/"
        if name.startswith(prefix) and set(schema) <= {"$ref", word} and name.removeprefix(prefix) in schema.get(word, {}):
            return {**schema[word][name.removeprefix(prefix)], word: schema[word]}
    return schema

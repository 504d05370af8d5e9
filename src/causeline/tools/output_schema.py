"""What a tool promises to return: a JSON Schema or a type, checked against each result.

Law: the schema is made when it is first needed. A result that does not fit is a failure of the tool, in words that say where.
"""

import functools
from collections.abc import Mapping
from typing import Any, cast

from causeline.errors import Invalid
from causeline.models.messages import Json
from causeline.tools.json_schema import Schema, shortened


class InvalidOutput(Invalid):
    """Not something a result could be checked against."""

    code = "invalid_output_type"


class OutputSchema:
    """`output` is a JSON Schema or any type that pydantic can describe. Raises InvalidOutput when it is first used and is neither."""

    def __init__(self, output: Any) -> None:
        self.output = output

    @functools.cached_property
    def schema(self) -> Schema:
        given: object = self.output
        return Schema(dict(cast(Json, given)) if isinstance(given, Mapping) else _described(given))

    def findings(self, result: Any) -> list[str]:
        """What is wrong with a result, one line each."""
        return self.schema.findings(result)


def _described(kind: Any) -> Json:
    import pydantic  # noqa: PLC0415 - only tools with a type for their output need it

    try:
        return pydantic.TypeAdapter(kind).json_schema(mode="serialization")
    except (pydantic.PydanticUserError, pydantic.PydanticSchemaGenerationError, pydantic.PydanticUndefinedAnnotation, TypeError) as error:
        raise InvalidOutput(f"output: {shortened(repr(kind))} has no JSON Schema: {shortened(str(error).splitlines()[0])}") from error

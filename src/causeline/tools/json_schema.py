"""A JSON Schema, compiled once, that says in one line a fault what is wrong with a value.

Law: a schema is data from outside. It is compiled without any access to network or disk, and its
patterns may backtrack only so often.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from causeline.errors import Invalid
from causeline.models.messages import Json

if TYPE_CHECKING:
    from jsonschema_rs import Validator

MAX_FINDINGS = 10
MAX_LINE = 300
MAX_BACKTRACKS = 100_000


class InvalidSchema(Invalid):
    """Not a JSON Schema that can be used."""

    code = "invalid_schema"


class Schema:
    """`document` is the schema as plain JSON."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self._validator: Validator | None = None

    def compile(self) -> "Validator":
        """The compiled schema. Raises InvalidSchema where it is none."""
        if self._validator is None:
            self._validator = _compiled(self.document)
        return self._validator

    def findings(self, value: Any) -> list[str]:
        """What is wrong with `value`: at most ten lines of the form `$.place: fault`."""
        validator = self._validator or self.compile()
        if validator.is_valid(value):
            return []
        lines: list[str] = []
        for error in validator.iter_errors(value):
            if len(lines) == MAX_FINDINGS:
                lines.append("... and more")
                break
            lines.append(f"{place(error.instance_path)}: {shortened(error.message)}")
        return lines

    def fault_places(self, value: Any) -> list[tuple[str | int, ...]]:
        """The places in `value` that are wrong, without the words."""
        validator = self.compile()
        return [] if validator.is_valid(value) else [tuple(error.instance_path) for error in validator.iter_errors(value)]


def first_fault(document: Json, value: Any) -> str | None:
    """The first thing wrong with `value`, as `$.place: fault`, or None. Raises InvalidSchema.

    Compiles the schema each time: keep a Schema to check many values.
    """
    lines = Schema(document).findings(value)
    return lines[0] if lines else None


def place(path: Sequence[str | int]) -> str:
    """`$.rows[0].name`, of a key of any length its ends."""
    return shortened("$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path))


def shortened(text: str, limit: int = MAX_LINE) -> str:
    """Both ends of a text, for messages that echo a value of any size."""
    return text if len(text) <= limit else f"{text[: limit // 2]} ... {text[-(limit // 3) :]}"


def _compiled(document: Json) -> "Validator":
    import jsonschema_rs  # noqa: PLC0415 - a compiled extension that only agents with tools need

    try:
        patterns = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS)
        return jsonschema_rs.validator_for(document, offline=True, pattern_options=patterns)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as error:
        raise InvalidSchema(f"Not a usable JSON Schema: {shortened(str(error))}") from error

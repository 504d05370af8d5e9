"""Structured answers: what the caller asked for decides whether a text is an answer."""

from typing import Any, cast

from causeline.agent.options import Options
from causeline.models.stream import read_json
from causeline.tools.schema import first_fault


def check_output(options: Options, text: str) -> tuple[Any, str | None]:
    """The answer in `text` and None, or None and a sentence for the model saying what is wrong.

    Without a response format the answer is the text itself. With one it is the JSON object, checked against
    the schema where there is one.
    """
    schema = options.output_schema()
    if schema is None:
        return text, None
    try:
        value = read_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return None, "Your answer must be one JSON object and nothing else."
    fault = first_fault(schema, value)
    return (cast("dict[str, Any]", value), None) if fault is None else (None, f"Your answer does not fit its schema: {fault}. Answer again with one JSON object.")


def typed(options: Options, answer: Any) -> Any:
    """The answer as the agent's output type, or as it is where there is none."""
    if options.output_type is None or answer is None:
        return answer
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it

    return pydantic.TypeAdapter[Any](options.output_type).validate_python(answer)

"""Structured answers: what the caller asked for decides whether a text is an answer."""

from typing import Any, cast

from causeline.agent.options import Options
from causeline.causal import InvalidValue, canonical
from causeline.models.messages import Json
from causeline.models.stream import read_json
from causeline.tools.json_schema import first_fault


def check_output(options: Options, text: str) -> tuple[Any, str | None]:
    """The answer in `text` and None, or None and a sentence for the model saying what is wrong.

    Without a response format the answer is the text itself. With one it is the JSON object, checked against
    the schema where there is one, and by the output type where there is one.
    """
    schema = options.output_schema()
    if schema is None:
        return text, None
    try:
        value: Any = read_json(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return None, "Your answer must be one JSON object and nothing else."
    answer = cast("Json", value)
    fault = _unwritable(answer) or first_fault(schema, answer) or _mistyped(options, answer)
    return (answer, None) if fault is None else (None, f"Your answer does not fit its schema: {fault}. Answer again with one JSON object.")


def typed(options: Options, answer: Any) -> Any:
    """The answer as the agent's output type, or as it is where there is none."""
    if options.output_type is None or answer is None:
        return answer
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it

    return pydantic.TypeAdapter[Any](options.output_type).validate_json(canonical(answer))


def _unwritable(answer: Json) -> str | None:
    """Why the log cannot keep the answer, such as too deep a nesting."""
    try:
        canonical(answer)
    except InvalidValue as error:
        return error.message
    return None


def _mistyped(options: Options, answer: Json) -> str | None:
    """What the output type's own checks, which no JSON Schema can say, have against the answer."""
    if options.output_type is None:
        return None
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it

    try:
        typed(options, answer)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in ('$', *first['loc']))}: {first['msg']}"
    except Exception as error:  # noqa: BLE001 - a check of the caller's own may raise anything
        return f"{type(error).__name__}: {error}"
    return None

"""Structured answers: what the caller asked for decides whether a text is an answer.

Law: pure. One JSON value of the text is the answer: the whole of it, what stands in a fence, or what stands in prose. Where several
different ones would do, none is taken. Syntax is mended last, and never in a text that was cut.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from causeline.agent.answer_format import AnswerFormat
from causeline.agent.options import Options
from causeline.causal import InvalidValue, canonical
from causeline.errors import words_of
from causeline.graph.engine.containment import from_outside
from causeline.models.stream import read_json
from causeline.tools.json_schema import first_fault

_FENCE = re.compile(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENER = re.compile(r"[{\[]")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b')
_SPANS = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_FAULTS_MAX = 64
_MENDED_MAX = 50_000
Values = Callable[[str, AnswerFormat], Iterator[Any]]


def check_output(options: Options, text: str, *, cut: bool = False) -> tuple[Any, str | None]:
    """The answer in `text` and None, or None and a sentence for the model saying what is wrong.

    Without a response format the answer is the text itself. With one it is a JSON value, checked against the schema where there is one,
    and by the output type where there is one.
    """
    wanted = options.answer_format()
    if wanted is None:
        return text, None
    first: str | None = None
    for values in _PLACES if not cut else _PLACES[:-1]:
        fitting: dict[bytes, Any] = {}
        for value in values(text, wanted):
            fault = _fault(options, wanted, value)
            if fault is None:
                fitting[canonical(value)] = value
            elif values is not _bare:
                first = first or fault
        if len(fitting) == 1:
            return _in_type(options, next(iter(fitting.values()))), None
        if fitting:
            return None, f"Your answer holds {len(fitting)} values that would fit. Answer again with one JSON value and nothing else."
    kind = "object" if wanted.schema.get("type", "object") == "object" else "value"
    if first is None:
        return None, f"Your answer must be one JSON {kind} and nothing else."
    return None, f"Your answer does not fit its schema: {first}. Answer again with one JSON {kind}."


def _in_type(options: Options, answer: Any) -> Any:
    """The answer as its output type writes it, where that is the same value: a whole number that was written as 5.0 is 5."""
    if options.output_type is None:
        return answer
    import pydantic  # noqa: PLC0415 - as below

    adapter = pydantic.TypeAdapter[Any](options.output_type)
    written = adapter.dump_python(adapter.validate_json(canonical(answer)), mode="json", by_alias=True)
    return written if written == answer else answer


def typed(options: Options, answer: Any) -> Any:
    """The answer as the agent's output type, or as it is where there is none."""
    if options.output_type is None:
        return answer
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it

    return pydantic.TypeAdapter[Any](options.output_type).validate_json(canonical(answer))


def _whole(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    yield from _read(text, wanted)


def _fenced(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    for fence in _FENCE.finditer(text):
        yield from _read(fence.group(1), wanted)


def _in_prose(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    """Objects and lists that stand in the text, none inside another."""
    position = faults = 0
    while faults < _FAULTS_MAX and (opener := _OPENER.search(text, position)) is not None:
        try:
            _, position = _SPANS.raw_decode(text, opener.start())
        except (json.JSONDecodeError, RecursionError):
            position, faults = opener.end(), faults + 1
            continue
        yield from _read(text[opener.start() : position], wanted)


def _bare(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    """The text itself, where the answer may be a text."""
    if wanted.wrapped:
        yield text.strip()


def _words_in_prose(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    """Numbers, quoted texts and the words of JSON, where the answer is no object."""
    if wanted.wrapped:
        for word in _SCALAR.finditer(text):
            yield from _read(word.group(), wanted)


def _mended(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    """What the text is but for its syntax, from its first bracket on."""
    import json_repair  # noqa: PLC0415 - only broken answers need it

    opener = _OPENER.search(text)
    if opener is None or len(text) > _MENDED_MAX:
        return
    try:
        value: Any = json_repair.loads(text[opener.start() : max(text.rfind("}"), text.rfind("]")) + 1])
    except Exception:  # noqa: BLE001 - text that the library stumbles over is text it cannot mend
        return
    if isinstance(value, dict | list):
        yield wanted.unwrapped(value)


_PLACES: tuple[Values, ...] = (_whole, _fenced, _in_prose, _bare, _words_in_prose, _mended)


def _read(text: str, wanted: AnswerFormat) -> Iterator[Any]:
    try:
        yield wanted.unwrapped(read_json(text))
    except ValueError:
        return


def _fault(options: Options, wanted: AnswerFormat, value: Any) -> str | None:
    """What is wrong with a value as the answer."""
    if not wanted.wrapped and not isinstance(value, dict):
        return "expected an object"
    return _unwritable(value) or first_fault(wanted.schema, value) or _mistyped(options, value)


def _unwritable(answer: Any) -> str | None:
    """Why the log cannot keep the answer, such as too deep a nesting."""
    try:
        canonical(answer)
    except InvalidValue as error:
        return error.message
    return None


def _mistyped(options: Options, answer: Any) -> str | None:
    """What the output type's own checks, which no JSON Schema can say, have against the answer."""
    if options.output_type is None:
        return None
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it

    try:
        typed(options, answer)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in ('$', *first['loc']))}: {first['msg']}"
    except BaseException as error:
        if from_outside(error):  # a check of the caller's own may raise anything
            raise
        return f"{type(error).__name__}: {words_of(error)}"
    return None

"""Tool calls that a model wrote into its text.

Law: pure, never raises on any text, and takes time linear in its length. A call is taken only when its
envelope is whole, well formed and names a tool in scope; anything else stays what it was: text.

Envelopes, one or many, with or without code fences and prose around them:
`{"name", "arguments" | "parameters" | "args" | "input"}`, `{"tool", "args"}`, `{"function": {"name", "arguments"}}`,
`{"tool_calls": [...]}`, a list of those, `<tool_call>...</tool_call>`, `<function=NAME>{...}</function>`,
`<function=NAME><parameter=KEY>VALUE</parameter></function>`, `TOOL_CALL {...}`.
`FINAL text` and `FINAL {"answer": ...}` mark an answer. A `state` list of `{type, key, content}` beside
a call or an answer becomes calls of `remember` where that tool is in scope.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from causeline.models.messages import Json, ToolCall, ToolSpec
from causeline.models.stream import parse_arguments, read_json

REMEMBER = "remember"
_STATE_MAX = 8
_NAME_KEYS = ("name", "tool", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_EXTRA_KEYS = frozenset({"id", "call_id", "tool_call_id", "type", "index", "thought", "state"})
_CALL_TYPES = frozenset({"function", "tool_call", "tool_use", "function_call"})

_OPENER = re.compile(r'\{\s*"|\[\s*\{\s*"|<function=')
_FAULTS_MAX = 256
_FUNCTION = re.compile(r"<function=([^<>\s]{1,64})>")
_FINAL_START = re.compile(r"\s*FINAL\b(:?)\s*")
_FINAL_LINE = re.compile(r"^FINAL(?:(:)[ \t]*|[ \t]*(?=\{))", re.MULTILINE)
_HEADING = re.compile(r"[A-Z]{2}")
_BEFORE = ("TOOL_CALL:", "TOOL_CALL", "<tool_call>", "<tool_calls>", "<function_call>", "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>")
_MARKS = ("TOOL_CALL:", "TOOL_CALL", "<tool_call>", "<tool_calls>", "<function_call>")
_AFTER = re.compile(r"(?:\s|,|```|</tool_calls?>|</function_call>|<\|/tool_call\|>|<\|eom_id\|>)*")
_FENCE = re.compile(r"```[\w-]{0,16}$")
_MARKED = re.compile(r"\s*(?:TOOL_CALL\b|<tool_call>|<function=)")
_BEGINNINGS = ("{", "[", "```", "<tool_call", "<function", "TOOL_CALL", "FINAL", "<|")

# Only the span of a value is wanted here, so numbers stay text: no limit on their size, no refusal in the middle of a text.
_SPANS = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


@dataclass(slots=True)
class Decoded:
    """`text` without its envelopes, and the calls in their order, ids "". `problem` says why a text that
    is marked as a call is none; it is then returned as it was."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    calls: tuple[ToolCall, ...]


def may_open_call(text: str) -> bool:
    """Whether a reply that begins with `text` may still turn out to be a call or a marked answer (hold it back while true)."""
    head = text.lstrip()[:16]
    return any(head.startswith(word) or word.startswith(head) for word in _BEGINNINGS)


def decode_calls(text: str, tools: Iterable[ToolSpec], *, native: bool = False) -> Decoded:
    """What `text` says when calls in it count as calls. From a model with `native` tools only a reply that is nothing but calls counts, or
    one that ends in marked ones: what is quoted in prose is text."""
    scope = {tool.name: tool for tool in tools}
    final = _final(text, _FINAL_START.match(text), scope)
    if final is not None:
        return final
    spans = _spans(text, scope)
    if spans and not (native and _quoted(text, spans)):
        return Decoded(_outside(text, spans), tuple(call for span in spans for call in span.calls))
    final = _final(text, _FINAL_LINE.search(text), scope)
    if final is not None:
        return final
    problem = "The reply is marked as a tool call, but is not a whole JSON call of a tool in scope." if _MARKED.match(text) else None
    return Decoded(text, (), problem)


def _final(text: str, mark: re.Match[str] | None, scope: Mapping[str, ToolSpec]) -> Decoded | None:
    if mark is None:
        return None
    rest = text[mark.end() :].strip()
    if rest.startswith("{"):
        try:
            value = read_json(rest)
        except ValueError:
            value = None
        if isinstance(value, dict) and "answer" in value and not cast(Json, value).keys() - {"answer", "state"}:
            record = cast(Json, value)
            answer = record["answer"]
            said = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            return Decoded(said, _remembered(record.get("state"), scope)) if said.strip() else None
    if not rest or not (mark.group(1) or not _HEADING.match(rest)):
        return None
    return Decoded(rest)


def _spans(text: str, scope: Mapping[str, ToolSpec]) -> list[_Span]:
    spans: list[_Span] = []
    position, closers, faults = 0, True, 0
    while faults < _FAULTS_MAX and (opener := _OPENER.search(text, position)) is not None:
        start = opener.start()
        if opener.group() == "<function=":
            end = text.find("</function>", start) if closers else -1
            closers = end >= 0
            position = opener.end() if end < 0 else end + len("</function>")
            call = _function_tag(text, start, end, scope) if closers else None
            if call is not None:
                spans.append(_Span(start, position, (call,)))
            continue
        try:
            value, end = _SPANS.raw_decode(text, start)
        except json.JSONDecodeError as error:
            # Everything up to the fault belongs to a broken value, so nothing in it is a whole call.
            # The decoder counts lines up to the fault, so their number is bounded to keep the whole scan linear.
            position, faults = max(start + 1, error.pos), faults + 1
            continue
        except RecursionError:
            break
        position = end
        known = scope if not _is_marked(text, start) else _Named(scope)
        if _calls_in(value, known):
            calls = _strict(text[start:end], known)
            if calls:
                spans.append(_Span(start, end, calls))
    return spans


def _quoted(text: str, spans: list[_Span]) -> bool:
    """Whether a text speaks of calls instead of making them: words come after one, or before one that is not marked, or is fenced."""
    position, prose, tail = 0, False, ""
    for span in spans:
        gap = text[position : span.start]
        before, _ = _without_openers(gap)
        words = before if position == 0 else before[cast(re.Match[str], _AFTER.match(before)).end() :]
        if words.strip() and position:
            return True
        if position == 0:
            prose, tail = bool(words.strip()), before[-1:] + gap[len(before) :]
        position = span.end
    if text[cast(re.Match[str], _AFTER.match(text, position)).end() :].strip():
        return True
    marked = all(_is_marked(text, span.start) or text.startswith("<function=", span.start) for span in spans)
    return prose and (not marked or "`" in tail)


class _Named(dict[str, ToolSpec]):
    """Every tool there may be: what is marked as a call is one, whatever it names, and its result says what there is."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(name)

    def __missing__(self, name: str) -> ToolSpec:
        return ToolSpec(name, "", {})


def _is_marked(text: str, start: int) -> bool:
    """Whether what begins here stands behind a mark that opens a call."""
    before = text[max(0, start - 40) : start].rstrip()
    before = before.removesuffix(fence.group()).rstrip() if (fence := _FENCE.search(before)) else before
    return before.endswith(_MARKS)


def _strict(text: str, scope: Mapping[str, ToolSpec]) -> tuple[ToolCall, ...]:
    try:
        return _calls_in(read_json(text), scope)
    except ValueError:
        return ()


def _calls_in(value: Any, scope: Mapping[str, ToolSpec]) -> tuple[ToolCall, ...]:
    """The calls `value` consists of, or () if anything in it is not a call."""
    if isinstance(value, dict):
        record = cast(Json, value)
        if "tool_calls" not in record:
            return _call(record, scope)
        value = record["tool_calls"]
    if not isinstance(value, list):
        return ()
    calls: list[ToolCall] = []
    for item in cast(list[Any], value):
        found = _call(cast(Json, item), scope) if isinstance(item, dict) else ()
        if not found:
            return ()
        calls.extend(found)
    return tuple(calls)


def _call(record: Json, scope: Mapping[str, ToolSpec]) -> tuple[ToolCall, ...]:
    inner = record.get("function")
    if isinstance(inner, dict):
        if record.keys() - _EXTRA_KEYS - {"function"}:
            return ()
        return _call(cast(Json, inner), scope)
    name_key = next((key for key in _NAME_KEYS if key in record), None)
    arguments_key = next((key for key in _ARGUMENT_KEYS if key in record), None)
    if name_key is None or arguments_key is None or record.keys() - _EXTRA_KEYS - {name_key, arguments_key}:
        return ()
    name, arguments = record[name_key], record[arguments_key]
    if not isinstance(name, str) or name not in scope or record.get("type", "function") not in _CALL_TYPES:
        return ()
    if isinstance(arguments, str):
        arguments = parse_arguments(arguments)
    if not isinstance(arguments, dict) or _is_schema(cast(Json, arguments), scope[name]):
        return ()
    return (ToolCall("", name, cast(Json, arguments)), *_remembered(record.get("state"), scope))


def _is_schema(arguments: Json, tool: ToolSpec) -> bool:
    """Whether this is the tool's definition being quoted, not a call of it."""
    wanted = tool.parameters.get("properties", {})
    return arguments.get("type") == "object" and "properties" in arguments and "properties" not in wanted


def _remembered(state: Any, scope: Mapping[str, ToolSpec]) -> tuple[ToolCall, ...]:
    if REMEMBER not in scope or not isinstance(state, list):
        return ()
    entries = [cast(Json, entry) for entry in cast(list[Any], state)[:_STATE_MAX] if isinstance(entry, dict)]
    fields = ("type", "key", "content")
    return tuple(ToolCall("", REMEMBER, {key: entry[key] for key in fields}) for entry in entries if entry.keys() >= set(fields))


def _function_tag(text: str, start: int, end: int, scope: Mapping[str, ToolSpec]) -> ToolCall | None:
    head = _FUNCTION.match(text, start, end)
    if head is None:
        return None
    scope = _Named(scope)
    name, body = head.group(1), text[head.end() : end].strip()
    if not body.startswith("<parameter="):
        arguments = parse_arguments(body)
    else:
        arguments = _parameters(body, scope[name].parameters.get("properties", {}))
    return ToolCall("", name, arguments) if isinstance(arguments, dict) else None


def _parameters(body: str, properties: Mapping[str, Any]) -> Json | str:
    arguments: Json = {}
    for piece in body.split("<parameter=")[1:]:
        key, opened, rest = piece.partition(">")
        value, closed, after = rest.rpartition("</parameter>")
        if not opened or not closed or after.strip():
            return body
        value = value.strip("\n")
        arguments[key.strip()] = value if properties.get(key.strip(), {}).get("type") == "string" else _value(value)
    return arguments


def _value(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text


def _outside(text: str, spans: list[_Span]) -> str:
    """The prose around the envelopes. What follows a `TOOL_CALL` line is the model playing the tool; it is dropped."""
    kept: list[str] = []
    position, played = 0, False
    for span in spans:
        gap = text[position : span.start]
        before, marked = _without_openers(gap)
        if not played:
            kept.append(before if position == 0 else before[cast(re.Match[str], _AFTER.match(before)).end() :])
        position, played = span.end, marked
    if not played:
        kept.append(text[cast(re.Match[str], _AFTER.match(text, position)).end() :])
    return "\n\n".join(piece for piece in (piece.strip() for piece in kept) if piece)


def _without_openers(gap: str) -> tuple[str, bool]:
    """The gap before an envelope without the marks that open it, and whether `TOOL_CALL` was one of them."""
    marked = False
    for _ in range(4):
        gap = gap.rstrip()
        fence = _FENCE.search(gap[-20:])
        word = next((word for word in _BEFORE if gap.endswith(word)), fence.group() if fence else "")
        if not word:
            break
        marked = marked or word.startswith("TOOL_CALL")
        gap = gap[: -len(word)]
    return gap, marked

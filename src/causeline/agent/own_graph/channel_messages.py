"""What stands in the channels of a graph of one's own: messages and calls, in our shape and in OpenAI's.

Law: pure. What is neither is refused with its place, before a model is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from causeline.errors import Invalid
from causeline.graph.node import Context
from causeline.models.messages import InvalidMessage, Message, ToolCall
from causeline.models.stream import parse_arguments

_ROLES = {"developer": "system", "function": "tool"}
_OPENAI_ONLY = frozenset({"name", "refusal", "annotations", "audio", "function_call", "reasoning_content", "type"})


def read_messages(values: Sequence[Any], channel: str, start: int = 0) -> list[Message]:
    """The messages in a part of a channel that begins at place `start`. Raises Invalid, with the place."""
    messages: list[Message] = []
    for place, value in enumerate(values, start):
        try:
            messages.append(value if isinstance(value, Message) else _message(value))
        except InvalidMessage as error:
            lines = [f"{channel}[{place}]: {line}" for line in error.findings]
            raise Invalid(f"{channel}[{place}]: {error.message}", findings=lines) from error
    return messages


def _message(value: Any) -> Message:
    shaped = _as_ours(value)
    reasoning: Any = cast("dict[str, Any]", shaped).pop("reasoning", None) if isinstance(shaped, dict) else None
    message = Message.from_json(cast("object", shaped))
    return replace(message, reasoning=tuple(cast("list[Any]", reasoning))) if isinstance(reasoning, list) else message


def _as_ours(value: Any) -> Any:
    """A message of OpenAI's shape in ours; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    message = dict(cast("Mapping[str, Any]", value))
    for key in _OPENAI_ONLY & message.keys():
        del message[key]
    message["role"] = _ROLES.get(message.get("role", ""), message.get("role"))
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [_call_as_ours(call) for call in cast("list[Any]", calls)]
    return message


def _call_as_ours(value: Any) -> Any:
    call: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    function = call.get("function")
    if not isinstance(function, Mapping):
        return cast("object", value)
    wanted = cast("Mapping[str, Any]", function)
    arguments: Any = wanted.get("arguments") or {}
    return {
        "id": call.get("id") or "",
        "name": wanted.get("name"),
        "arguments": parse_arguments(arguments) if isinstance(arguments, str) else arguments,
    }


def written(ctx: Context, channel: str, messages: Sequence[Message]) -> list[Any]:
    """What is written for new messages: the tail where the channel appends, else the whole history."""
    tail = [{**message.to_json(), **({"reasoning": list(message.reasoning)} if message.reasoning else {})} for message in messages]
    return tail if ctx.reducer(channel) == "append" else [*(ctx.state.get(channel) or ()), *tail]


def read_calls(state: Mapping[str, Any], calls_key: str, name_key: str, fallback_id: str) -> list[ToolCall]:
    """The calls that wait in the state: a list of `{id, name, args}`, or one in `_tool_call_name`, `_tool_call_args` and `_tool_call_id`.
    Arguments are an object or raw text. Raises Invalid for what is no call."""
    entries: Any = state.get(calls_key)
    if not entries:
        name = state.get(name_key)
        if not isinstance(name, str) or name in ("", "pending"):
            return []
        entries = [{"id": state.get("_tool_call_id") or fallback_id, "name": name, "args": state.get("_tool_call_args") or {}}]
    calls: list[ToolCall] = []
    for place, entry in enumerate(cast("Sequence[Any]", entries)):
        shaped = _call_as_ours(entry)
        call: Mapping[str, Any] = cast("Mapping[str, Any]", shaped) if isinstance(shaped, Mapping) else {}
        name, arguments = call.get("name"), call.get("args", call.get("arguments", {}))
        if not isinstance(name, str) or not name or not isinstance(arguments, dict | str):
            raise Invalid(f"{calls_key}[{place}]: a call is {{id, name, args}} with an object or raw text as args, not {entry!r:.80}")
        known = {one.id for one in calls}
        call_id = call.get("id")
        fresh = isinstance(call_id, str) and call_id and call_id not in known
        parsed = parse_arguments(arguments) if isinstance(arguments, str) else cast("dict[str, Any]", arguments)
        calls.append(ToolCall(cast("str", call_id) if fresh else f"{fallback_id}_{place}", name, parsed))
    return calls


def unasked(history: Sequence[Any], calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls that no reply at the end of the history asks for."""
    for value in reversed(history):
        (message,) = read_messages([value], "messages")
        if message.role == "tool":
            continue
        asked = {call.id for call in message.tool_calls}
        return [call for call in calls if call.id not in asked]
    return list(calls)

"""Messages between causeline and AG-UI, both ways. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ag_ui import core as agui


def agui_message(message: Mapping[str, Any]) -> Any:
    """One of causeline's messages as AG-UI has it. Arguments are JSON text there."""
    role, name, content = message["role"], message["id"], message["content"]
    if role == "tool":
        failure = _text(content) if message.get("is_error") else None
        return agui.ToolMessage(id=name, role="tool", content=_text(content), tool_call_id=message["tool_call_id"], error=failure)
    if role == "assistant":
        calls = [
            agui.ToolCall(id=call["id"], type="function", function=agui.FunctionCall(name=call["name"], arguments=_json(call["arguments"])))
            for call in message.get("tool_calls") or ()
        ]
        return agui.AssistantMessage(id=name, role="assistant", content=_text(content) or None, tool_calls=calls or None)
    return agui.UserMessage(id=name, role="user", content=_text(content))


def input_message(message: Any) -> dict[str, Any] | None:
    """A user's or a tool's message from an AG-UI client as a run's input; None for every other role, whose word does not count."""
    if message.role == "user":
        return {"role": "user", "id": message.id, "content": _parts(message.content)}
    if message.role == "tool":
        content = message.error if message.error and not message.content else message.content
        failed = bool(message.error)
        return {"role": "tool", "id": message.id, "content": _parts(content), "tool_call_id": message.tool_call_id, "is_error": failed}
    return None


def _parts(content: Any) -> Any:
    if isinstance(content, str):
        return content
    return [part.model_dump(by_alias=True, exclude_none=True) for part in content]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        parts = cast("Sequence[Mapping[str, Any]]", content)
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return json.dumps(content, ensure_ascii=False)


def _json(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))

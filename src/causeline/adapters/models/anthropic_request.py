"""What is sent to the Anthropic Messages API.

Law: what goes out is valid whatever is in the conversation: turns alternate, every call is answered in the very next turn,
no text block is blank, and blocks of thinking go back as they came, in their place among the calls, to their provider alone.
No network here. Source: the Anthropic API reference, "Messages", and the types of its SDK.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from causeline.adapters.models.chat_request import data_blocks, tool_schema, wire_arguments, wire_name
from causeline.adapters.models.json_bodies import encode
from causeline.models.failures import PartNotTaken
from causeline.models.messages import Content, Json, Message, ToolSpec
from causeline.models.model import Request
from causeline.models.parts import known_parts, split_data_url, text_of_data

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_CACHED: Json = {"type": "ephemeral"}
_SILENT = "(nothing was said)"
_PLACE = frozenset({"provider", "after"})
"""Keys of a kept part that are ours: who gave it, and what stood before it."""

Turn = tuple[str, bytes]
"""The role of a message and its blocks, as the inside of a JSON list."""


class AnthropicMessages:
    """Messages for `model`. `provider` is whose thinking goes back."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model

    def render(self, message: Message) -> Turn:
        """One message as a turn; its blocks are "" where there is nothing to say. Raises PartNotTaken."""
        if message.role == "assistant":
            return "assistant", _inside(self._assistant(message))
        if message.role == "tool":
            return "user", _inside([self._result(message)])
        return "user", _inside(self._blocks(message.content))

    def _assistant(self, message: Message) -> list[Json]:
        text = self._blocks(message.content)
        calls: list[Json] = [
            {"type": "tool_use", "id": wire_id(call.id), "name": wire_name(call.name), "input": wire_arguments(call.arguments)}
            for call in message.tool_calls
        ]
        blocks: list[Json] = []
        said = False
        for part in message.reasoning:
            if part.get("provider") != self._provider or part.get("type") not in ("thinking", "redacted_thinking"):
                continue
            after: Json = part.get("after") or {}
            if after.get("text") and not said:
                blocks += text
                said = True
            while calls and len(message.tool_calls) - len(calls) < after.get("calls", 0):
                blocks.append(calls.pop(0))
            blocks.append({key: value for key, value in part.items() if key not in _PLACE})
        return [*blocks, *([] if said else text), *calls]

    def _result(self, message: Message) -> Json:
        content = self._blocks(message.content)
        return {
            "type": "tool_result",
            "tool_use_id": wire_id(message.tool_call_id or ""),
            **({"content": content} if content else {}),
            **({"is_error": True} if message.is_error else {}),
        }

    def _blocks(self, content: Content) -> list[Json]:
        blocks = [self._block(part) for part in known_parts(content)]
        return [block for block in blocks if block["type"] != "text" or block["text"].strip()]

    def _block(self, part: Json) -> Json:
        kind = part["type"]
        if kind == "text":
            return {"type": "text", "text": str(part.get("text") or "")}
        if kind == "image_url":
            url = part["image_url"]["url"]
            data = split_data_url(url)
            return {"type": "image", "source": {"type": "url", "url": url} if data is None else _base64(data)}
        block = _document(part["file"]) if kind == "file" else None
        if block is None:
            raise PartNotTaken(
                f"Model {self._model} does not take this part: {str(part)[:80]}. It takes text, pictures, PDF and text files.",
                model=self._model,
                parts=[kind],
            )
        return block


def _base64(data: tuple[str, str]) -> Json:
    return {"type": "base64", "media_type": data[0], "data": data[1]}


def _document(file: Json) -> Json | None:
    url = file.get("url")
    data = split_data_url(str(file.get("file_data", "")))
    title = {"title": file["filename"]} if file.get("filename") else {}
    if isinstance(url, str):
        return {"type": "document", "source": {"type": "url", "url": url}, **title}
    if data is None:
        return None
    if data[0] == "application/pdf":
        return {"type": "document", "source": _base64(data), **title}
    if data[0].startswith("image/"):
        return {"type": "image", "source": _base64(data)}
    text = text_of_data(data)
    return None if text is None else {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **title}


def wire_id(call_id: str) -> str:
    """A call's id as the API accepts it: another provider may have given it."""
    return call_id if _ID.fullmatch(call_id) else f"call_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:24]}"


def _inside(blocks: Sequence[Json]) -> bytes:
    return b",".join(encode(block) for block in blocks)


def join_turns(turns: Sequence[Turn]) -> bytes:
    """The turns as the inside of a JSON list: those of one role become one, and the first is the user's."""
    silent = encode({"type": "text", "text": _SILENT})
    merged: list[tuple[str, list[bytes]]] = []
    for role, blocks in turns:
        if not blocks and role == "assistant":
            continue
        if not merged and role == "assistant":
            merged.append(("user", [silent]))
        if not merged or merged[-1][0] != role:
            merged.append((role, []))
        if blocks:
            merged[-1][1].append(blocks)
    return b",".join(
        b'{"role":"%s","content":[%s]}' % (role.encode(), b",".join(blocks) or silent) for role, blocks in merged
    )  # fmt: skip


def system_blocks(request: Request, leading: Sequence[Message]) -> list[Json]:
    """The system prompt, to be cached, and after it what changes from turn to turn: a digest of the log, memories, recalled text."""
    fixed = [text for text in (request.system, *(message.text for message in leading)) if text and text.strip()]
    blocks: list[Json] = [{"type": "text", "text": text} for text in (*fixed, *data_blocks(request))]
    if fixed:
        blocks[0] = {**blocks[0], "cache_control": _CACHED}
    return blocks


def tool_fields(request: Request, choice: Any) -> Json:
    """The tools, the last one marked for the cache, and the choice of one. A history with calls in it needs its tools defined
    also where none may be used any more."""
    tools = [_tool(tool) for tool in request.tools]
    if not tools:
        names = dict.fromkeys(wire_name(call.name) for message in request.messages for call in message.tool_calls)
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        return {"tools": tools, "tool_choice": {"type": "none"}} if tools else {}
    tools[-1] = {**tools[-1], "cache_control": _CACHED}
    closed = {"type": "none"} if request.tool_choice == "none" else _choice(choice)
    return {"tools": tools, **({"tool_choice": closed} if closed else {})}


def _tool(tool: ToolSpec) -> Json:
    return {"name": tool.name, "description": tool.description, "input_schema": tool_schema(tool)}


def _choice(choice: Any) -> Json | None:
    """A `tool_choice` of `model_settings`: the API's own object, or the words other providers use."""
    words = {"auto": {"type": "auto"}, "required": {"type": "any"}, "any": {"type": "any"}, "none": {"type": "none"}}
    return words.get(choice) if isinstance(choice, str) else choice

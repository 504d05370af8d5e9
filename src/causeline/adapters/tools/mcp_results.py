"""What an MCP server answers, as the result of a tool.

Law: what the model is meant to read is what it gets: text as text, pictures and files as parts, an error as an error.
Nothing is larger than a log can hold; what was left out is said.
"""

import json
from collections.abc import Sequence
from typing import Any

from causeline.models.messages import Json
from causeline.models.parts import known_part
from causeline.tools.tool import ToolResult

MAX_MEDIA = 5_000_000
"""Bytes of base64 text that pictures, sound and files of one result may have together."""


def tool_result(answer: Any) -> ToolResult:
    """A CallToolResult as a ToolResult. Texts alone are one text; structured content stands for them where they only repeat it."""
    parts = [_part(block.model_dump(mode="json", by_alias=True, exclude_none=True)) for block in answer.content]
    structured: Any = answer.structured_content
    if any(part["type"] != "text" for part in parts):
        return ToolResult({"parts": _bounded(parts)}, ok=not answer.is_error)
    text = "\n".join(part["text"] for part in parts)
    if structured is not None and (not parts or _repeats(text, structured)):
        return ToolResult(structured, ok=not answer.is_error)
    return ToolResult(text, ok=not answer.is_error)


def _part(block: Json) -> Json:
    if block.get("type") == "resource_link":
        label = block.get("title") or block.get("name") or ""
        said = " ".join(filter(None, (label, block.get("description"))))
        return {"type": "text", "text": f"[resource {block.get('uri')}{': ' + said if said else ''}]"}
    part = known_part(block)
    return part if part.get("type") in ("text", "image_url", "file", "input_audio") else {"type": "text", "text": json.dumps(block)}


def _repeats(text: str, structured: Any) -> bool:
    try:
        return json.loads(text) == structured
    except (ValueError, RecursionError):
        return False


def _bounded(parts: Sequence[Json]) -> list[Json]:
    """The parts, with words in the place of those that are too much."""
    left = MAX_MEDIA
    kept: list[Json] = []
    for part in parts:
        size = 0 if part["type"] == "text" else len(json.dumps(part))
        left -= size
        fits = size == 0 or left >= 0
        kept.append(part if fits else {"type": "text", "text": f"[left out: {part['type']} of {size} bytes; a result holds {MAX_MEDIA}]"})
    return kept

"""An Anthropic Messages server on loopback that answers what a test says and refuses what the API refuses.

Its rules are those of the API reference: "Messages", "Tool use", "Extended thinking" (blocks of thinking go back unchanged, with
the signature that was given for them), "Prompt caching" (at most four marks) and "Structured outputs".
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from tests.adapters.chat_server import ChatServer

ID = re.compile(r"[a-zA-Z0-9_-]+")
FIELDS = {
    "cache_control", "max_tokens", "messages", "metadata", "model", "output_config", "stop_sequences", "stream", "system", "temperature",
    "thinking", "tool_choice", "tools", "top_k", "top_p",
}  # fmt: skip


def events(*blocks: dict[str, Any], stop: str | None = "end_turn", usage: dict[str, int] | None = None) -> list[Any]:
    """A stream with these content blocks, each in small pieces."""
    start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "content": [], "stop_reason": None,
             "usage": {"input_tokens": 11, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3, "output_tokens": 1}}  # fmt: skip
    out: list[Any] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        empty, deltas = opened(block)
        out.append({"type": "content_block_start", "index": index, "content_block": empty})
        out += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        out.append({"type": "content_block_stop", "index": index})
    if stop:
        out.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage or {"output_tokens": 7}})
        out.append({"type": "message_stop"})
    return out


def opened(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        case "tool_use":
            written = json.dumps(block["input"]) if block["input"] else ""
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(written)]]
        case "thinking":
            said = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            return {**block, "thinking": "", "signature": ""}, [*said, {"type": "signature_delta", "signature": block["signature"]}]
        case _:
            return block, []


def pieces(text: str) -> list[str]:
    return [text[start : start + 4] for start in range(0, len(text), 4)]


class MessagesServer(ChatServer):
    """As ChatServer, for the other protocol. A list of events is streamed, each under its name. `given` holds every signature of
    thinking that was answered with, and the block it belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = [events({"type": "text", "text": "one two three"})]
        self.given: dict[str, dict[str, Any]] = {}

    def choose(self, body: dict[str, Any]) -> Any:
        return super().choose(body)

    def line(self, chunk: Any) -> str:
        return chunk if isinstance(chunk, str) else f"event: {chunk['type']}\ndata: {json.dumps(chunk)}\n\n"

    def refusal(self, found: list[str]) -> dict[str, Any]:
        return {"status": 400, "body": {"type": "error", "error": {"type": "invalid_request_error", "message": "; ".join(found)}}}

    def faults(self, body: dict[str, Any]) -> list[str]:
        headers = self.headers[-1]
        found = [] if "anthropic-version" in headers else ["anthropic-version: header is required"]
        return [*found, *top(body), *turns(body["messages"]), *pairs(body["messages"]), *self.thoughts(body), *tools(body)]

    def thoughts(self, body: dict[str, Any]) -> Iterable[str]:
        thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        asked = [message for message in body["messages"] if message["role"] == "assistant"]
        for message in asked:
            for block in message["content"]:
                if block["type"] == "thinking" and self.given.get(block["signature"]) != block:
                    yield f"thinking block {block} cannot be modified"
        if thinks and asked and body["messages"][-1]["content"][0]["type"] == "tool_result":
            first = asked[-1]["content"][0]["type"]
            if first not in ("thinking", "redacted_thinking"):
                yield f"expected `thinking` or `redacted_thinking`, but found `{first}`"


def top(body: dict[str, Any]) -> Iterable[str]:
    yield from (f"{name}: Extra inputs are not permitted" for name in body.keys() - FIELDS)
    if not isinstance(body.get("max_tokens"), int):
        yield "max_tokens: Field required"
    if body.get("thinking", {}).get("budget_tokens", 0) >= body.get("max_tokens", 0):
        yield "max_tokens must be greater than thinking.budget_tokens"
    if json.dumps(body).count('"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    for block in body.get("system", ()):
        if not block["text"].strip():
            yield "system: text content blocks must contain non-whitespace text"
    wanted = body.get("output_config", {}).get("format")
    if wanted and wanted["schema"].get("additionalProperties") is not False:
        yield "output_config.format.schema: for 'object' type, 'additionalProperties' must be explicitly set to false"


def turns(messages: list[dict[str, Any]]) -> Iterable[str]:
    for place, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[place % 2]:
            yield f"messages.{place}: roles must alternate, beginning with the user's"
        if not message["content"]:
            yield f"messages.{place}: content must not be empty"
        for block in message["content"]:
            if block["type"] == "text" and not block["text"].strip():
                yield f"messages.{place}: text content blocks must contain non-whitespace text"
            if block["type"] not in ("text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"):
                yield f"messages.{place}: unknown block {block['type']}"
    if messages[-1]["role"] != "user":
        yield "the last message must be the user's"


def pairs(messages: list[dict[str, Any]]) -> Iterable[str]:
    waiting: list[str] = []
    for place, message in enumerate(messages):
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        if results != waiting or [block["type"] for block in message["content"]][: len(results)] != ["tool_result"] * len(results):
            yield f"messages.{place}: `tool_use` ids {waiting} were found without `tool_result` blocks immediately after: {results}"
        calls = [block for block in message["content"] if block["type"] == "tool_use"]
        waiting = [call["id"] for call in calls]
        if len(set(waiting)) != len(waiting) or not all(ID.fullmatch(name) for name in waiting):
            yield f"messages.{place}: tool_use ids {waiting}"
        if not all(isinstance(call["input"], dict) for call in calls):
            yield f"messages.{place}: tool_use.input: Input should be a valid dictionary"


def tools(body: dict[str, Any]) -> Iterable[str]:
    offered = body.get("tools", ())
    for tool in offered:
        if tool["input_schema"].get("type") != "object":
            yield "tools.input_schema.type: Field required"
    used = any(block["type"] == "tool_use" for message in body["messages"] for block in message["content"])
    if used and not offered:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    if "tool_choice" in body and not offered:
        yield "tool_choice may only be specified while providing tools"

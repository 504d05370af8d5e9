"""Wrapper: tool calling for a model that has none.

Law: outside it looks like a model with native tools. The tools are put into the prompt, calls and results of
the history are rendered as text, and the reply's text is decoded into calls. Text that may be a call is held
back until that is known; should a call turn up after other text was passed on, that text is retracted.
"""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Literal

from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import (
    UNREADABLE,
    CallDelta,
    Delta,
    Finish,
    Model,
    Request,
    Retracted,
    TextDelta,
    ToolMode,
    Usage,
    preferred_mode,
)
from causeline.models.rendered_messages import Rendered
from causeline.models.schema_calls import answer_text, call_text, decode_schema_reply, examples, schema_for
from causeline.models.text_calls import Decoded, decode_calls, may_open_call
from causeline.models.unicode_text import Mender

_TEXT_RULES = """You can call tools. To call one, reply with this line and nothing else:
TOOL_CALL {"name": "<tool>", "args": {...}}
One line for each call. When no more calls are needed, reply with FINAL and the answer.
Tools:"""
_SCHEMA_RULES = """Reply with one JSON object: {"tool": "<tool>", "args": {...}} to call a tool, or {"answer": "<text>"}.
The first turns show the form of a reply; their content is made up.
Tools:"""

_ANSWER = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
_HEAD_MAX = 256
_STRING = re.compile(r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')


class EmulatedTools:
    """`model` with tools in its text (`text`) or in a reply held to a schema (`schema`)."""

    def __init__(self, model: Model, mode: Literal["text", "schema"]) -> None:
        self._model = model
        self._mode: Literal["text", "schema"] = mode
        self._rendered = Rendered(_as_schema_turn if mode == "schema" else _as_text_turn)
        self._shown: tuple[tuple[ToolSpec, ...], list[Message]] = ((), [])

    @property
    def name(self) -> str:
        return self._model.name

    async def aclose(self) -> None:
        await self._model.aclose()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        tools = tuple(request.tools) if request.tool_choice == "auto" else ()
        reader = _SchemaReader(tools) if self._mode == "schema" else _TextReader(tools)
        usage: Usage | None = None
        async with aclosing(self._model.stream(self._plain(request, tools))) as deltas:
            async for delta in deltas:
                if isinstance(delta, TextDelta):
                    if piece := reader.feed(delta.text):
                        yield TextDelta(piece)
                elif isinstance(delta, Usage):
                    usage = delta  # After a possible retraction, or it would be counted as a lost try.
                elif isinstance(delta, Finish):
                    for late in reader.end():
                        yield late
                    if usage is not None:
                        yield usage
                    yield Finish(UNREADABLE) if reader.unreadable and delta.reason in ("stop", "tool_calls") else delta
                else:
                    if isinstance(delta, Retracted):
                        reader.restart()
                        if usage is not None:
                            yield usage
                        usage = None
                    yield delta

    def _plain(self, request: Request, tools: tuple[ToolSpec, ...]) -> Request:
        """The same request for a model that knows of no tools."""
        history = self._rendered(request.messages)
        fields = {"tools": (), "tool_choice": "auto", "round": request.rounds()}
        if self._mode == "text":
            rules = "\n".join([_TEXT_RULES, *map(_described, tools)]) if tools else None
            return replace(request, messages=history, system=_joined(request.system, rules), **fields)
        if tools != self._shown[0]:
            self._shown = (tools, examples(tools))
        answer = (request.response_schema or {}).get("schema")
        schema = {"name": "reply", "schema": schema_for(tools, answer)}
        rules = "\n".join([_SCHEMA_RULES, *map(_named, tools)]) if tools else None
        messages = [*self._shown[1], *history]
        return replace(request, messages=messages, system=_joined(request.system, rules), response_schema=schema, **fields)


def in_mode(model: Model, mode: ToolMode | None = None) -> Model:
    """`model` so that it takes native tools: itself, or wrapped as `mode` (default: its own preference) says."""
    mode = mode or preferred_mode(model)
    return model if mode == "native" else EmulatedTools(model, mode)


def _joined(system: str | None, rules: str | None) -> str | None:
    return "\n\n".join(piece for piece in (system, rules) if piece) or None


def _described(tool: ToolSpec) -> str:
    return f"- {tool.name}: {tool.description} Arguments: {json.dumps(tool.parameters.get('properties', {}), ensure_ascii=False)}"


def _named(tool: ToolSpec) -> str:
    return f"- {tool.name}: {tool.description} Arguments: {', '.join(tool.parameters.get('properties', {})) or 'none'}"


def _as_text_turn(message: Message) -> Message:
    if message.role == "tool":
        return _result(message)
    if not message.tool_calls:
        return message
    lines = [f"TOOL_CALL {json.dumps({'name': call.name, 'args': call.arguments}, ensure_ascii=False)}" for call in message.tool_calls]
    return Message("assistant", "\n".join([message.text, *lines] if message.text else lines))


def _as_schema_turn(message: Message) -> Message:
    if message.role == "tool":
        return _result(message)
    if message.role != "assistant":
        return message
    if not message.tool_calls:
        return Message("assistant", answer_text(message.text))
    return Message("assistant", "\n".join(call_text(call) for call in message.tool_calls))


def _result(message: Message) -> Message:
    head = "Error" if message.is_error else "Result"
    if isinstance(message.content, str):
        return Message("user", f"{head}: {message.content}")
    return Message("user", ({"type": "text", "text": f"{head}:"}, *message.content))


def _late(decoded: Decoded, sent: str) -> list[Delta]:
    """What is still to be said when `sent` was passed on already."""
    deltas: list[Delta] = []
    text = decoded.text
    if text.startswith(sent):
        text = text[len(sent) :]
    else:
        deltas.append(Retracted("text_call"))
    if text:
        deltas.append(TextDelta(text))
    return deltas + [_call_delta(index, call) for index, call in enumerate(decoded.calls)]


def _call_delta(index: int, call: ToolCall) -> CallDelta:
    return CallDelta(index, "", call.name, json.dumps(call.arguments, ensure_ascii=False))


class _TextReader:
    """Passes text on once it can no longer begin with a call."""

    unreadable = False  # a text of any kind may be an answer

    def __init__(self, tools: tuple[ToolSpec, ...]) -> None:
        self._tools = tools
        self.restart()

    def restart(self) -> None:
        self._pieces: list[str] = []
        self._open = bool(self._tools)
        self._passed = 0

    def feed(self, piece: str) -> str:
        self._pieces.append(piece)
        if self._open and may_open_call("".join(self._pieces[:16])):
            return ""
        self._open = False
        fresh = "".join(self._pieces[self._passed :])
        self._passed = len(self._pieces)
        return fresh

    def end(self) -> list[Delta]:
        text = "".join(self._pieces)
        decoded = decode_calls(text, self._tools) if self._tools else Decoded(text)
        return _late(decoded, "".join(self._pieces[: self._passed]))


class _SchemaReader:
    """Passes the answer's text on as it is written, and nothing else before the end."""

    def __init__(self, tools: tuple[ToolSpec, ...]) -> None:
        self._tools = tools
        self.unreadable = False
        self.restart()

    def restart(self) -> None:
        self._pieces: list[str] = []
        self._ahead = ""
        self._in_answer = False
        self._sent: list[str] = []
        self._mender = Mender()

    def feed(self, piece: str) -> str:
        self._pieces.append(piece)
        if not self._in_answer:
            if len(self._ahead) < _HEAD_MAX:
                self._ahead += piece
            head = _ANSWER.match(self._ahead)
            if head is None:
                return ""
            self._in_answer, piece, self._ahead = True, self._ahead[head.end() :], ""
        body = _STRING.match(self._ahead + piece)
        assert body is not None, "the pattern matches the empty text"
        self._ahead = body.string[body.end() :]
        fresh = self._mender.feed(json.loads(f'"{body.group()}"'))
        self._sent.append(fresh)
        return fresh

    def end(self) -> list[Delta]:
        decoded = decode_schema_reply("".join(self._pieces), self._tools)
        sent = "".join(self._sent)
        self.unreadable = bool(decoded.problem and self._tools and not sent and "".join(self._pieces).strip())
        if decoded.problem and sent:
            return []  # A cut answer: what was passed on is all there is.
        return _late(decoded, sent)

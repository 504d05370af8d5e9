"""A chat-completions server on loopback that answers what a test says and checks what a strict provider checks."""

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
END = "[DONE]"


def text_chunks(*pieces: str, finish: str | None = "stop") -> list[Any]:
    chunks = [{"id": "r1", "model": "fake-1", "choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    if finish:
        chunks.append({"id": "r1", "model": "fake-1", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return chunks


def call_chunk(index: int, id: str | None = None, name: str | None = None, arguments: Any = None, finish: str | None = None) -> dict:
    function = {"name": name, "arguments": arguments}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "id": id, "function": function}]}, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}}}


def unpaired(messages: list[dict[str, Any]]) -> Iterable[str]:
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] != "tool":
            if open_calls:
                yield f"messages[{place}]: unanswered {open_calls}"
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
        elif message["tool_call_id"] in open_calls:
            open_calls.remove(message["tool_call_id"])
        else:
            yield f"messages[{place}] answers no call"


def misshapen(messages: list[dict[str, Any]]) -> Iterable[str]:
    for place, message in enumerate(messages):
        calls = message.get("tool_calls", ())
        if not calls and not isinstance(message["content"], str | list):
            yield f"messages[{place}] has no content"
        for call in calls:
            if not isinstance(call["function"]["arguments"], str) or not NAME.fullmatch(call["function"]["name"]):
                yield f"messages[{place}] has a bad call {call}"


def wrong_tools(body: dict[str, Any]) -> Iterable[str]:
    if "tools" in body and not body["tools"]:
        yield "tools is empty"
    if "tool_choice" in body and "tools" not in body:
        yield "tool_choice without tools"
    for tool in body.get("tools", ()):
        if tool["function"]["parameters"].get("type") != "object":
            yield "tool parameters are not an object schema"


class ChatServer:
    """`answers` are used in turn, the last for ever. An answer is a list of chunks to stream (a str is sent as it is), or
    `{status?, headers?, body}` or `{raw, kind}`. In a list, `"cut"` breaks the connection and `"hold"` waits for the client to leave."""

    def __init__(self) -> None:
        self.answers: list[Any] = [[*text_chunks("one ", "two ", "three"), USAGE, END]]
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.connections = 0
        self.left = asyncio.Event()
        self.asked = asyncio.Event()
        self.url = ""

    def choose(self, body: dict[str, Any]) -> Any:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def faults(self, body: dict[str, Any]) -> list[str]:
        """What a strict provider refuses."""
        return [*unpaired(body["messages"]), *misshapen(body["messages"]), *wrong_tools(body)]

    def refusal(self, found: list[str]) -> dict[str, Any]:
        return {"status": 400, "body": {"error": {"message": "; ".join(found)}}}

    def line(self, chunk: Any) -> str:
        """A chunk as an event; a text goes out as it is."""
        if chunk == END:
            return f"data: {END}\n\n"
        return chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n"

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self.exchange(reader, writer):
                    pass
        finally:
            self.left.set()
            writer.close()

    async def exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(body)
        self.asked.set()
        self.headers.append(headers)
        self.paths.append(first.split(" ")[1])
        found = self.faults(body)
        answer = self.refusal(found) if found else self.choose(body)
        if isinstance(answer, dict):
            return await self.whole(writer, answer)
        return await self.stream(reader, writer, answer)

    async def whole(self, writer: asyncio.StreamWriter, answer: dict[str, Any]) -> bool:
        data = answer["raw"].encode() if "raw" in answer else json.dumps(answer["body"]).encode()
        kind = answer.get("kind", "application/json")
        lines = [f"HTTP/1.1 {answer.get('status', 200)} X", f"content-type: {kind}", f"content-length: {len(data)}"]
        lines += [f"{name}: {value}" for name, value in answer.get("headers", {}).items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + data)
        await writer.drain()
        return True

    async def stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, chunks: list[Any]) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")
        for chunk in chunks:
            if chunk == "cut":
                return False
            if chunk == "hold":
                await reader.read(1)
                return False
            data = self.line(chunk).encode()
            writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def running(made: type[ChatServer] = ChatServer):
    chat = made()
    server = await asyncio.start_server(chat.connection, "127.0.0.1", 0)
    chat.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield chat
    finally:
        server.close()

"""A model provider on loopback, so that pages can name a real model and still be played.

A page scripts it with a comment in front of a block, `<!-- replies: [{"text": "..."}, ...] -->`; readers do not see
it. The items are those of `causeline.models.ScriptedModel` as far as pages need them: `text`, and `calls` of
`{name, arguments}`. The reply is chosen by how many the model has given since the last user message.
"""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def message(item: dict, position: int) -> dict:
    calls = [
        {
            "index": index,
            "id": f"call_{position}_{index}",
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call.get("arguments", {}))},
        }
        for index, call in enumerate(item.get("calls", []))
    ]
    return {"role": "assistant", "content": item.get("text"), **({"tool_calls": calls} if calls else {})}


def choose(replies: list[dict], messages: list[dict]) -> tuple[dict, int]:
    """The item for this request, and its position. After the last one the model says "done"."""
    position = 0
    for said in messages:
        position = {"user": 0, "assistant": position + 1}.get(said["role"], position)
    return (replies[position] if position < len(replies) else {"text": "done"}), position


def chunks(said: dict) -> Iterator[dict]:
    """A message as the deltas of a stream: words of text, then whole calls."""
    for piece in re.findall(r"\S+\s*|\s+", said["content"] or ""):
        yield {"content": piece}
    if "tool_calls" in said:
        yield {"tool_calls": said["tool_calls"]}


def answer(replies: list[dict], request: dict) -> tuple[str, str]:
    """(content type, body) for a request."""
    item, position = choose(replies, request["messages"])
    said = message(item, position)
    reason = "tool_calls" if "tool_calls" in said else "stop"
    head = {"id": f"chatcmpl-{position}", "created": 0, "model": request["model"]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    if not request.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": reason}
        return "application/json", json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in chunks(said)]
    choices.append([{"index": 0, "delta": {}, "finish_reason": reason}])
    rows = [{**head, "object": "chat.completion.chunk", "choices": row, "usage": None} for row in choices]
    rows.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": usage})
    return "text/event-stream", "".join(f"data: {json.dumps(row)}\n\n" for row in rows) + "data: [DONE]\n\n"


class Provider:
    """Answers `POST .../chat/completions`, streamed or not. `replies` may be exchanged at any time."""

    def __init__(self) -> None:
        self.replies: list[dict] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                kind, body = answer(provider.replies, request)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing; the page's own output is what is compared."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs in its environment to take this for the provider."""
        return {"OPENAI_BASE_URL": f"http://127.0.0.1:{self._server.server_port}/v1", "OPENAI_API_KEY": "for-the-pages-only"}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

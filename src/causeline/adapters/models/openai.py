"""Any server that speaks the OpenAI chat-completions protocol, through the official SDK.

Law: what a server wants is read off its row in `chat_servers`; what it refuses by name is left out from then on. A message
is converted once in its life, so a call costs what sending its bytes costs.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from causeline.adapters.models.chat_reply import ChatReader
from causeline.adapters.models.chat_request import ChatMessages, join_messages, leading_messages, wire_options
from causeline.adapters.models.chat_servers import GENERIC, SERVERS, ChatServer, base_url_of
from causeline.adapters.models.connection import Connection, checked_url, read_key
from causeline.adapters.models.exchange import exchange
from causeline.adapters.models.json_bodies import encode, read_object
from causeline.adapters.models.model_settings import CHAT_FIELDS, read_settings
from causeline.errors import Invalid
from causeline.models.failures import ModelError
from causeline.models.messages import Json
from causeline.models.model import Delta, Request, Usage
from causeline.models.price_table import prices
from causeline.models.rendered_messages import Rendered

_SCHEMA_RULE = "Answer with one JSON object that fits this JSON Schema, and nothing else:\n{schema}"


class OpenAIModel:
    """Model `model` of the server at `base_url` (default: `OPENAI_BASE_URL`, else the public API).

    `kind` names a row of `chat_servers` in place of `openai`. The key is read from the variable `api_key_env` (default: that of
    the row) when the model is made; a server on this machine needs none, and `api_key_env=""` sends none. `timeout` is the
    longest silence in seconds (a model may think that long before its first word), `connect_timeout` the longest wait for a
    connection. `auth_header` and `auth_prefix` say where the key goes. `client` is an `openai.AsyncOpenAI` of your own to use
    instead; it is never closed here. `stream=False` asks for whole replies. `model_settings` goes to the server as it is.
    `on_request` is called with `{model, url, body}` of each request as it is sent.
    Raises MissingKey, and Invalid for a `base_url` that is none or settings that are unknown.
    """

    def __init__(
        self,
        model: str,
        *,
        kind: str = "openai",
        base_url: str | None = None,
        api_key_env: str | None = None,
        client: Any = None,
        chat_path: str | None = None,
        auth_header: str | None = None,
        auth_prefix: str | None = None,
        timeout: float = 300.0,
        connect_timeout: float = 10.0,
        stream: bool = True,
        model_settings: Mapping[str, Any] | None = None,
        on_request: Callable[[Json], Any] | None = None,
    ) -> None:
        self.name = f"{kind}:{model}"
        self._model = model
        self._settings = read_settings(model_settings, CHAT_FIELDS, model=self.name)
        url = _address(kind, base_url)
        self._server = _server(kind, url, given=base_url is not None)
        self._provider = provider = kind if url == SERVERS[kind].url else urlsplit(url).netloc.rpartition("@")[2]
        variable = self._server.key_env if api_key_env is None else api_key_env
        key = "" if client is not None else read_key(url, variable or None)
        header, prefix = auth_header or self._server.auth[0], self._server.auth[1] if auth_prefix is None else auth_prefix
        headers = {**({header: prefix + key} if key else {}), **self._settings.headers}
        silence = self._settings.timeout or timeout
        self._connection = Connection("openai", url, model, headers, secret=key, silence=silence, connect=connect_timeout, client=client)
        self._path = chat_path or "/chat/completions"
        self._stream = stream
        self._asks_usage = self._server.asks_usage
        self._max_tokens_key: str = self._server.max_tokens
        self._rendered = Rendered(ChatMessages(self._server, provider, self.name).render)
        self._on_request = on_request

    async def aclose(self) -> None:
        """Gives the shared client back; the last model to do so in this event loop closes it."""
        await self._connection.aclose()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        response = await self._send(request)
        reader = ChatReader(self._model, self._provider, response.headers.get("x-request-id", ""))
        async with aclosing(exchange(self._connection, response, reader, self._model, streamed=self._stream)) as deltas:
            async for delta in deltas:
                yield prices.priced(self.name, delta) if isinstance(delta, Usage) else delta

    async def _send(self, request: Request) -> Any:
        """The open response. What a server refuses by its name is left out, or named otherwise, once and from then on."""
        for _ in range(2):
            try:
                return await self._connection.post(self._path, self._body(request))
            except ModelError as error:
                if not self._adapted(error, request):
                    raise
        return await self._connection.post(self._path, self._body(request))

    def _adapted(self, error: ModelError, request: Request) -> bool:
        if error.facts.get("status") not in (400, 422):
            return False
        said = f"{error.message} {error.facts.get('detail')}"
        if self._stream and self._asks_usage and "stream_options" in said:
            self._asks_usage = False
            return True
        other = "max_tokens" if self._max_tokens_key == "max_completion_tokens" else "max_completion_tokens"
        if request.max_tokens is not None and self._max_tokens_key in said and (other in said or "nsupported" in said or "xtra" in said):
            self._max_tokens_key = other
            return True
        return False

    def _body(self, request: Request) -> bytes:
        fields: dict[str, Any] = {
            "model": self._model,
            **self._settings.beside(tools=bool(request.tools), closed=request.tool_choice == "none"),
            **wire_options(request, max_tokens_key=self._max_tokens_key, schemas=self._server.schemas),
        }
        if self._stream:
            fields["stream"] = True
            if self._asks_usage:
                fields["stream_options"] = {"include_usage": True}
        leading = leading_messages(request)
        if not self._server.schemas and request.response_schema is not None and "type" not in request.response_schema:
            schema = encode(request.response_schema.get("schema", {})).decode()
            leading.append({"role": "system", "content": _SCHEMA_RULE.format(schema=schema)})
        messages = join_messages([encode(message) for message in leading], self._rendered(request.messages))
        body = b"".join([encode(fields)[:-1], b',"messages":[', messages, b"]}"])
        if self._on_request is not None:
            self._on_request({"model": self.name, "url": f"{self._connection.url}{self._path}", "body": read_object(body, self._model)})
        return body


def _address(kind: str, base_url: str | None) -> str:
    url = base_url or base_url_of(kind)
    if not url:
        raise Invalid(f"Model kind {kind} has no address of its own: give base_url, or set {kind.upper()}_BASE_URL.")
    return checked_url(url)


def _server(kind: str, url: str, *, given: bool) -> ChatServer:
    """The row of a kind. `openai` at another address is any server that speaks the protocol."""
    row = SERVERS[kind]
    elsewhere = given or bool(os.environ.get("OPENAI_BASE_URL"))
    return GENERIC if kind == "openai" and elsewhere and url != row.url else row

"""Claude, through the official SDK of the Anthropic Messages API.

Law: as in `openai`: one client for each server and key, no retries of the SDK's own, a message is converted once in its life.
The system prompt and the tools are marked for the provider's cache.
"""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from itertools import takewhile
from typing import Any
from urllib.parse import urlsplit

from causeline.adapters.models.anthropic_reply import AnthropicReader
from causeline.adapters.models.anthropic_request import AnthropicMessages, join_turns, system_blocks, tool_fields
from causeline.adapters.models.chat_request import object_schema
from causeline.adapters.models.connection import Connection, checked_url, read_key
from causeline.adapters.models.exchange import exchange
from causeline.adapters.models.json_bodies import encode, read_object
from causeline.adapters.models.model_settings import MESSAGES_FIELDS, read_settings
from causeline.models.messages import Json
from causeline.models.model import Delta, Request, Usage
from causeline.models.price_table import prices
from causeline.models.rendered_messages import Rendered

PUBLIC_URL = "https://api.anthropic.com"
_MAX_TOKENS = 8_192
"""The API wants a limit; this one holds where the agent gives none, beside what is set apart for thinking."""


class AnthropicModel:
    """Model `model` of the server at `base_url` (default: `ANTHROPIC_BASE_URL`, else the public API).

    The key is read from the variable `api_key_env` (default `ANTHROPIC_API_KEY`) and sent as `auth_header` (default `x-api-key`)
    after `auth_prefix`. `timeout`, `connect_timeout`, `client` (an `anthropic.AsyncAnthropic`), `stream`, `model_settings` and
    `on_request` are as those of OpenAIModel; thinking is asked for by `model_settings={"thinking": {...}}`.
    Raises MissingKey, MissingSdk, and Invalid for a `base_url` that is none or settings that are unknown.
    """

    def __init__(
        self,
        model: str,
        *,
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
        self.name = f"anthropic:{model}"
        self._model = model
        self._settings = read_settings(model_settings, MESSAGES_FIELDS, model=self.name)
        url = checked_url(base_url or os.environ.get("ANTHROPIC_BASE_URL") or PUBLIC_URL)
        self._provider = "anthropic" if url == PUBLIC_URL else urlsplit(url).netloc.rpartition("@")[2]
        key = "" if client is not None else read_key(url, ("ANTHROPIC_API_KEY" if api_key_env is None else api_key_env) or None)
        headers = {**({(auth_header or "x-api-key"): (auth_prefix or "") + key} if key else {}), **self._settings.headers}
        silence = self._settings.timeout or timeout
        self._connection = Connection("anthropic", url, model, headers, secret=key, silence=silence, connect=connect_timeout, client=client)
        self._path = chat_path or ("/messages" if url.endswith("/v1") else "/v1/messages")
        self._stream = stream
        self._rendered = Rendered(AnthropicMessages(self._provider, self.name).render)
        self._on_request = on_request

    async def aclose(self) -> None:
        """Gives the shared client back; the last model to do so in this event loop closes it."""
        await self._connection.aclose()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        body = self._body(request)
        if self._on_request is not None:
            self._on_request({"model": self.name, "url": f"{self._connection.url}{self._path}", "body": read_object(body, self._model)})
        response = await self._connection.post(self._path, body)
        reader = AnthropicReader(self._model, self._provider, response.headers.get("request-id", ""))
        async with aclosing(exchange(self._connection, response, reader, self._model, streamed=self._stream)) as deltas:
            async for delta in deltas:
                yield prices.priced(self.name, delta, written=reader.written) if isinstance(delta, Usage) else delta

    def _body(self, request: Request) -> bytes:
        leading = list(takewhile(lambda message: message.role == "system", request.messages))
        settings = self._settings.beside(tools=True, closed=False)
        choice = settings.pop("tool_choice", None)
        thinking: Json = settings.get("thinking") or {}
        fields: Json = {
            "model": self._model,
            "max_tokens": request.max_tokens or _MAX_TOKENS + int(thinking.get("budget_tokens") or 0),
            **settings,
            **tool_fields(request, choice),
            **({"stream": True} if self._stream else {}),
            **({} if request.temperature is None else {"temperature": request.temperature}),
        }
        system = system_blocks(request, leading)
        if system:
            fields["system"] = system
        if request.response_schema is not None:
            fields["output_config"] = {**(settings.get("output_config") or {}), "format": _format(request.response_schema)}
        history = request.messages[len(leading) :] if leading else request.messages
        return b"".join([encode(fields)[:-1], b',"messages":[', join_turns(self._rendered(history)), b"]}"])


def _format(wanted: Json) -> Json:
    """The schema of a structured answer as the API takes it, by the SDK's own reading."""
    import anthropic

    if "type" in wanted:
        return wanted
    schema = object_schema(wanted.get("schema", {}))
    try:
        return {"type": "json_schema", "schema": anthropic.transform_schema(schema)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"type": "json_schema", "schema": schema}

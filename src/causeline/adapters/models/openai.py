"""Any server that speaks the OpenAI chat-completions protocol, through the official SDK.

Law: one HTTP client for each server, key and event loop, shared by all models of the process. The SDK is asked
for connections, authentication and status errors; it never retries, because retrying is decided by failure kind
above. A message is converted once in its life, so a call costs what sending its bytes costs.
"""

import asyncio
import ipaddress
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

from causeline.adapters.models.wire import (
    ChunkReader,
    SseReader,
    encode,
    error_of,
    leading_messages,
    message_bytes,
    read_object,
    wire_options,
)
from causeline.errors import Invalid, Missing
from causeline.models.failures import ModelError, ModelTimeout, ModelUnavailable, StreamCut, seconds_to_wait
from causeline.models.model import Delta, Request
from causeline.models.rendered_messages import Rendered

PUBLIC_URL = "https://api.openai.com/v1"
_DRAIN_SECONDS = 0.25
_SHORTEST_SECRET = 8
"""Characters. A shorter key is a stand-in such as `none`, and may be a word of any message."""


class MissingKey(Missing):
    """The environment variable with the API key is not set."""

    code = "missing_api_key"


@dataclass(slots=True)
class _Shared:
    """A client and the models of this loop that hold it."""

    client: Any
    holders: "WeakSet[OpenAIModel]" = field(default_factory=WeakSet["OpenAIModel"])


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], _Shared]] = WeakKeyDictionary()
_rendered = Rendered(message_bytes)


class OpenAIModel:
    """Model `model` of the server at `base_url` (default: `OPENAI_BASE_URL`, else the public API).

    The key is read from the variable `api_key_env` (default `OPENAI_API_KEY`) when the model is made; a server on this
    machine needs none. `timeout` is the longest silence in seconds (a model may think that long before its first word),
    `connect_timeout` the longest wait for a connection. `auth_header` and `auth_prefix` (default `Authorization`, `Bearer `)
    say where the key goes. `client` is an `openai.AsyncOpenAI` of your own to use instead; it is never closed here.
    `stream=False` asks for whole replies.
    Raises MissingKey, and Invalid for a `base_url` that is none.
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
    ) -> None:
        self.name = f"openai:{model}"
        self._model = model
        self._own_client = client
        self._url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or PUBLIC_URL)
        self._key = "" if client is not None else _key(self._url, api_key_env or "OPENAI_API_KEY")
        self._path = chat_path or "/chat/completions"
        self._headers: dict[str, Any] = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if client is None:
            self._headers |= _auth(self._key, auth_header or "Authorization", "Bearer " if auth_prefix is None else auth_prefix)
        self._timeouts = (timeout, connect_timeout)
        self._stream = stream
        self._asks_usage = True
        self._max_tokens_key = "max_completion_tokens" if self._url == PUBLIC_URL else "max_tokens"

    async def aclose(self) -> None:
        """Gives the shared client back; the last model to do so in this event loop closes it."""
        held = _clients.get(asyncio.get_running_loop(), {})
        shared = held.get((self._url, self._key))
        if shared is None or self not in shared.holders:
            return
        shared.holders.discard(self)
        if not shared.holders:
            del held[self._url, self._key]
            await shared.client.close()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        response = await self._send(request)
        try:
            if "text/event-stream" in response.headers.get("content-type", ""):
                async with aclosing(self._streamed(response)) as deltas:
                    async for delta in deltas:
                        yield delta
            else:
                for delta in await self._whole(response):
                    yield delta
        except ModelError as error:
            self._hide_key(error)
            raise
        except self._failures() as error:
            raise self._translated(error, streaming=True) from error
        finally:
            await response.aclose()

    async def _streamed(self, response: Any) -> AsyncGenerator[Delta, None]:
        chunks = self._reader(response)
        done = False
        async with aclosing(_events(response)) as events:
            async for data in events:
                done = data.startswith("[DONE]")
                if not done:
                    for delta in chunks.read(read_object(data, self._model)):
                        yield delta
        for delta in chunks.end(done=done):
            yield delta

    async def _whole(self, response: Any) -> list[Delta]:
        chunks = self._reader(response)
        return chunks.read(read_object(await response.aread(), self._model)) + chunks.end(done=True)

    def _reader(self, response: Any) -> ChunkReader:
        return ChunkReader(self._model, response.headers.get("x-request-id", ""))

    async def _send(self, request: Request) -> Any:
        """The open response. A server that does not know `stream_options` is asked once more without, and from then on never again."""
        try:
            return await self._post(request)
        except ModelError as error:
            if not (self._stream and self._asks_usage and "stream_options" in error.message):
                raise
        self._asks_usage = False
        return await self._post(request)

    async def _post(self, request: Request) -> Any:
        import httpx2

        client = self._client()
        try:
            return await client.post(
                self._path, cast_to=httpx2.Response, content=self._body(request), stream=True, options={"headers": self._headers}
            )
        except self._failures() as error:
            raise self._translated(error, streaming=False) from error

    def _body(self, request: Request) -> bytes:
        fields: dict[str, Any] = {"model": self._model, **wire_options(request, max_tokens_key=self._max_tokens_key)}
        if self._stream:
            fields["stream"] = True
            if self._asks_usage:
                fields["stream_options"] = {"include_usage": True}
        messages = [encode(message) for message in leading_messages(request)] + _rendered(request.messages)
        return b"".join([encode(fields)[:-1], b',"messages":[', b",".join(messages), b"]}"])

    def _client(self) -> Any:
        if self._own_client is not None:
            return self._own_client
        loop = asyncio.get_running_loop()
        held = _clients.get(loop)
        if held is None:
            for ended in [known for known in _clients if known.is_closed()]:
                del _clients[ended]
            held = _clients[loop] = {}
        shared = held.get((self._url, self._key))
        if shared is None:
            shared = held[self._url, self._key] = _Shared(self._new_client())
        shared.holders.add(self)
        return shared.client

    def _new_client(self) -> Any:
        import httpx2
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        silence, connect = self._timeouts
        timeout = httpx2.Timeout(silence, connect=connect)
        # A server on this machine is never reached through a proxy, whatever the environment says.
        transport = DefaultAsyncHttpxClient(base_url=self._url, timeout=timeout, trust_env=not _is_loopback(self._url))
        return AsyncOpenAI(api_key=self._key or "none", base_url=self._url, max_retries=0, timeout=timeout, http_client=transport)

    @staticmethod
    def _failures() -> tuple[type[Exception], ...]:
        """What the SDK and its HTTP client raise when a call fails."""
        import httpx2
        import openai

        return openai.OpenAIError, httpx2.HTTPError, httpx2.StreamError

    def _hide_key(self, error: ModelError) -> None:
        """Take the key out of what a server has said, since errors are stored with their runs."""
        if len(self._key) >= _SHORTEST_SECRET:
            error.args = (error.message.replace(self._key, "***"),)
            error.facts = {name: one.replace(self._key, "***") if isinstance(one, str) else one for name, one in error.facts.items()}

    def _translated(self, error: Exception, *, streaming: bool) -> ModelError:
        found = self._translation(error, streaming=streaming)
        self._hide_key(found)
        return found

    def _translation(self, error: Exception, *, streaming: bool) -> ModelError:
        import httpx2
        import openai

        place = f"model {self._model} at {_without_login(self._url)}"
        if isinstance(error, openai.APIStatusError):
            return error_of(error.body or error.message, error.status_code, self._model, retry_after=_wait(error.response.headers))
        if isinstance(error, openai.APITimeoutError | httpx2.TimeoutException):
            return ModelTimeout(f"No answer in time from {place}: {error.__cause__ or error}", model=self._model)
        if isinstance(error, openai.OpenAIError) and not isinstance(error, openai.APIConnectionError):
            return ModelUnavailable(f"The call failed: {place}: {error}", model=self._model)
        kind, what = (StreamCut, "The reply broke off") if streaming else (ModelUnavailable, "There is no connection")
        return kind(f"{what}: {place}: {error.__cause__ or error}", model=self._model)


async def _events(response: Any) -> AsyncGenerator[str, None]:
    """The data of the response's events, the end mark included as the last."""
    reader = SseReader()
    async with aclosing(response.aiter_bytes()) as parts:
        async for part in parts:
            for data in reader.feed(part):
                if data.startswith("[DONE]"):
                    # What follows is read too, but not for long, so that the connection can be used again.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_DRAIN_SECONDS):
                            async for _ in parts:
                                pass
                    yield data
                    return
                yield data
    for data in reader.end():
        yield data


def _wait(headers: Mapping[str, str]) -> float | None:
    in_ms = headers.get("retry-after-ms", "")
    if in_ms.isdigit():
        return int(in_ms) / 1000
    return seconds_to_wait(headers.get("retry-after"), now=time.time())


def _auth(key: str, header: str, prefix: str) -> dict[str, Any]:
    """The header with the key, in place of the one the SDK would send."""
    from openai import Omit

    without: dict[str, Any] = {"Authorization": Omit()}
    return {**(without if header.lower() != "authorization" or not key else {}), **({header: prefix + key} if key else {})}


def _key(url: str, variable: str) -> str:
    key = os.environ.get(variable, "")
    if not key and not _is_loopback(url):
        raise MissingKey(
            f"The environment variable {variable} is not set, and the model server {url} needs a key. Set {variable}, or name another "
            f"variable with api_key_env (any text will do for a server that wants no key).",
            variable=variable,
            base_url=url,
        )
    return key


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        right = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    if not right:
        raise Invalid(f"base_url {url!r} is not the address of a server; write it like http://127.0.0.1:8080/v1.")
    return url.rstrip("/")


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

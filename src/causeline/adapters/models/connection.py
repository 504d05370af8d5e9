"""The way to one model server, through the official SDK of the protocol it speaks.

Law: one HTTP client for each SDK, server, set of headers and event loop, shared by all models of the process. The SDK is
asked for connections and status errors; it never retries, because retrying is decided by failure kind above. A key goes to
the server it was given for and nowhere else: a request carries the headers named here and those that describe it, whatever
the SDK finds in the environment, and redirects are not followed.
"""

import asyncio
import base64
import importlib
import importlib.util
import ipaddress
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit
from weakref import WeakKeyDictionary, WeakSet

from causeline.adapters.models.json_bodies import error_of
from causeline.errors import Invalid, Missing
from causeline.models.failures import ModelError, ModelTimeout, ModelUnavailable, StreamCut, seconds_to_wait

Sdk = Literal["openai", "anthropic"]
_CLIENTS: Mapping[Sdk, tuple[str, str]] = {"openai": ("AsyncOpenAI", "OpenAIError"), "anthropic": ("AsyncAnthropic", "AnthropicError")}
_DESCRIBING = frozenset({
    "accept", "accept-encoding", "anthropic-version", "connection", "content-length", "content-type", "host",
    "transfer-encoding", "user-agent",
})  # fmt: skip
_SHORTEST_SECRET = 8
"""Characters. A shorter key is a stand-in such as `none`, and may be a word of any message."""


class MissingKey(Missing):
    """The environment variable with the API key is not set."""

    code = "missing_api_key"


class MissingSdk(Missing):
    """The package that speaks a provider's protocol is not installed."""

    code = "missing_package"


@dataclass(slots=True)
class _Shared:
    """A client and the connections of this loop that hold it."""

    client: Any
    holders: "WeakSet[Connection]" = field(default_factory=WeakSet["Connection"])


_Place = tuple[str, str, frozenset[tuple[str, str]]]
open_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Place, _Shared]] = WeakKeyDictionary()


class Connection:
    """`model` at `url`. `headers` are all that is sent beside what describes the request; `secret` is hidden in every failure.
    `silence` is the longest wait in seconds for the next piece of an answer, `connect` for a connection. `client` is a client
    of the caller's own to use instead, never closed here. Raises MissingSdk."""

    def __init__(
        self,
        sdk: Sdk,
        url: str,
        model: str,
        headers: Mapping[str, str],
        *,
        secret: str = "",
        silence: float,
        connect: float,
        client: Any = None,
    ) -> None:
        if importlib.util.find_spec(sdk) is None:
            raise MissingSdk(f"Model {model} needs the package {sdk}. Install it with: pip install 'causeline[{sdk}]'", package=sdk)
        self.url = url
        self._sdk: Sdk = sdk
        self._model = model
        self._secret = secret
        self._given_client = client
        self._timeouts = (silence, connect)
        login = {} if any(name.lower() == "authorization" for name in headers) else _login(url)
        self._headers = {**login, **headers}
        self._place: _Place = (sdk, url, frozenset(self._headers.items()))

    async def post(self, path: str, body: bytes) -> Any:
        """The open response. Raises a ModelError."""
        import httpx2

        silence, connect = self._timeouts
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        options = {"headers": headers, "timeout": httpx2.Timeout(silence, connect=connect)}
        try:
            return await self._client().post(path, cast_to=httpx2.Response, content=body, stream=True, options=options)
        except self.failures() as error:
            raise self.translated(error, streaming=False) from error

    async def aclose(self) -> None:
        """Gives the shared client back; the last connection to do so in this event loop closes it."""
        held = open_clients.get(asyncio.get_running_loop(), {})
        shared = held.get(self._place)
        if shared is None or self not in shared.holders:
            return
        shared.holders.discard(self)
        if not shared.holders:
            del held[self._place]
            await shared.client.close()

    def _client(self) -> Any:
        if self._given_client is not None:
            return self._given_client
        loop = asyncio.get_running_loop()
        held = open_clients.get(loop)
        if held is None:
            for ended in [known for known in open_clients if known.is_closed()]:
                del open_clients[ended]
            held = open_clients[loop] = {}
        shared = held.get(self._place)
        if shared is None:
            shared = held[self._place] = _Shared(self._new_client())
        shared.holders.add(self)
        return shared.client

    def _new_client(self) -> Any:
        sdk: Any = importlib.import_module(self._sdk)
        headers = self._headers

        async def only_these(request: Any) -> None:
            for name in [name for name in request.headers if name not in _DESCRIBING and not name.startswith("x-stainless-")]:
                del request.headers[name]
            request.headers.update(headers)

        # A server on this machine is never reached through a proxy, whatever the environment says.
        transport = sdk.DefaultAsyncHttpxClient(
            base_url=self.url, follow_redirects=False, trust_env=not is_loopback(self.url), event_hooks={"request": [only_these]}
        )
        made = getattr(sdk, _CLIENTS[self._sdk][0])
        return made(api_key="none", base_url=self.url, max_retries=0, http_client=transport)

    def failures(self) -> tuple[type[Exception], ...]:
        """What the SDK and its HTTP client raise when a call fails."""
        import httpx2

        sdk: Any = importlib.import_module(self._sdk)
        return getattr(sdk, _CLIENTS[self._sdk][1]), httpx2.HTTPError, httpx2.StreamError

    def translated(self, error: Exception, *, streaming: bool) -> ModelError:
        """One of `failures` as the failure of a model."""
        failure = self._translation(error, streaming=streaming)
        self.hide_key(failure)
        return failure

    def _translation(self, error: Exception, *, streaming: bool) -> ModelError:
        import httpx2

        sdk: Any = importlib.import_module(self._sdk)
        place = f"model {self._model} at {without_login(self.url)}"
        if isinstance(error, sdk.APIStatusError):
            failed: Any = error
            wait = _wait(failed.response.headers)
            return error_of(failed.body or failed.message, failed.status_code, self._model, retry_after=wait)
        if isinstance(error, sdk.APITimeoutError | httpx2.TimeoutException):
            return ModelTimeout(f"No answer in time from {place}: {error.__cause__ or error}", model=self._model)
        if not isinstance(error, sdk.APIConnectionError | httpx2.HTTPError | httpx2.StreamError):
            return ModelUnavailable(f"The call failed: {place}: {error}", model=self._model)
        kind, what = (StreamCut, "The reply broke off") if streaming else (ModelUnavailable, "There is no connection")
        return kind(f"{what}: {place}: {error.__cause__ or error}", model=self._model)

    def hide_key(self, error: ModelError) -> None:
        """Take the key out of what a server has said, since errors are stored with their runs."""
        if len(self._secret) >= _SHORTEST_SECRET:
            error.args = (error.message.replace(self._secret, "***"),)
            error.facts = {name: fact.replace(self._secret, "***") if isinstance(fact, str) else fact for name, fact in error.facts.items()}


def _wait(headers: Mapping[str, str]) -> float | None:
    in_ms = headers.get("retry-after-ms", "")
    if in_ms.isdigit():
        return int(in_ms) / 1000
    return seconds_to_wait(headers.get("retry-after"), now=time.time())


def read_key(url: str, variable: str | None) -> str:
    """The key in the environment variable; "" where no variable is named, or a server on this machine needs none. Raises MissingKey."""
    key = os.environ.get(variable, "") if variable else ""
    if variable and not key and not is_loopback(url):
        raise MissingKey(
            f"The environment variable {variable} is not set, and the model server {without_login(url)} needs a key. Set {variable}, or "
            f"name another variable with api_key_env (any text will do for a server that wants no key).",
            variable=variable,
            base_url=without_login(url),
        )
    return key


def checked_url(url: str) -> str:
    """The address without a slash at its end. Raises Invalid if it is none."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    if not right:
        raise Invalid(f"base_url {url!r} is not the address of a server; write it like http://127.0.0.1:8080/v1.")
    return url.rstrip("/")


def _login(url: str) -> dict[str, str]:
    """What a name and password in an address come to."""
    parts = urlsplit(url)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def without_login(url: str) -> str:
    """The address without the name and password in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def is_loopback(url: str) -> bool:
    """Whether the server is on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

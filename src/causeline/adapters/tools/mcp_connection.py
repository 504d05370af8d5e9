"""One connection to an MCP server: made once, used by many calls at the same time, closed once.

Law: the SDK's client is entered and left by one task, which lives as long as the connection. When the server goes away the
connection knows it, and is over; a new one is somebody else's decision.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from causeline.errors import Missing, Unavailable, words_of

if TYPE_CHECKING:
    from mcp import Client

LOG = logging.getLogger("causeline.tools")
CLOSING_SECONDS = 8.0
"""How long a server's process may take to end; the SDK ends it by force before that."""
LAST_WORDS = 2_000
Transport = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens the two streams of a connection."""


class ServerGone(Unavailable):
    """A server cannot be reached, or went away. `asked` says that it had been asked to do something by then."""

    code = "server_gone"

    def __init__(self, message: str, *, asked: bool = False) -> None:
        super().__init__(message)
        self.retryable = not asked


class Connection:
    """A connection that is being opened, is open, or is over. `changed` is called when the server says that its tools have changed."""

    def __init__(self, name: str, transport: Transport, changed: Callable[[], None], last_words: Callable[[], str]) -> None:
        self.name = name
        self._transport = transport
        self._changed = changed
        self._last_words = last_words
        self._stop = asyncio.Event()
        self._client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    @property
    def over(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._stop.is_set() or self._task is None or self._task.done()

    @property
    def client(self) -> "Client":
        return self._client.result()

    async def open(self, seconds: float) -> None:
        """Raises ServerGone with what is known of the reason."""
        self._task = asyncio.create_task(self._keep(), name=f"mcp server {self.name}")
        try:
            await asyncio.wait_for(asyncio.shield(self._client), seconds)
        except TimeoutError:
            await self._end()
            raise ServerGone(f"the MCP server {self.name} did not answer within {seconds:g} s{self._last_words()}") from None
        except asyncio.CancelledError:
            await self._end()
            raise
        except Exception as error:
            await self._end()
            raise ServerGone(f"the MCP server {self.name} cannot be reached: {reason(error)}{self._last_words()}") from error

    async def close(self) -> None:
        """Take leave of the server and end its process, where it has one."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSING_SECONDS)
            await self._end()

    async def _end(self) -> None:
        task = self._task
        if task is None:
            return
        self._stop.set()
        task.cancel()
        await asyncio.wait((task,), timeout=CLOSING_SECONDS)
        if self._client.done() and not self._client.cancelled():
            self._client.exception()

    async def _keep(self) -> None:
        import mcp

        try:
            async with mcp.Client(self._watched(), message_handler=self._hear) as client:
                listening = asyncio.create_task(self._listen(client))
                self._client.set_result(client)
                try:
                    await self._stop.wait()
                finally:
                    listening.cancel()
                    await asyncio.wait((listening,))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever opens the connection, or to nobody any more
            if not self._client.done():
                self._client.set_exception(error)
            else:
                LOG.debug("the connection to the MCP server %s ended: %s", self.name, reason(error))
        finally:
            self._stop.set()
            if not self._client.done():
                self._client.set_exception(ServerGone("the connection was given up"))

    @asynccontextmanager
    async def _watched(self) -> AsyncGenerator[Any]:
        """The transport's streams; the end of what the server says ends the connection."""
        import anyio

        async with self._transport() as (heard, said):
            into, out = anyio.create_memory_object_stream[Any](0)

            async def pump() -> None:
                async with into:
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream):
                        async for message in heard:
                            await into.send(message)
                self._stop.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pump)
                try:
                    yield out, said
                finally:
                    tasks.cancel_scope.cancel()
                    out.close()

    async def _hear(self, message: object) -> None:
        from mcp import types

        if isinstance(message, types.ToolListChangedNotification):
            self._changed()

    async def _listen(self, client: "Client") -> None:
        """Servers of the newer protocol say what changed to those alone who listen for it."""
        from mcp.client.subscriptions import ListenNotSupportedError

        tools: Any = client.server_capabilities.tools
        if tools is None or not tools.list_changed:
            return
        try:
            async with client.listen(tools_list_changed=True) as changes:
                async for _ in changes:
                    self._changed()
        except ListenNotSupportedError:
            return  # an older one says it without being asked
        except Exception as error:  # noqa: BLE001 - the tools stay as they are known
            LOG.debug("the MCP server %s tells no changes any more: %s", self.name, reason(error))


class StandardError:
    """What a server's process writes to standard error: the last of it is kept, for the message when the server fails."""

    def __init__(self) -> None:
        self._tail = bytearray()

    def words(self) -> str:
        """`; it said: ...`, or nothing."""
        text = bytes(self._tail[-LAST_WORDS:]).decode(errors="replace").strip()
        return f"; it said: {text}" if text else ""

    @asynccontextmanager
    async def pipe(self) -> AsyncGenerator[Any]:
        """A file for the process to write to."""
        self._tail.clear()
        reading, writing = os.pipe()
        threading.Thread(target=self._read, args=(reading,), daemon=True, name="mcp-stderr").start()
        with os.fdopen(writing, "w") as file:
            yield file

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            while data := file.read(4096):
                self._tail += data
                del self._tail[:-LAST_WORDS]


def process_transport(command: Sequence[str], env: Mapping[str, str], cwd: Path | None, errors: StandardError) -> Transport:
    """Starts the server as a child process. Its environment has the usual names and `env`, nothing else of this process's; a value
    `${NAME}` is taken from there when the server is started. Raises Missing for a variable that is not set."""

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Any]:
        from mcp import StdioServerParameters, stdio_client

        given = {name: _from_environment(value) for name, value in env.items()}
        program, *arguments = command
        wanted = StdioServerParameters(command=program, args=arguments, env=given, cwd=cwd, encoding_error_handler="replace")
        async with errors.pipe() as file, stdio_client(wanted, errlog=file) as streams:
            yield streams

    return opened


def http_transport(url: str, headers_env: Mapping[str, str], seconds: float) -> Transport:
    """Speaks streamable HTTP. `headers_env` names, for each header, the environment variable that holds it; it is read at each opening.

    Raises Missing for a variable that is not set.
    """

    @asynccontextmanager
    async def opened() -> AsyncGenerator[Any]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = {header: _from_environment(f"${{{variable}}}") for header, variable in headers_env.items()}
        limits = httpx2.Timeout(seconds, read=max(seconds, 300.0))
        async with httpx2.AsyncClient(headers=headers, timeout=limits) as http, streamable_http_client(url, http_client=http) as streams:
            yield streams

    return opened


def _from_environment(value: str) -> str:
    if not (value.startswith("${") and value.endswith("}")):
        return value
    name = value[2:-1]
    if not os.environ.get(name):
        raise Missing(f"the environment variable {name} is not set")
    return os.environ[name]


def reason(error: BaseException) -> str:
    """The first plain error in what task groups have wrapped, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return words_of(error) or type(error).__name__

"""`causeline serve`: agents behind HTTP."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from causeline.cli.opening import agent_from, own_store, place
from causeline.cli.shared_arguments import DEFAULT_STORE, Store
from causeline.cli.views.error_report import CTRL_C
from causeline.cli.views.terminal import Terminal
from causeline.errors import Invalid, Missing
from causeline.runtime.program import Program

if TYPE_CHECKING:
    import uvicorn

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def command(
    agents: Annotated[
        list[str], typer.Argument(metavar="AGENT...", help="Agents to serve: agent.toml, .json, .hcl, or module:name, file.py:name.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on. Anything but loopback needs tokens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8000,
    cors: Annotated[list[str] | None, typer.Option(metavar="ORIGIN", help="An origin that browsers may call from; repeatable.")] = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Serve agents over HTTP: /v1, AG-UI at /ag-ui, OpenAPI at /docs.

    Tokens come from CAUSELINE_TOKENS (token=owner, separated by commas) or [server.tokens] of the agent's file; without any, only this
    machine is answered, as the owner `default`. SIGTERM and Ctrl-C drain: begun calls finish, runs are handed back.
    """
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise Missing("a server needs fastapi and uvicorn; install them with: pip install 'causeline[server]'")
    import uvicorn  # noqa: PLC0415 - only this command needs it

    from causeline.api import app  # noqa: PLC0415 - only this command needs it
    from causeline.api.application import tokens_from_environment  # noqa: PLC0415 - only this command needs it

    own_store(store, "serve")
    served = [agent_from(name, store) for name in agents]
    tokens: dict[str, str] = {}
    for agent in served:
        tokens.update(_settings(agent).get("tokens") or {})
    tokens.update(tokens_from_environment())
    if host not in LOOPBACK and not tokens:
        raise Invalid(f"{host} can be reached from other machines, so it needs tokens: set CAUSELINE_TOKENS=token=owner")
    server = app(
        store,
        agents=served,
        tokens=tokens,
        cors=[*(cors or ()), *(origin for agent in served for origin in _settings(agent).get("cors") or ())],
    )
    config = uvicorn.Config(server, host=host, port=port, log_level="warning", timeout_graceful_shutdown=35, server_header=False)
    listening = uvicorn.Server(config)
    words = f"agents {', '.join(agent.name for agent in served)}, store {place(store)}"
    startup = listening.startup

    async def announced(sockets: Any = None) -> None:
        await startup(sockets)
        _announce(listening, words)

    listening.startup = announced
    Stopping(listening, server.state.doors.drain)
    # Once it has drained, uvicorn raises the signals it was stopped by again; by then there is nothing left to stop.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    try:
        listening.run()
    except KeyboardInterrupt:
        raise typer.Exit(CTRL_C) from None


class Stopping:
    """What signals do to a server: the first one has it drain while open connections end, the second one leaves out the rest of the
    grace."""

    def __init__(self, server: "uvicorn.Server", drain: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._drain = drain
        self._draining: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._shutdown, self._handle_exit, self._stops = server.shutdown, server.handle_exit, lambda: server.should_exit
        server.shutdown, server.handle_exit = self.shutdown, self.handle_exit

    async def shutdown(self, sockets: Any = None) -> None:
        """Drain beside what the server does."""
        Terminal(error=True).say("stopping: nothing new begins (a second signal stops at once) ...", "quiet")
        self._loop = asyncio.get_running_loop()
        self._draining = asyncio.create_task(self._drain())
        await asyncio.gather(asyncio.wait((self._draining,)), self._shutdown(sockets))

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Called in a signal handler."""
        if self._stops() and self._loop is not None and self._draining is not None:
            self._loop.call_soon_threadsafe(self._draining.cancel)
        else:
            self._handle_exit(sig, frame)


def _announce(server: "uvicorn.Server", words: str) -> None:
    """Say on the first line where the server listens."""
    for listener in server.servers:
        for socket in listener.sockets:
            address, number = socket.getsockname()[:2]
            Terminal().say(f"http://[{address}]:{number}" if ":" in address else f"http://{address}:{number}")
    Terminal().say(f"{words} (Ctrl-C or SIGTERM drains; the API is described at /docs)", "quiet")


def _settings(agent: Program) -> Mapping[str, Any]:
    """What the agent's file says under [server]: `tokens` (token -> owner) and `cors` (origins)."""
    settings = (agent.manifest() or {}).get("server")
    return cast("Mapping[str, Any]", settings) if isinstance(settings, Mapping) else {}

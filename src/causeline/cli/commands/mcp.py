"""`causeline mcp`: an agent as a tool for editors and other agents."""

import socket
from importlib.util import find_spec
from typing import Annotated

import typer

from causeline.cli.opening import agent_from, leave, opened, own_store
from causeline.cli.shared_arguments import DEFAULT_STORE, Store
from causeline.cli.views.terminal import Terminal, set_aside
from causeline.errors import Missing
from causeline.tools import mcp_server


def command(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent: agent.toml, .json, .hcl, or module:name, file.py:name.")],
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP on this machine instead of standard input and output.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on with --http; 0 takes a free one.")] = 8001,
    store: Store = DEFAULT_STORE,
) -> None:
    """Offer an agent as a tool over the Model Context Protocol.

    The tool has the agent's name and takes {prompt, session?}; each call is a run in the store. It speaks on standard input and output,
    as editors expect, or with --http at /mcp of a port of this machine, which is printed on the first line.
    """
    own_store(store, "mcp")
    if http and find_spec("uvicorn") is None:
        raise Missing("serving over HTTP needs uvicorn; install causeline[server]")
    with set_aside():  # its modules may print, and standard output is the protocol's
        program = agent_from(agent, store)

    async def serve() -> None:
        async with opened(store, program, new=True) as runtime:
            server = mcp_server(runtime, program)
            if not http:
                await server.run_stdio_async()
                return
            import uvicorn  # noqa: PLC0415 - only this way of serving needs it

            with socket.create_server(("127.0.0.1", port)) as listener:
                Terminal().say(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
                config = uvicorn.Config(server.streamable_http_app(), log_level="warning", server_header=False)
                await uvicorn.Server(config).serve(sockets=[listener])

    leave(serve())

"""An MCP server for tests, over stdio or, with the word `http`, on a port of loopback that it prints."""

import asyncio
import base64
import os
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink, TextContent, TextResourceContents, ToolAnnotations

server = MCPServer("test")
READS = ToolAnnotations(read_only_hint=True)
DOT = base64.b64encode(b"\x89PNG dot").decode()


def note(word):
    """What has run, for the test to read."""
    if os.environ.get("EFFECTS"):
        with Path(os.environ["EFFECTS"]).open("a") as file:
            file.write(f"{word}\n")


def times_noted(word):
    return Path(os.environ["EFFECTS"]).read_text().count(word)


@server.tool(annotations=READS)
def hello(who: str, times: int = 1) -> str:
    """Greet somebody."""
    return " ".join([f"hello {who}"] * times)


@server.tool()
def table() -> dict[str, int]:
    return {"a": 1, "b": 2}


@server.tool()
def fail(why: str) -> str:
    raise ToolError(why)


@server.tool()
def mixed() -> list:
    return [
        TextContent(type="text", text="a dot"),
        ImageContent(type="image", data=DOT, mime_type="image/png"),
        EmbeddedResource(type="resource", resource=TextResourceContents(uri="memo:1", text="a memo")),
        EmbeddedResource(type="resource", resource=BlobResourceContents(uri="file:///x.bin", blob=DOT, mime_type="application/x")),
        ResourceLink(type="resource_link", uri="memo:2", name="second", description="another memo"),
    ]


@server.tool()
def big() -> list:
    return [TextContent(type="text", text="big"), ImageContent(type="image", data=DOT * 1_000_000, mime_type="image/png")]


@server.tool()
def pid() -> str:
    return str(os.getpid())


@server.tool()
def variable(name: str) -> str:
    return os.environ.get(name, "not set")


@server.tool()
async def pay(seconds: float = 60) -> str:
    note("pay")
    await asyncio.sleep(seconds)
    return "paid"


@server.tool(annotations=READS)
async def look(seconds: float = 60) -> str:
    note("look")
    await asyncio.sleep(seconds if times_noted("look") == 1 else 0)
    return "looked"


@server.tool()
async def work(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    return "worked"


@server.tool()
async def grow(ctx: Context) -> str:
    def extra() -> str:
        return "extra was here"

    server.add_tool(extra, name="extra")
    await ctx.notify_tools_changed()
    return "grown"


if "odd" in sys.argv:
    server.add_tool(lambda: "dotted", name="a.b/c")
    server.add_tool(lambda: "long", name="x" * 70)

if "silent" in sys.argv:
    import time

    print("busy with something else", file=sys.stderr, flush=True)
    time.sleep(60)

if "http" in sys.argv:
    import socket

    import uvicorn

    async def serve():
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0))
        listener.listen()
        print(listener.getsockname()[1], flush=True)

        async def guarded(scope, receive, send):
            sent = dict(scope.get("headers") or ())
            if scope["type"] == "http" and os.environ.get("TOKEN") and sent.get(b"x-token") != os.environ["TOKEN"].encode():
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b"who are you"})
                return
            await app(scope, receive, send)

        app = server.streamable_http_app()
        await uvicorn.Server(uvicorn.Config(guarded, log_level="error")).serve(sockets=[listener])

    asyncio.run(serve())
else:
    server.run()

"""A real server on loopback, in the test's own event loop."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx2
import uvicorn

import causeline
from causeline.api import app
from causeline.client import Client
from causeline.models import ScriptedModel


@causeline.tool(effects=False)
async def look(q: str) -> str:
    """Looks something up."""
    return f"found {q}"


@causeline.tool(approval="ask")
async def pay(amount: int) -> str:
    """Pays."""
    return f"paid {amount}"


def call(name, arguments, call_id="c1"):
    return {"calls": [{"id": call_id, "name": name, "arguments": arguments}]}


def playing(*script, name="agent", tools=(look, pay), **options):
    return causeline.Agent(ScriptedModel(list(script)), name=name, tools=list(tools), **options)


class Served:
    """Where a server listens, and ways to talk to it."""

    def __init__(self, url, server):
        self.url, self.server = url, server

    def http(self, token=None, **more):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, trust_env=False, timeout=20, **more)

    def client(self, token=""):
        return Client(self.url, token)


@asynccontextmanager
async def serving(store, *agents, **options):
    """Serve these agents over a store's URL, or a runtime, on a free port."""
    config = uvicorn.Config(app(store, agents=agents, **options), host="127.0.0.1", port=0, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.005)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}", server)
    finally:
        server.should_exit = True
        await task


def frames(text):
    """The events of a finished stream: (id, event, data), comments left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append((int(fields["id"]) if "id" in fields else None, fields.get("event"), json.loads(fields["data"])))
    return found

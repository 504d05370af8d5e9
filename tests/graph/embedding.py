"""A parent document with a child in it, and nodes that fail, hang and ask."""

import asyncio

from causeline.graph import Graph, Outcome
from causeline.graph.documents.document import DagReference

CHILD = "urn:t:child"


def parent(outputs=None, child: str | DagReference = CHILD, **mappings) -> Graph:
    graph = Graph("urn:t:parent").embed("inner", child, outputs or {"success": "after", "error": "bad"}, **mappings)
    return graph.node("after", lambda ctx: Outcome("done", {"after": True}), {"done": "end"}).terminal("end").terminal("bad", "failed")


def child(*functions, iri=CHILD) -> Graph:
    graph = Graph(iri)
    for number, function in enumerate(functions):
        graph.node(f"c{number}", function, {"done": f"c{number + 1}" if number + 1 < len(functions) else "stop"})
    return graph.terminal("stop")


def boom(ctx):
    raise ValueError("inner trouble")


async def forever(ctx):
    await asyncio.sleep(60)


def ask(ctx):
    return Outcome.pause({"ask": ctx.placement}) if ctx.answer is None else Outcome("done", {"answer": ctx.answer})

"""Many items from an async source through one node, four at a time; one bad item fails alone and the order stays that of the source."""

import asyncio

from causeline.graph import Dispatcher, Graph, Outcome


async def readings():
    """Never more than four are pulled ahead, so this could as well be endless."""
    for text in ("12", "7", "oops", "30", "4"):
        await asyncio.sleep(0.001)
        yield text


async def parse(ctx):
    await asyncio.sleep(0.002 if ctx.index == 0 else 0)
    return Outcome("success", {"value": int(ctx.item)})


graph = (
    Graph("urn:example:dag:scatter")
    .scatter("parse", "readings", dict.fromkeys(["all-success", "partial", "all-error", "empty"], "values"), node=parse, concurrency=4)
    .gather(
        "values", ["parse"], "map", {"success": "end", "error": "end", "empty": "end"}, mapping={"value": "values", "error.code": "faults"}
    )
    .terminal("end")
)


async def main():
    dispatcher = Dispatcher()
    dispatcher.register(graph.build(), graph.nodes)
    result = await dispatcher.execute("urn:example:dag:scatter", sources={"readings": readings()})
    print(result.status)
    print(result.state["values"])
    print(result.state["faults"])


asyncio.run(main())

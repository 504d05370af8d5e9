"""Three nodes in a row. A node reads the state and says in its outcome what it writes and by which port it leaves."""

import asyncio

from causeline.graph import Dispatcher, Graph, Outcome, Step


def read(ctx):
    return Outcome("done", {"words": ctx.state["text"].split()})


def count(ctx):
    return Outcome("done", {"count": len(ctx.state["words"])})


def report(ctx):
    return Outcome("done", {"report": f"{ctx.state['count']} words"})


graph = (
    Graph("urn:example:dag:linear")
    .node("read", read, {"done": "count"})
    .node("count", count, {"done": "report"})
    .node("report", report, {"done": "end"})
    .terminal("end")
)


async def main():
    dispatcher = Dispatcher()
    dispatcher.register(graph.build(), graph.nodes)
    execution = dispatcher.execute("urn:example:dag:linear", {"text": "a line of causes"})
    async for event in execution:
        if isinstance(event, Step):
            print(f"{event.index} {event.node} -> {event.next}")
    result = await execution
    print(result.status, result.state["report"])


asyncio.run(main())

"""A node asks a person. The execution ends `interrupted`; what it saved is plain JSON, and any process can go on from there."""

import asyncio
import json

from causeline.graph import Dispatcher, Graph, Outcome


def draft(ctx):
    return Outcome("done", {"letter": f"Dear {ctx.state['name']}, ..."})


def approve(ctx):
    if ctx.answer is None:
        return Outcome.pause({"send this?": ctx.state["letter"]})
    return Outcome("yes" if ctx.answer == "yes" else "no", {"answer": ctx.answer})


graph = (
    Graph("urn:example:dag:letter")
    .node("draft", draft, {"done": "approve"})
    .node("approve", approve, {"yes": "sent", "no": "kept"})
    .terminal("sent")
    .terminal("kept")
)


def dispatcher():
    made = Dispatcher()
    made.register(graph.build(), graph.nodes)
    return made


async def main():
    result = await dispatcher().execute("urn:example:dag:letter", {"name": "Jane"})
    for pause in result.pauses:
        print(result.status, pause.key, pause.question)
    stored = json.dumps(result.saved())
    result = await dispatcher().resume("urn:example:dag:letter", json.loads(stored), answers={"approve": "yes"})
    print(result.status, result.saved()["position"]["reached"], result.state["answer"])


asyncio.run(main())

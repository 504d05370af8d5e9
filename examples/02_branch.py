"""Two entrypoints run at the same time and meet at a gather, which takes their records in declared order, whoever is quicker."""

import asyncio

from causeline.graph import Dispatcher, Graph, Outcome


async def weather(ctx):
    await asyncio.sleep(0.02)
    return Outcome("done", {"found": f"rain in {ctx.state['town']}"})


async def trains(ctx):
    return Outcome("done", {"found": f"two trains to {ctx.state['town']}"})


def decide(ctx):
    return "stay" if any("rain" in fact for fact in ctx.state["facts"]) else "go"


graph = (
    Graph("urn:example:dag:branch")
    .entry("main", "weather")
    .entry("second", "trains")
    .node("weather", weather, {"done": "facts"})
    .node("trains", trains, {"done": "facts"})
    .gather(
        "facts", ["weather", "trains"], "append", {"success": "decide", "error": "lost", "empty": "lost"}, target="facts", field="found"
    )
    .node("decide", decide, {"stay": "home", "go": "away"})
    .terminal("home")
    .terminal("away")
    .terminal("lost", "failed")
)


async def main():
    dispatcher = Dispatcher()
    dispatcher.register(graph.build(), graph.nodes)
    result = await dispatcher.execute("urn:example:dag:branch", {"town": "Bath"})
    print(result.status, result.state["facts"])
    print(result.saved()["position"]["reached"])


asyncio.run(main())

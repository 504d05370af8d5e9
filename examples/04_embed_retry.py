"""A document inside another one, with a node that is tried again; what goes wrong inside leaves by the placement's `error` port."""

import asyncio

from causeline.graph import Dispatcher, Graph, Outcome
from causeline.policy import RetryPolicy


def fetch(ctx):
    if ctx.state["page"] == "missing" or ctx.attempt < 3:
        raise ConnectionError(f"no answer for {ctx.state['page']}")
    return Outcome("done", {"text": f"<{ctx.state['page']}>", "attempts": ctx.attempt})


fetching = (
    Graph("urn:example:dag:fetch")
    .node("fetch", fetch, {"done": "end"}, retry=RetryPolicy(max_attempts=3, base_delay=0.001, retry_on=("ConnectionError",)))
    .terminal("end")
)

reading = (
    Graph("urn:example:dag:read")
    .embed(
        "get",
        "urn:example:dag:fetch",
        {"success": "end", "error": "given-up"},
        state_input={"page": "page"},
        state_output={"text": "text", "attempts": "attempts"},
    )
    .terminal("end")
    .terminal("given-up", "failed")
)


async def main():
    dispatcher = Dispatcher()
    dispatcher.register_all([fetching.build(), reading.build()], [*fetching.nodes, *reading.nodes])
    for page in ("index", "missing"):
        result = await dispatcher.execute("urn:example:dag:read", {"page": page})
        print(page, result.status, result.state.get("text"), result.state.get("attempts"))
        if result.error is not None:
            print(f"  {result.error.code} at {result.error.placement}: {result.error.message}")


asyncio.run(main())

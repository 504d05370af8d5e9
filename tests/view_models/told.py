"""Sessions that the tests of view models look at, made by runs in memory."""

from contextlib import asynccontextmanager

import causeline
from causeline.models import ScriptedModel

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \"'`{{x}} \u202e %%{init:1}%%"
LOOK = {"name": "look", "arguments": {"q": "x"}}


@causeline.tool(effects=False)
def look(q: str) -> str:
    """Look something up."""
    return f"found {q}"


@causeline.tool(approval="ask")
def pay(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount}"


def clerk(*items, **options):
    return causeline.Agent(ScriptedModel(list(items)), name="clerk", tools=[look, pay], **options)


@asynccontextmanager
async def told(agent, prompt="hello", session="s1"):
    """A runtime in which the agent has answered once, and the run."""
    async with causeline.open("memory://", agents=[agent]) as runtime:
        run = await runtime.start(agent, prompt, session=session)
        await run.result()
        yield runtime, run

"""A recorded run as a test: the same agent again, without its model and without its tools."""

import asyncio

import causeline
from causeline.models import ScriptedModel
from causeline.testing import Recorded

paid: list[int] = []


@causeline.tool
def pay(amount: int) -> str:
    """Pay an invoice."""
    paid.append(amount)
    return f"paid {amount}"


async def record() -> bytes:
    model = ScriptedModel([{"calls": [{"id": "c1", "name": "pay", "arguments": {"amount": 30}}]}, {"text": "Done."}])
    agent = causeline.Agent(model, tools=[pay], system="You keep the books.")
    async with causeline.open("memory://") as runtime:
        await (await runtime.start(agent, "Pay the invoice.", session="books")).result()
        return await runtime.export("books")


recorded = Recorded(asyncio.run(record()))
again = causeline.Agent(recorded, tools=[recorded], system="You keep the books.").run_sync("Pay the invoice.")
print(again.answer, paid)
changed = causeline.Agent(recorded, tools=[recorded], system="You keep the books well.").run_sync("Pay the invoice.")
assert changed.error is not None
print("\n".join(changed.error["message"].splitlines()[3:5]))

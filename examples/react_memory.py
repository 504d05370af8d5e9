"""An agent whose reasoning is recorded as a graph while it runs, and recalled by its next run.

The agent's execution is the source of a stream; a second graph takes step after step from it and writes statements, each informed by
the one before. What the first run reasoned is then put before the second one. No server is needed: the model plays a script.
"""

import asyncio
import json
from pathlib import Path

import causeline
from causeline.graph import Dispatcher, StreamChannel, load
from causeline.memory import TripleStore, hint, record_step, trace
from causeline.models import Finish, ScriptedModel, TextDelta

TRACE = load(Path(__file__).with_name("react-agent-memory-trace.jsonld"))
MEANINGS = {"causeline": "causeline keeps what an agent did as a line of causes, and lets a later run read it."}


@causeline.tool(effects=False)
async def lookup(query: str) -> dict[str, str]:
    """Look up a short definition of a known term."""
    return {"result": MEANINGS.get(query.lower(), f"There is no entry for {query!r}.")}


class Librarian(ScriptedModel):
    """Looks the word up, then answers with what it found, word by word."""

    def __init__(self):
        super().__init__([{"calls": [{"id": "call-1", "name": "lookup", "arguments": {"query": "causeline"}}]}])

    async def stream(self, request):
        found = next((one.text for one in reversed(request.messages) if one.role == "tool"), None)
        if found is None:
            async for delta in super().stream(request):
                yield delta
            return
        for word in f"Based on the lookup, {found}".split(" "):
            yield TextDelta(f"{word} ")
        yield Finish("stop")


async def run(store, run_id, prompt, recalled):
    """One run of the pipeline: agent, trace, record. Returns the answer and the pieces it was told in."""
    pieces = []
    agent = causeline.Agent(Librarian(), graph="react-flat", tools=[lookup], on_token=pieces.append)
    execution = agent.execution(prompt, recall_hint=recalled)
    recorder = Dispatcher()
    recorder.register(TRACE, [record_step(store, run_id)])
    # Whoever records pulls the agent forward: its execution is not awaited here.
    outcome = await recorder.execute(TRACE.id, {}, sources={"source": StreamChannel.driven(trace(execution))})
    if outcome.status != "completed":
        raise SystemExit(f"{run_id}: {outcome.error}")
    return (await execution).state["result"]["answer"].strip(), pieces


async def main():
    store = TripleStore()
    recalled = ""
    for run_id, prompt, note in [
        ("run-1", "Tell me about causeline.", "no prior memory"),
        ("run-2", "Tell me about causeline again.", "recalling run-1"),
    ]:
        print(f"--- react-agent-memory: {run_id} ({note}) ---\n")
        answer, pieces = await run(store, run_id, prompt, recalled)
        print(f'Final answer: "{answer}"')
        print(f"Streamed deltas ({len(pieces)}): {json.dumps(pieces)}\n")
        if not recalled:
            recalled = hint(store, run_id)
            print(f'Recalled hint for run-2: "{recalled}"\n')
    print("Lesson: what an agent reasons can be read step by step while it runs, by another graph, which")
    print("keeps it as statements that follow from one another; a later run recalls the chain as data.")


asyncio.run(main())

"""What the sweep runs: clients that do the same again after a crash, and tools that leave a trace of every effect.

Law: a scenario is a coroutine that can be started again at any time and ends in the same place: it names its runs,
so that a run that is known is followed instead of started twice.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from causeline.assemble import Agent
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.handle import RunResult
from causeline.runtime.program import Program
from causeline.runtime.runtime import Runtime
from causeline.tools.function import tool
from causeline.tools.tool import Tool, ToolContext

SESSION = "sweep"
MEMORIES, NOTES = "memories.db", "notes"
"""The file of a memory that is kept apart from the sessions, and the namespace of every memory."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A client's work on one session. `act` gets the runtime and the agents, one for each of `scripts`, the model's replies; `programs`
    makes other ones in their place. Steps of several `branches` may come in another order after a crash: then the channels are compared
    in place of the head."""

    name: str
    scripts: Sequence[Sequence[Mapping[str, Any]]]
    act: Callable[[Runtime, Sequence[Any]], Awaitable[None]]
    options: Mapping[str, Any] | None = None
    programs: Callable[[Path], Sequence[Program]] | None = None
    branches: bool = False

    def agents(self, effects: Path) -> Sequence[Program]:
        """The agents, whose tools write to the file `effects`; or the scenario's own programs."""
        if self.programs is not None:
            return self.programs(effects)
        return [
            Agent(ScriptedModel(script), name=f"agent-{index}", tools=tools(effects), **(self.options or {}))
            for index, script in enumerate(self.scripts)
        ]


def tools(effects: Path) -> Sequence[Tool]:
    """Tools of every kind. Each effect is one line: call id, tool; flushed to disk before the result is returned."""

    def leave(call_id: str, name: str) -> None:
        with effects.open("a", encoding="utf-8") as file:
            file.write(f"{call_id} {name}\n")
            file.flush()
            os.fsync(file.fileno())

    @tool
    async def write(n: int, context: ToolContext) -> str:
        """Has an effect; later calls of a reply finish earlier."""
        await asyncio.sleep(0.004 * max(0, 3 - n))
        leave(context.call_id, "write")
        return f"wrote {n}"

    @tool(idempotent=True)
    async def put(n: int, context: ToolContext) -> str:
        """Has an effect at most once for its idempotency key, as a careful service would."""
        done = effects.with_name(f"{effects.name}-{context.idempotency_key}")  # made at once with the effect, as in one transaction
        if not done.exists():
            leave(context.call_id, "put")
            done.touch()
        return f"put {n}"

    @tool(exclusive=True)
    async def alone(n: int, context: ToolContext) -> str:
        """Has an effect and runs alone."""
        leave(context.call_id, "alone")
        return f"alone {n}"

    @tool(effects=False)
    async def look(n: int) -> str:
        """Has no effect."""
        return f"saw {n}"

    @tool(effects=False)
    async def wait(n: int) -> str:
        """Does not return."""
        await asyncio.Event().wait()
        return f"waited {n}"

    @tool(on_unknown="ask")
    async def risk(n: int, context: ToolContext) -> str:
        """Has an effect, and a person is asked what became of it where nobody knows."""
        leave(context.call_id, "risk")
        return f"risked {n}"

    return (write, put, alone, look, wait, risk)


def effects_in(effects: Path) -> Sequence[str]:
    """The effects so far, a line each."""
    return effects.read_text(encoding="utf-8").splitlines() if effects.exists() else []


def calls(*names: str, start: int = 0) -> Mapping[str, Any]:
    """A reply that calls tools, numbered on."""
    return {"calls": [{"id": "", "name": name, "arguments": {"n": start + index}} for index, name in enumerate(names)]}


async def ended(runtime: Runtime, agent: Program, prompt: Any, run_id: str, **more: Any) -> RunResult:
    """Start a run, or follow it if it is known, to its end."""
    return await (await runtime.start(agent, prompt, session=SESSION, run_id=run_id, **more)).result()


async def once(runtime: Runtime, agents: Sequence[Program]) -> None:
    await ended(runtime, agents[0], "go", "r1")


def remembering(elsewhere: bool) -> Callable[[Path], Sequence[Program]]:
    """Makes agents that note things beside calls and answers, one of them twice."""

    def made(effects: Path) -> Sequence[Program]:
        memory = {"namespace": NOTES, **({"store": f"sqlite:///{effects.with_name(MEMORIES)}"} if elsewhere else {})}
        first = [
            {"text": "Let me see.", "calls": [*calls("write")["calls"], _note("home", "Ada lives in Lisbon")]},
            {"text": "Noted.", "calls": [_note("home", "Ada lives in Porto"), _note("tea", "Ada drinks green tea")]},
        ]
        then = [{"calls": [_note("tea", None)]}, {"text": "Ada lives in Porto."}]
        scripts = enumerate((first, then))
        return [Agent(ScriptedModel(script), name=f"agent-{index}", tools=tools(effects), memory=memory) for index, script in scripts]

    return made


def _note(key: str, content: str | None) -> Mapping[str, Any]:
    return {"id": f"note-{key}-{content}", "name": "remember", "arguments": {"type": "memory", "key": key, "content": content}}


async def remembered(runtime: Runtime, agents: Sequence[Program]) -> None:
    await ended(runtime, agents[0], "I live in Porto and drink tea", "r1")
    await ended(runtime, agents[1], "Where does Ada live, and forget her tea", "r2")


async def forked(runtime: Runtime, agents: Sequence[Program]) -> None:
    await ended(runtime, agents[0], "go", "r1")
    first = next(one for one in await runtime.checkpoints(SESSION, "r1") if one.node == "call_tools")
    await ended(runtime, agents[0], "another way", "r2", at=first.id)


class _Lent:
    """A store that somebody else opens and closes."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        """It stays open."""


async def drained(runtime: Runtime, agents: Sequence[Program]) -> None:
    """A first runtime leaves in good order while calls run; this one goes on."""
    first = Runtime(cast("Any", _Lent(runtime.store)), owner=runtime.owner, programs=agents)
    async with first:
        run = await first.start(agents[0], "go", session=SESSION, run_id="r1")
        async for event in run.events():
            if event["type"] == "tool_call_start":
                break
    await ended(runtime, agents[0], "go", "r1")


async def cancelled(runtime: Runtime, agents: Sequence[Program]) -> None:
    run = await runtime.start(agents[0], "go", session=SESSION, run_id="r1")
    async for event in run.events():
        if event["type"] == "tool_call_start" and event["name"] == "wait":
            await runtime.cancel("r1")
    await run.result()
    await ended(runtime, agents[1], "go on", "r2")

"""A runtime on a stage: stores of every kind, an agent with gated tools, and runs played to their end."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import causeline
from causeline import Runtime
from causeline.adapters.stores import open_store
from causeline.agent.definition import AgentDefinition
from causeline.assemble import agent_of
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.store import Store
from causeline.tools.human import ask_human
from causeline.tools.tool import ToolContext

URLS = ("memory", "sqlite")
GRAPHS = ("react", "react-flat")


def store_at(kind: str, folder: Any) -> Store:
    return open_store("memory://" if kind == "memory" else f"sqlite:///{folder}/store.db")


def asks(*calls: tuple[str, dict[str, Any], str], text: str = "") -> dict[str, Any]:
    """A reply that calls tools: (name, arguments, id)."""
    return {"text": text, "calls": [{"id": call_id, "name": name, "arguments": arguments} for name, arguments, call_id in calls]}


@dataclass
class Scene:
    """An agent whose `pay` must be approved, whose `write` need not, and what they did."""

    script: Sequence[Any]
    graph: str = "react"
    name: str = "agent"
    options: dict[str, Any] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    asked: int = 0

    def tools(self) -> list[Any]:
        @causeline.tool(approval="ask")
        async def pay(n: int, context: ToolContext) -> str:
            """Pays."""
            self.done.append(f"{context.call_id}:pay {n}")
            return f"paid {n}"

        @causeline.tool
        async def write(n: int, context: ToolContext) -> str:
            """Writes."""
            self.done.append(f"{context.call_id}:write {n}")
            return f"wrote {n}"

        return [pay, write, ask_human]

    def agent(self, *, tools: Sequence[Any] | None = None, **more: Any) -> AgentDefinition:
        scene = self

        class Counted(ScriptedModel):
            async def stream(self, request):
                scene.asked += 1
                async for delta in super().stream(request):
                    yield delta

        return causeline.Agent(
            Counted(self.script),
            name=self.name,
            tools=self.tools() if tools is None else tools,
            graph=self.graph,
            **{**self.options, **more},
        )


def runtime(store: Store, *agents: Any, grace: float = 0.0, **more: Any) -> Runtime:
    """One that waits for nothing when it is left, unless it has `grace`."""
    return Runtime(store, programs=agents, build=agent_of, grace=grace, **more)


@asynccontextmanager
async def beside(store: Store, *agents: Any, **more: Any) -> AsyncIterator[Runtime]:
    """One more runtime over a store that is open already, as another process would have it."""
    other = runtime(store, *agents, **more)
    other.room._open = True
    other._dispatch.open()
    try:
        yield other
    finally:
        other.room._closed = True
        await other._dispatch.close()


def by_call(result: Any) -> dict[str, Any]:
    """The open interrupts of a result, by the call they are about."""
    return {one.tool_call_id: one for one in result.interrupts}


async def told(run: Any) -> list[dict[str, Any]]:
    return [dict(event) async for event in run.events()]


async def said(runtime: Runtime, session: str = "s") -> list[tuple[str, str]]:
    return [(one.role, one.text) for one in await runtime.messages(session)]

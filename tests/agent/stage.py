"""Agents on a stage: a scripted model that remembers what it was asked, and runs played to their end."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from causeline import RunResult, Runtime
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.agent.definition import AgentDefinition
from causeline.agent.options import Options
from causeline.causal import CausalNode
from causeline.models.emulated_tools import in_mode
from causeline.models.fallback_model import FallbackModel
from causeline.models.model import Model, Request
from causeline.models.retry_model import RetryModel
from causeline.models.scripted_model import ScriptedModel
from causeline.policy import RetryPolicy
from tests.models.clocks import StillClock


def unpaired(messages: Sequence[Any]) -> list[str]:
    """What a strict provider would have against a history: each call has exactly one result, right after its reply."""
    faults: list[str] = []
    pending: list[str] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            if message.tool_call_id in pending:
                pending.remove(message.tool_call_id)
            else:
                faults.append(f"[{place}]: a result for {message.tool_call_id} without an open call")
            continue
        if pending:
            faults.append(f"[{place}]: {pending} have no result")
        pending = [call.id for call in message.tool_calls]
        if len(set(pending)) != len(pending) or not all(pending):
            faults.append(f"[{place}]: call ids {pending}")
        if message.role == "assistant" and not pending and not message.text:
            faults.append(f"[{place}]: an assistant message without text or calls")
    if pending:
        faults.append(f"end: {pending} have no result")
    if messages and messages[-1].role == "assistant":
        faults.append("end: the last message is the assistant's")
    return faults


class Heard:
    """A model that plays a script (or another model) and keeps every request as it was at the time."""

    def __init__(self, script: Any, name: str = "scripted") -> None:
        self.inner: Model = ScriptedModel(script, name=name) if isinstance(script, list | tuple) else script
        self.name = self.inner.name
        self.requests: list[Any] = []
        self.faults: list[str] = []

    async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
        self.requests.append(replace(request, messages=tuple(request.messages)))
        self.faults += unpaired(request.messages)
        async with aclosing(self.inner.stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        await self.inner.aclose()

    @property
    def last(self) -> Any:
        return self.requests[-1]


class Turns:
    """A model with a script for each user turn."""

    name = "turns"

    def __init__(self, *scripts: Sequence[Any]) -> None:
        self.scripts = [ScriptedModel(script) for script in scripts]

    async def stream(self, request: Request) -> AsyncGenerator[Any, None]:
        turn = sum(one.role == "user" for one in request.messages) - 1
        async with aclosing(self.scripts[min(turn, len(self.scripts) - 1)].stream(request)) as deltas:
            async for delta in deltas:
                yield delta

    async def aclose(self) -> None:
        """Nothing is held open."""


class Moving:
    """A clock whose wall time begins where it is told and jumps with every look; it waits like any other."""

    def __init__(self, start: float = 1_800_000_000.0, jump: float = 0.001) -> None:
        self.time, self.jump = start, jump

    def now(self) -> float:
        self.time += self.jump
        return self.time

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class Ran:
    """A run that ended: how, and what it told."""

    result: RunResult
    events: list[dict[str, Any]]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)

    def told(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in kinds]

    @property
    def kinds(self) -> list[str]:
        return [event["type"] for event in self.events]


class Stage:
    """One agent, one runtime."""

    def __init__(self, runtime: Runtime, agent: AgentDefinition, model: Heard) -> None:
        self.runtime, self.agent, self.model = runtime, agent, model

    async def run(self, prompt: Any = None, *, agent: AgentDefinition | None = None, session: str = "s", **more: Any) -> Ran:
        return await self.end(await self.runtime.start(agent or self.agent, prompt, session=session, **more))

    async def answer(self, ran: Ran, decisions: dict[str, Any], **more: Any) -> Ran:
        """`decisions` by call id."""
        by_interrupt = {one.id: decisions[one.tool_call_id] for one in ran.interrupts if one.tool_call_id in decisions}
        return await self.end(await self.runtime.answer(ran.run_id, by_interrupt, **more))

    @staticmethod
    async def end(run: Any) -> Ran:
        events = [event async for event in run.events()]
        return Ran(await run.result(), events)

    async def log(self, session: str = "s", at: str | None = None) -> Any:
        return (await self.runtime.branch(session, at)).state

    async def nodes(self, kind: str, session: str = "s") -> list[CausalNode]:
        return [node for node in (await self.log(session)).nodes if node.kind == kind]

    async def steps(self, run: str | None = None, session: str = "s") -> list[Any]:
        return list(await self.runtime.checkpoints(session, run))

    async def said(self, session: str = "s") -> list[tuple[str, str]]:
        return [(one.role, one.text) for one in await self.runtime.messages(session)]


def agent_of(model: Any, tools: Sequence[Any] = (), **options: Any) -> AgentDefinition:
    """An agent on exactly this model, in the tool mode its options name."""
    checked = Options.checked(model=model, **options)
    mode = checked.tool_mode
    return AgentDefinition(checked, tools, lambda _: in_mode(model, None if mode == "native" else mode))


def enduring(models: Sequence[Any], clock: StillClock, retries: int = 2) -> Model:
    """The models in turn, each tried again `retries` times, as an agent's own model is."""
    policy = RetryPolicy(max_attempts=retries + 1, base_delay=0.5, max_delay=60.0, jitter_factor=0.0)
    tried = [RetryModel(one, policy, clock=clock) for one in models]
    return tried[0] if len(tried) == 1 else FallbackModel(tried)


@asynccontextmanager
async def stage(
    script: Any = (),
    tools: Sequence[Any] = (),
    *,
    store: Any = None,
    clock: Any = None,
    pairs: bool = True,
    grace: float = 30.0,
    **options: Any,
) -> AsyncIterator[Stage]:
    """An agent that plays a script. Everything its model was asked must have been well paired."""
    model = Heard(script)
    agent = agent_of(model, tools, **options)
    async with Runtime(store or InMemoryStore(), programs=[agent], clock=clock, grace=grace) as runtime:
        yield Stage(runtime, agent, model)
    if pairs:
        assert model.faults == []


def calls(*asked: tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str], text: str = "") -> dict[str, Any]:
    """A script item that asks for tools: (name, arguments[, id])."""
    items = [{"id": one[2] if len(one) > 2 else f"c{place}", "name": one[0], "arguments": one[1]} for place, one in enumerate(asked)]
    return {"calls": items, "text": text}

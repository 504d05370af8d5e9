"""Whatever the code of a caller raises ends its run with a reason; nothing hangs, and the process lives."""

import asyncio
from typing import Any

import pytest

import causeline
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.graph import Graph, Outcome, node
from causeline.models import ScriptedModel
from causeline.runtime import GraphProgram
from tests.runtime.scenes import runtime, told


class Mute(Exception):
    """Its text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Base(BaseException):
    """No Exception."""


RAISED = [Mute, Base, GeneratorExit, KeyboardInterrupt, SystemExit, asyncio.CancelledError, StopIteration]
REASONS = {"tool_error", "model_error"}


async def ended(program: Any) -> Any:
    async with asyncio.timeout(20), runtime(InMemoryStore()) as rt:
        run = await rt.start(program, "go")
        result = await run.result()
        assert (await told(run))[-1]["stop_reason"] == result.stop_reason
        return result


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("waits", [False, True])
async def test_a_node_that_raises_fails_its_run(raised: type[BaseException], waits: bool) -> None:
    def sync(_ctx: Any) -> Outcome:
        raise raised

    async def waiting(_ctx: Any) -> Outcome:
        await asyncio.sleep(0)
        raise raised

    bad = node("urn:test:bad", ("done",))(waiting if waits else sync)
    graph = Graph("urn:test:dag:bad").node("b", bad.iri, {"done": "end"}).terminal("end").entry("main", "b").build()
    result = await ended(GraphProgram(graph, (bad,)))
    assert (result.status, result.stop_reason) == ("failed", "tool_error")
    assert (result.error or {})["message"]


@pytest.mark.parametrize("raised", RAISED)
async def test_a_token_listener_that_raises_does_not_take_the_process_along(raised: type[BaseException]) -> None:
    def listen(_text: str) -> None:
        raise raised

    result = await ended(causeline.Agent(ScriptedModel([{"text": "hello"}]), on_token=listen, max_retries=0))
    assert result.status == "succeeded" or result.stop_reason in REASONS

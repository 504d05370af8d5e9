"""A provider that asked for time gets it, also when the process that waited is gone."""

import asyncio

from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.agent.definition import AgentDefinition
from causeline.agent.options import Options
from causeline.models.retry_model import RetryModel
from causeline.models.scripted_model import ScriptedModel
from causeline.policy import RetryPolicy
from causeline.runtime.records import Progress, Run
from causeline.runtime.runtime import Runtime


class Clock:
    """A clock that stands still but where somebody sleeps; `slept` is how long each was."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self.slept: list[float] = []
        self.forever = False
        self.waits = asyncio.Event()

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if seconds in (5.0, 0.05, 1.0):  # heartbeats and the like
            await asyncio.sleep(0.01)
            return
        self.slept.append(seconds)
        if self.forever:
            self.waits.set()
            await asyncio.Event().wait()
        self.time += seconds
        await asyncio.sleep(0)


def agent(clock: Clock, times: int) -> AgentDefinition:
    model = ScriptedModel([{"status": 429, "headers": {"Retry-After": "40"}, "times": times}])
    policy = RetryPolicy(max_attempts=3, base_delay=0.5, max_delay=60.0, jitter_factor=0.0)
    return AgentDefinition(Options.checked(model=model), [], lambda _options: RetryModel(model, policy, clock=clock))


async def test_a_takeover_waits_out_the_rest_and_asks_then() -> None:
    store, clock = InMemoryStore(), Clock()
    clock.forever = True
    first = agent(clock, times=1)
    runtime = Runtime(store, programs=[first], clock=clock)
    async with runtime:
        await runtime.start(first, "go", session="s", run_id="r")
        async for event in runtime.events("r"):
            if event["type"] == "step_started" and event["node"] == "call_model":
                break
        await clock.waits.wait()
        rows = await store.rows(Progress, owner="default", run="r")
        assert [(row.port, row.writes["until"] - clock.now()) for row in rows] == [("wait", 40.0)]
    assert (await store.rows(Run, owner="default"))[0].status == "queued"

    clock.forever, clock.slept = False, []
    clock.time += 15
    second = agent(clock, times=0)
    async with Runtime(store, programs=[second], clock=clock) as other:
        result = await (await other.resume("r")).result()
    assert (result.status, clock.slept) == ("succeeded", [25.0])

"""Several branches against a naive interpreter: whoever is quicker, wherever it crashes, whatever waits for an answer."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causeline.graph import Dispatcher
from tests.graph.naive_branches import CHILD, NODES, World, expected, keys, meetings
from tests.graph.walking import through_json

FEW = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


class Store:
    """A journal that keeps what a store keeps: a whole position, the steps after it, and the progress no step has folded in."""

    def __init__(self, saved, delays=()) -> None:
        self.saved = saved
        self.head = saved.get("head", -1)
        self.rows = list(saved.get("progress", ()))
        self.states = [saved]
        self._delays = iter(delays)

    async def step(self, step) -> None:
        await self._wait()
        self.head = step.index
        self.rows = [row for row in self.rows if row["step"] > step.index]
        told = through_json({"position": step.position, "delta": step.delta})
        self._keep({**self.saved, "steps": [*self.saved.get("steps", ()), told]})
        await self._wait()

    async def progress(self, row) -> None:
        await self._wait()
        self.rows.append(through_json(row.to_plain()))
        self._keep(self.saved)
        await self._wait()

    def _keep(self, saved) -> None:
        self.saved = {**saved, "head": self.head, "progress": [row for row in self.rows if row["step"] > self.head]}
        self.states.append(self.saved)

    async def _wait(self) -> None:
        for _ in range(next(self._delays, 0)):
            await asyncio.sleep(0)


def made(meeting):
    dispatcher = Dispatcher()
    graph = meeting.graph()
    dispatcher.register_all([CHILD, graph.build()], NODES)
    return dispatcher


async def walked(dispatcher, meeting, world, saved=None, delays=()):
    """From the start or from what a store holds to a real end, answering whatever is asked."""
    services = {World: world, dict: meeting.writes()}
    if saved is None or "steps" not in saved:
        store = Store(saved or through_json(dispatcher.execute("urn:t:branches", meeting.state()).saved()), delays)
        progress = store.saved.get("progress", ())
        execution = dispatcher.execute("urn:t:branches", meeting.state(), services=services, journal=store, progress=progress)
    else:
        store = Store(saved, delays)
        execution = dispatcher.resume("urn:t:branches", saved, services=services, journal=store, first_step=saved.get("head", -1) + 1)
    result = await execution
    while result.status == "interrupted":
        answers = {pause.key: "yes" for pause in result.pauses}
        assert answers
        execution = dispatcher.resume(
            "urn:t:branches", store.saved, answers=answers, services=services, journal=store, first_step=store.head + 1
        )
        result = await execution
    assert result.error is None, result.error
    return result, store


DELAYS = st.integers(0, 6)


@FEW
@given(meetings(), st.data())
def test_branches_come_to_what_the_naive_interpreter_says_whoever_is_quicker(meeting, data):
    dispatcher = made(meeting)
    names = keys(meeting)
    asks = data.draw(st.sets(st.sampled_from(names)) if names else st.just(set()))
    for _ in range(2):
        world = World(data.draw(st.fixed_dictionaries(dict.fromkeys(names, DELAYS))), asks)
        result, _ = asyncio.run(walked(dispatcher, meeting, world, delays=data.draw(st.lists(DELAYS, max_size=20))))
        assert (result.status, result.state) == ("completed", expected(meeting, asks))
        assert sorted(world.ran) == sorted(names), "everything runs once"


@FEW
@given(meetings(), st.data())
def test_a_crash_anywhere_changes_nothing_and_runs_nothing_again_that_was_journalled(meeting, data):
    dispatcher = made(meeting)
    names = keys(meeting)
    asks = data.draw(st.sets(st.sampled_from(names), max_size=2) if names else st.just(set()))
    delays = data.draw(st.fixed_dictionaries(dict.fromkeys(names, DELAYS)))
    _, store = asyncio.run(walked(dispatcher, meeting, World(delays, asks), delays=data.draw(st.lists(DELAYS, max_size=20))))
    end = expected(meeting, asks)
    for saved in data.draw(st.lists(st.sampled_from(store.states), max_size=6)):
        world = World({}, asks)
        result, _ = asyncio.run(walked(dispatcher, meeting, world, saved))
        assert (result.status, result.state) == ("completed", end)
        assert not set(world.ran) & finished_items(saved), "a journalled item never runs again"


def finished_items(saved) -> set[str]:
    """The scatter items whose rows the store holds, in a step or beside it."""
    rows = [*saved.get("progress", ())]
    for step in saved.get("steps", ()):
        rows += step["position"].get("rows", ())
    return {".".join(map(str, row["path"][-2:])) for row in rows if "kept" in row["writes"]}

import os
import signal

import pytest

from causeline.adapters.stores import open_store
from causeline.errors import Conflict, Unavailable
from causeline.models.failures import ModelUnavailable, StreamCut
from causeline.models.messages import Message
from causeline.models.model import Finish, Model, Request, TextDelta
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.records import Run
from causeline.runtime.store import Store
from causeline.testing.faults import Delay, Fail, FaultyModel, FaultyStore, Kill
from causeline.testing.store_laws.sample import OWNER, Writer, begin, new_run


def faulty(*faults) -> FaultyStore:
    return FaultyStore(open_store("memory://"), *faults)


async def test_writes_are_numbered_and_reads_and_heartbeats_are_not():
    store: Store = faulty(None)
    assert isinstance(store, FaultyStore)
    await store.open()
    writer = await begin(store)
    await writer.go(2)
    await store.renew("h1")
    await store.rows(Run, owner=OWNER)
    await store.cancel(OWNER, "r1", "2026-11-30T10:00:00.000Z")
    await writer.end()
    await store.claim(OWNER, "r1", "h2", epoch=1, beat=1, at="2026-11-30T10:00:00.000Z")
    await store.delete(OWNER, "s1")
    assert store.kinds == ["start", "commit", "commit", "cancel", "commit", "claim", "delete"]
    assert store.writes == 7
    await store.close()


async def test_a_refused_write_is_numbered_too():
    store = faulty()
    await begin(store)
    with pytest.raises(Conflict):
        await store.start(new_run("r2"), "reject")
    assert store.kinds == ["start", "start"]


@pytest.mark.parametrize("when, kept", [("before", None), ("after", "head")])
async def test_a_failure_before_leaves_nothing_and_one_after_leaves_the_write(when, kept):
    store = faulty(Fail(2, when))
    writer = await begin(store)
    commit = writer.next()
    assert commit.checkpoint is not None
    with pytest.raises(Unavailable, match=f"{when} write 2, a commit"):
        await store.commit(commit)
    (run,) = await store.rows(Run, owner=OWNER)
    assert run.head == (kept and commit.checkpoint.id)
    writer = Writer(store, run, head=run.head)
    await writer.go()


async def test_an_error_of_ones_own_is_raised():
    store = faulty(Fail(1, error=Conflict("no", code="session_busy")))
    with pytest.raises(Conflict, match="no"):
        await begin(store)


async def test_a_delay_delays_its_write_alone(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("causeline.testing.faults.asyncio.sleep", sleep)
    store = faulty(Delay(2, seconds=0.25), Delay(2, "after", seconds=0.5))
    await (await begin(store)).go(3)
    assert slept == [0.25, 0.5]


@pytest.mark.parametrize("when, written", [("before", False), ("after", True)])
def test_a_kill_ends_the_process_at_the_write(tmp_path, when, written):
    import asyncio

    url = f"sqlite:///{tmp_path}/s.db"

    async def play(store):
        await store.open()
        await (await begin(store)).go()

    async def look():
        store = open_store(url)
        await store.open()
        try:
            return await store.rows(Run, owner=OWNER)
        finally:
            await store.close()

    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(play(FaultyStore(open_store(url), Kill(2, when))))
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    (run,) = asyncio.run(look())
    assert (run.head is not None) == written


async def _play(model: Model) -> tuple[list, BaseException | None]:
    deltas = []
    try:
        async for delta in model.stream(Request(messages=[Message("user", "hi")])):
            deltas.append(delta)  # noqa: PERF401 - what came before an error counts
    except ModelUnavailable as error:
        return deltas, error
    return deltas, None


async def test_a_model_breaks_off_at_the_chosen_call_and_delta():
    model = FaultyModel(ScriptedModel([{"text": "one two three four"}]), Fail(2, deltas=2), Fail(3, "after"))
    whole, error = await _play(model)
    assert error is None
    assert isinstance(whole[-1], Finish)
    part, error = await _play(model)
    assert part == whole[:2]
    assert isinstance(part[1], TextDelta)
    assert isinstance(error, StreamCut)
    late, error = await _play(model)
    assert (late, type(error)) == (whole, StreamCut)
    assert await _play(model) == (whole, None)
    assert model.calls == 4
    assert model.name == model.inner.name

"""The key under which a service knows a call: one for the call, whatever becomes of its runs, and no other call has it."""

import asyncio
import hashlib
import re

import causeline
from causeline.causal import canonical
from causeline.models.scripted_model import ScriptedModel
from causeline.tools.tool import ToolContext
from tests.runtime.processes import append, die, ended, lines, spawn
from tests.runtime.scenes import asks, beside, runtime, store_at

SCRIPT = [asks(("pay", {"n": 1}, "call_0")), {"text": "done"}]


def payer(folder, *, fails=0, dies=False, **policy):
    @causeline.tool(idempotent=True, **policy)
    async def pay(n: int, context: ToolContext) -> str:
        """Pays."""
        append(folder / "keys", context.idempotency_key)
        if dies:
            die()
        if len(lines(folder / "keys")) <= fails:
            raise ValueError
        return "paid"

    return causeline.Agent(ScriptedModel(SCRIPT), tools=[pay])


async def row(rt, run_id):
    (call,) = await rt.calls(run_id)
    return call


def key_of(owner, session, run, call):
    return "ik_" + hashlib.sha256(canonical([owner, session, run, call])).hexdigest()[:24]


async def test_it_is_made_of_owner_session_run_and_call_and_the_row_carries_it(tmp_path):
    agent = payer(tmp_path)
    async with runtime(store_at("sqlite", tmp_path), agent) as rt:
        await (await rt.start(agent, "go", session="s", run_id="r1")).result()
        key = key_of("default", "s", "r1", "call_0")
        assert lines(tmp_path / "keys") == [key]
        assert (await row(rt, "r1")).idempotency_key == key
        await (await rt.start(agent, "go", session="other")).result()
        async with beside(rt.store, agent, owner="they") as they:
            await (await they.start(agent, "go", session="s", run_id="r1")).result()
    keys = lines(tmp_path / "keys")
    assert len(set(keys)) == 3
    assert all(re.fullmatch("ik_[0-9a-f]{24}", one) for one in keys)


async def test_attempts_and_answers_keep_it_and_a_fork_has_another(tmp_path):
    agent = payer(tmp_path, fails=1, retries=2, approval="ask")
    async with runtime(store_at("memory", tmp_path), agent) as rt:
        first = await (await rt.start(agent, "go", session="s", run_id="r1")).result()
        done = await (await rt.answer("r1", {first.interrupts[0].id: causeline.approve()}, new_run_id="r2")).result()
        assert done.answer == "done"
        key = key_of("default", "s", "r1", "call_0")
        assert lines(tmp_path / "keys") == [key, key]
        assert [(await row(rt, name)).idempotency_key for name in ("r1", "r2")] == [key, key]
        fork = await (await rt.start(agent, session="s", at=first.head, run_id="r3")).result()
        assert fork.status == "interrupted"
        assert (await row(rt, "r3")).idempotency_key == key_of("default", "s", "r3", "call_0")
        await (await rt.answer("r3", {fork.interrupts[0].id: causeline.approve()})).result()
        assert lines(tmp_path / "keys")[2:] == [key_of("default", "s", "r3", "call_0")]


def test_a_takeover_keeps_it(tmp_path):
    async def first():
        agent = payer(tmp_path, dies=True, on_unknown="retry")
        rt = await runtime(store_at("sqlite", tmp_path), agent).__aenter__()
        await (await rt.start(agent, "go", session="s", run_id="r1")).result()

    async def second():
        agent = payer(tmp_path, on_unknown="retry")
        async with runtime(store_at("sqlite", tmp_path), agent) as rt:
            return (await (await rt.resume("r1")).result()).answer

    assert ended(spawn(first)) == -9
    assert asyncio.run(second()) == "done"
    assert lines(tmp_path / "keys") == [key_of("default", "s", "r1", "call_0")] * 2

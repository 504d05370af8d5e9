"""A store and an export of the first format open, say what they said, and go on."""

import shutil
import socket
import sqlite3

import pytest

import causeline
from causeline import answer, approve, deny
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.adapters.stores.sql.sqlite_store import SqliteStore
from causeline.causal import verify_export
from causeline.errors import Conflict
from causeline.models.messages import Message
from causeline.runtime.records import Progress
from causeline.runtime.runtime import Runtime
from tests.golden.make_store import EXPORT, PICK, STORE, agent, graph
from tests.runtime.scenes import beside


@pytest.fixture
async def golden(tmp_path):
    shutil.copy(STORE, tmp_path / "store.db")
    programs = [agent("plain"), agent("gated"), agent("client"), graph()]
    async with Runtime(SqliteStore(tmp_path / "store.db"), programs=programs) as runtime:
        yield runtime


async def said(runtime, session, at=None):
    return [(one.role, one.text) for one in await runtime.messages(session, at)]


async def test_what_was_said_is_read_as_it_was(golden):
    assert sorted(one.id for one in await golden.sessions()) == ["client", "forked", "gated", "scatter"]
    reply = [("assistant", "let me see"), ("tool", "wrote 1"), ("tool", "wrote 2"), ("assistant", "all \u00e4\u0000 \U0001f600 done")]
    assert await said(golden, "forked", (await golden.run("f2")).head) == [("user", "one"), *reply, ("user", "two"), *reply]
    assert await said(golden, "forked") == [("user", "one"), *reply[:3], ("user", "another way"), *reply]
    assert [(one.id, one.status) for one in await golden.runs("forked")] == [("f1", "succeeded"), ("f2", "succeeded"), ("f3", "succeeded")]
    events = [event async for event in golden.events("f1")]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert (events[0]["type"], events[-1]["type"]) == ("run_started", "run_finished")
    assert (await golden.branch("forked")).channels["context"] == {"who": "Ada"}


async def test_its_export_is_the_export_of_that_time_to_the_byte(golden):
    assert await golden.export("forked", all=True) == EXPORT.read_bytes()


async def test_the_export_is_verified_taken_in_and_gone_on_from():
    data = EXPORT.read_bytes()
    bundle = verify_export(data)
    async with Runtime(InMemoryStore(), programs=[agent("plain")]) as runtime:
        assert await runtime.import_(data, head=bundle.head) == "forked"
        assert await runtime.export("forked", all=True) == data
        done = await (await runtime.start("plain", "and now?", session="forked")).result()
        assert done.answer.endswith("done")
        assert [text for role, text in await said(runtime, "forked") if role == "user"] == ["one", "another way", "and now?"]


async def test_a_session_goes_on_and_a_fork_of_it_too(golden):
    done = await (await golden.start("plain", "three", session="forked")).result()
    assert done.status == "succeeded"
    old = (await golden.run("f1")).head
    fork = await (await golden.start("plain", "from the beginning", session="forked", at=old)).result()
    assert [text for role, text in await said(golden, "forked") if role == "user"] == ["one", "from the beginning"]
    assert (fork.status, (await golden.run(fork.run_id)).base) == ("succeeded", old)


async def test_questions_that_were_open_are_answered_and_one_that_was_answered_is_not(golden):
    waiting = await golden.result("g2")
    open_ = {one.tool_call_id: one for one in waiting.interrupts}
    assert {name: one.kind for name, one in open_.items()} == {"g3": "question", "g4": "approval"}
    done = await (await golden.answer("g1", {open_["g3"].id: answer("the blue one"), open_["g4"].id: deny("enough")})).result()
    assert done.answer == "paid up"
    assert [text for role, text in await said(golden, "gated") if role == "tool"] == [
        "paid 1",
        "wrote 2",
        "the blue one",
        "This call was not approved: enough",
    ]
    assert (await golden.branch("gated")).channels["context"] == {"paid": 1}
    payloads = [one.payload for one in (await golden.branch("gated")).state.nodes if one.kind == "verification"]
    verified = [payload for payload in payloads if payload["method"] != "decision"]
    assert verified == [{"tool": "pay", "method": "receipt"}]
    with pytest.raises(Conflict):
        await golden.answer("g1", {open_["g3"].id: answer("the red one")})


async def test_client_calls_that_were_open_get_their_results(golden):
    run = await golden.run("k1")
    assert list(run.pending_tool_call_ids) == ["k1", "k3"]
    results = [Message("tool", f"picked {name}", tool_call_id=name) for name in ("k1", "k3")]
    done = await (await golden.start("client", results, session="client", tools=[PICK])).result()
    assert done.answer == "picked"
    assert [text for role, text in await said(golden, "client") if role == "tool"] == ["picked k1", "wrote 2", "picked k3"]


async def test_a_broken_off_scatter_goes_on_after_the_items_that_had_finished(golden):
    kept = await golden.store.rows(Progress, owner="default", run="s1")
    assert [(list(one.path), one.port) for one in kept] == [(["each", 0], "success"), (["each", 1], "success")]
    done = await (await golden.resume("s1")).result()
    assert done.status == "succeeded"
    assert (await golden.branch("scatter")).channels["all"] == ["did a", "did b", "did c", "did d"]


async def test_the_rows_of_another_owner_are_still_anothers(golden):
    async with beside(golden.store, owner="other") as other:
        assert [one.id for one in await other.sessions()] == ["forked"]
        assert [text for role, text in await said(other, "forked") if role == "user"] == ["not yours"]


async def test_a_session_can_be_deleted(golden):
    await golden.delete("forked")
    assert sorted(one.id for one in await golden.sessions()) == ["client", "gated", "scatter"]
    async with beside(golden.store, owner="other") as other:
        assert [one.id for one in await other.sessions()] == ["forked"]


async def test_opened_it_has_the_schema_of_a_new_store(golden, tmp_path):
    async with Runtime(SqliteStore(tmp_path / "new.db")):
        pass

    def schema(path):
        with sqlite3.connect(path) as connection:
            return sorted(row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))

    assert schema(tmp_path / "store.db") == schema(tmp_path / "new.db")


def test_the_files_tell_nothing_of_the_machine_they_were_made_on():
    for file in (STORE, EXPORT):
        data = file.read_bytes()
        for word in (socket.gethostname(), '"pid"', '"boot"', "/home/", "/root", "/work"):
            assert word.encode() not in data, f"{file.name}: {word}"


async def test_approvals_of_that_time_are_bound_to_their_arguments(golden):
    """The tool takes other arguments by now."""

    @causeline.tool(approval="ask")
    async def pay(amount: float) -> str:
        """Pays."""
        raise AssertionError("ran")

    waiting = await golden.result("g2")
    question = next(one for one in waiting.interrupts if one.tool_call_id == "g4")
    newer = causeline.Agent(agent("gated").model, name="gated", tools=[pay])
    with pytest.raises(causeline.Invalid):
        await golden.answer("g2", {question.id: approve()}, agent=newer)

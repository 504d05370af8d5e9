"""The next run of a session goes on from what the one before it left in this process, and finds what a reader would find."""

from typing import Any

import pytest

from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.runtime.branch_history import Branch
from causeline.runtime.warm_branches import WarmBranches
from causeline.testing.faults import FaultyStore
from tests.runtime.scenes import GRAPHS, Scene, asks, by_call, runtime, said, store_at


class Counting(FaultyStore):
    """Counts the branches that are read."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.reads = 0

    async def branch(self, owner: str, session: str, head: str | None) -> Any:
        self.reads += 1
        return await super().branch(owner, session, head)


SCRIPT = [asks(("write", {"n": 1}, "a"), ("write", {"n": 2}, "b")), {"text": "done"}]


@pytest.mark.parametrize("graph", GRAPHS)
async def test_what_is_kept_is_what_a_reader_finds(graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of five goes on from memory; what it goes on from equals the branch that is read from the store."""
    store = Counting(InMemoryStore())
    taken: list[tuple[Branch, Any]] = []
    take = WarmBranches.take

    def watched(self: WarmBranches, run: Any, program: Any, tip: str | None) -> Branch | None:
        branch = take(self, run, program, tip)
        if branch is not None:
            taken.append((branch, (branch.state.to_json(), list(branch.transcript.messages), branch.channels, branch.head, tip)))
        return branch

    monkeypatch.setattr(WarmBranches, "take", watched)
    async with runtime(store, Scene(SCRIPT, graph=graph).agent()) as rt:
        for n in range(5):
            assert (await (await rt.start("agent", f"go {n}", session="s", context={"n": n})).result()).answer == "done"
        assert (len(taken), store.reads) == (4, 0)
        for branch, (state, messages, channels, head, tip) in taken:
            read = await rt.branch("s", tip)
            assert read.state.to_json() == state
            assert read.messages() == messages
            assert read.head == head
            assert (read.document, read.asked_by()) == (branch.document, {})
            assert {name: value for name, value in read.channels.items() if name not in ("log", "result")} == {
                name: value for name, value in channels.items() if name not in ("log", "result")
            }


async def test_a_session_that_went_on_elsewhere_is_read_again(tmp_path: Any) -> None:
    agent = Scene([{"text": "hello"}]).agent()
    store = Counting(store_at("sqlite", tmp_path))
    async with runtime(store, agent) as rt, runtime(store_at("sqlite", tmp_path), agent) as other:
        await (await rt.start(agent, "one", session="s")).result()
        await (await other.start(agent, "two", session="s")).result()
        await (await rt.start(agent, "three", session="s")).result()
        assert store.reads == 1
        assert [text for role, text in await said(rt) if role == "user"] == ["one", "two", "three"]


async def test_a_fork_of_an_earlier_checkpoint_and_an_answer_go_on_from_what_is_stored() -> None:
    scene = Scene([asks(("pay", {"n": 1}, "a")), {"text": "done"}])
    async with runtime(InMemoryStore(), scene.agent()) as rt:
        first = await (await rt.start("agent", "go", session="s")).result()
        await (await rt.answer(first.run_id, {by_call(first)["a"].id: {"decision": "approve"}})).result()
        early = (await rt.checkpoints("s"))[0].id
        forked = await (await rt.start("agent", "other", session="s", at=early)).result()
        assert forked.status == "interrupted"
        assert [text for role, text in await said(rt) if role == "user"] == ["go", "other"]
        assert scene.done == ["a:pay 1"]


async def test_many_runs_that_wait_in_one_session_all_go_through_and_none_reads_the_history() -> None:
    store = Counting(InMemoryStore())
    async with runtime(store, Scene([{"text": "hello"}]).agent()) as rt:
        runs = [await rt.start("agent", f"{n}", session="s", on_busy="enqueue") for n in range(300)]
        assert {(await run.result()).status for run in runs} == {"succeeded"}
        assert store.reads == 0
        assert [text for role, text in await said(rt) if role == "user"] == [f"{n}" for n in range(300)]

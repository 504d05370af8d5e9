"""Laws of `Store.start`: one run at a time, known ids, answers."""

import asyncio
from typing import Any

import pytest

from causeline.errors import Conflict, Missing, Misuse
from causeline.runtime.records import Interrupt, Run, Session
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import (
    AT,
    LATER,
    OWNER,
    Backend,
    Writer,
    begin,
    everything,
    new_run,
    plain,
    queue,
    refused,
    run_row,
    session_row,
    take,
)  # fmt: skip


class StartLaws:
    """What becomes of a start."""

    async def test_a_start_stores_the_run_and_its_session(self, store: Store) -> None:
        given = new_run(
            input=[{"role": "user", "content": "hello"}],
            manifest={"model": "m"},
            answers={},
            tools=[{"name": "t"}],
            context={"k": [1, None]},
            parent_run="p",
            parent_call="c",
        )
        started = await store.start(given, "reject")
        assert not started.known
        run = started.run
        assert (run.status, run.holder, run.epoch, run.beat, run.base, run.head, run.started_at) == ("running", "h1", 1, 0, None, None, AT)
        assert plain(await run_row(store)) == plain(run)
        for name in (
            "input",
            "manifest",
            "answers",
            "tools",
            "context",
            "parent_run",
            "parent_call",
            "agent",
            "created_at",
            "session",
            "owner",
        ):
            assert plain(getattr(run, name)) == plain(getattr(given, name)), name
        assert await session_row(store) == Session(id="s1", owner=OWNER, head=None, created_at=AT, updated_at=AT)

    async def test_a_known_start_gives_the_stored_run_and_changes_nothing(self, store: Store) -> None:
        writer = await begin(store, context={"n": 1})
        await writer.go()
        await writer.end()
        before = await everything(store)
        again = await store.start(new_run(context={"n": 1.0}, created_at=LATER, holder="h9"), "reject")
        assert again.known
        assert (again.run.status, again.run.head) == ("succeeded", writer.head)
        assert await everything(store) == before

    @pytest.mark.parametrize(
        "other",
        [
            {"session": "s2"}, {"agent": "other"}, {"input": []}, {"input": [{"role": "user", "content": "Hello"}]},
            {"answers": {"int_1": {}}},
            {"tools": [{"name": "t"}]}, {"context": {"n": True}}, {"context": None}, {"at": "ck_" + "0" * 24},
        ],
    )  # fmt: skip
    async def test_a_known_id_with_another_body_is_a_conflict(self, store: Store, other: dict[str, Any]) -> None:
        await begin(store, context={"n": 1})
        before = await everything(store)
        given: dict[str, Any] = {"context": {"n": 1}} | other
        await refused("run_conflict", store.start(new_run(**given), "enqueue"))
        assert await everything(store) == before

    async def test_a_busy_session_rejects_and_keeps_nothing(self, store: Store) -> None:
        await begin(store)
        before = await everything(store)
        await refused("session_busy", store.start(new_run("r2"), "reject"))
        assert await everything(store) == before

    async def test_a_queued_run_makes_its_session_busy_and_an_ended_one_does_not(self, store: Store) -> None:
        waiting = await queue(store, "r1")
        await refused("session_busy", store.start(new_run("r2"), "reject"))
        await store.cancel(OWNER, waiting.id, LATER)
        assert (await store.start(new_run("r3"), "reject")).run.status == "running"

    async def test_a_busy_session_enqueues_without_a_lease(self, store: Store) -> None:
        await begin(store)
        run = (await store.start(new_run("r2", started_at=AT), "enqueue")).run
        assert (run.status, run.holder, run.epoch, run.base, run.started_at) == ("queued", None, 0, None, None)
        assert run.queue > (await run_row(store)).queue
        assert await run_row(store, "r2") == run

    async def test_a_start_may_ask_the_active_runs_to_stop(self, store: Store) -> None:
        await begin(store)
        await queue(store, "r2")
        third = await store.start(new_run("r3", created_at=LATER), "cancel")
        assert third.run.status == "queued"
        assert (await run_row(store)).cancel_requested
        assert (await run_row(store)).status == "running"
        second = await run_row(store, "r2")
        assert (second.status, second.stop_reason, second.finished_at) == ("cancelled", "cancelled", LATER)

    async def test_a_run_starts_at_the_head_or_where_it_asks_to(self, store: Store) -> None:
        writer = await begin(store)
        first = await writer.go()
        head = await writer.go(2)
        await writer.end()
        assert (await begin(store, "r2")).run.base == head
        await store.cancel(OWNER, "r2", LATER)
        await Writer(store, await run_row(store, "r2")).end("cancelled")
        third = (await begin(store, "r3", at=first)).run
        assert (third.at, third.base) == (first, first)

    async def test_a_start_at_a_checkpoint_of_nowhere_or_elsewhere_leaves_nothing(self, store: Store) -> None:
        writer = await begin(store)
        head = await writer.go()
        before = await everything(store)
        for session, at in (("s2", head), ("s2", "ck_" + "0" * 24), ("s2", "nonsense")):
            with pytest.raises(Missing):
                await store.start(new_run("r2", session=session, at=at), "enqueue")
        assert await everything(store) == before

    async def test_ids_are_an_owners_own(self, store: Store) -> None:
        await begin(store)
        other = await begin(store, owner="bob", agent="another")
        await other.go()
        assert (await run_row(store)).agent == "librarian"
        assert (await session_row(store)).head is None
        assert (await session_row(store, owner="bob")).head == other.head

    async def test_a_run_does_not_start_as_ended(self, store: Store) -> None:
        with pytest.raises(Misuse):
            await store.start(new_run(status="succeeded"), "reject")
        with pytest.raises(Misuse):
            await store.start(new_run(holder=None), "reject")
        assert await store.rows(Session, owner=None) == []

    async def test_of_many_starts_in_one_session_one_runs(self, backend: Backend, store: Store) -> None:
        other = backend.connect()
        await other.open()
        try:
            starts = [(store, other)[n % 2].start(new_run(f"r{n}"), "reject") for n in range(8)]
            ends = await asyncio.gather(*starts, return_exceptions=True)
        finally:
            if other is not store:
                await other.close()
        refusals = [end for end in ends if isinstance(end, BaseException)]
        assert [type(end) for end in refusals] == [Conflict] * 7
        assert len(await store.rows(Run, owner=OWNER)) == 1

    async def test_of_many_starts_with_one_id_one_is_new(self, backend: Backend, store: Store) -> None:
        other = backend.connect()
        await other.open()
        try:
            ends = await asyncio.gather(*[(store, other)[n % 2].start(new_run(), "reject") for n in range(8)])
        finally:
            if other is not store:
                await other.close()
        assert sorted(end.known for end in ends) == [False] + [True] * 7


class AnswerLaws:
    """Interrupts are answered once, with the start of the run that carries the answer, or not at all."""

    async def _interrupted(self, store: Store, *names: str) -> Writer:
        writer = await begin(store)
        await writer.ask(*names)
        await writer.end("interrupted", stop_reason="interrupted")
        return writer

    async def _states(self, store: Store) -> dict[str, str]:
        return {row.id: row.state for row in await store.rows(Interrupt, owner=OWNER)}

    async def test_an_answer_closes_its_interrupt_and_says_who_gave_it(self, store: Store) -> None:
        await self._interrupted(store, "int_1", "int_2")
        answer = {"decision": "deny", "reason": "no\x00"}
        await store.start(new_run("r2", input=[], answers={"int_1": answer}), "reject")
        first, second = await store.rows(Interrupt, owner=OWNER)
        assert (first.state, first.decision, first.answered_by) == ("answered", answer, "r2")
        assert (second.state, second.decision, second.answered_by) == ("open", None, None)
        assert (first.question, first.arguments, first.run) == ("May it?", {"q": "cats"}, "r1")

    async def test_a_second_answer_is_refused_and_starts_nothing(self, store: Store) -> None:
        await self._interrupted(store, "int_1", "int_2")
        writer = await begin(store, "r2", input=[], answers={"int_1": {"decision": "approve"}})
        await writer.end()
        before = await everything(store)
        await refused("interrupt_closed", store.start(new_run("r3", input=[], answers={"int_2": {}, "int_1": {}}), "enqueue"))
        assert await everything(store) == before

    async def test_a_second_answer_is_told_so_while_the_first_one_runs(self, store: Store) -> None:
        await self._interrupted(store, "int_1", "int_2")
        await begin(store, "r2", input=[], answers={"int_1": {"decision": "approve"}})
        before = await everything(store)
        await refused("interrupt_closed", store.start(new_run("r3", input=[], answers={"int_1": {}}), "reject"))
        await refused("session_busy", store.start(new_run("r3", input=[], answers={"int_2": {}}), "reject"))
        assert await everything(store) == before

    async def test_an_unknown_interrupt_starts_nothing(self, store: Store) -> None:
        await self._interrupted(store, "int_1")
        await begin(store, "other", session="s2")
        before = await everything(store)
        with pytest.raises(Missing):
            await store.start(new_run("r3", input=[], answers={"int_1": {}, "int_9": {}}), "enqueue")
        with pytest.raises(Missing):
            await store.start(new_run("r3", session="s2", input=[], answers={"int_1": {}}), "enqueue")
        assert await everything(store) == before

    async def test_of_many_answers_one_counts(self, store: Store) -> None:
        await self._interrupted(store, "int_1")
        starts = [store.start(new_run(f"a{n}", input=[], answers={"int_1": {"n": n}}), "enqueue") for n in range(6)]
        ends = await asyncio.gather(*starts, return_exceptions=True)
        accepted = [end for end in ends if not isinstance(end, BaseException)]
        assert len(accepted) == 1
        (row,) = await store.rows(Interrupt, owner=OWNER)
        assert row.answered_by == accepted[0].run.id
        assert len(await store.rows(Run, owner=OWNER)) == 2

    async def test_an_answer_waits_in_the_queue_of_a_busy_session(self, store: Store) -> None:
        writer = await begin(store)
        asked = await writer.ask("int_1")
        queued = await store.start(new_run("r2", input=[], answers={"int_1": {"decision": "approve"}}), "enqueue")
        assert queued.run.status == "queued"
        await writer.write(writer.commit(interrupts=asked))
        assert await self._states(store) == {"int_1": "answered"}

    async def test_a_user_message_supersedes_what_is_open_at_its_base_alone(self, store: Store) -> None:
        writer = await self._interrupted(store, "int_1", "int_2")
        fork = await begin(store, "r2", at=writer.head, answers={"int_1": {"decision": "approve"}})
        assert await self._states(store) == {"int_1": "answered", "int_2": "superseded"}
        await fork.end()
        await refused("interrupt_closed", store.start(new_run("r3", input=[], answers={"int_2": {}}), "reject"))

    async def test_a_user_message_elsewhere_leaves_interrupts_open(self, store: Store) -> None:
        writer = await begin(store)
        root = await writer.go()
        await writer.ask("int_1")
        await writer.end("interrupted")
        fork = await begin(store, "r2", at=root)
        assert await self._states(store) == {"int_1": "open"}
        fork.session_head = writer.head
        await fork.go()
        await fork.end()
        await (await begin(store, "r3", at=writer.head, input=[{"role": "tool", "content": "x"}])).end()
        assert await self._states(store) == {"int_1": "open"}

    async def test_a_question_is_superseded_in_every_session_of_its_owner_that_holds_it_open(self, store: Store) -> None:
        writer = await self._interrupted(store, "int_1", "int_2")
        for name, session, owner in (("b1", "below", OWNER), ("o1", "s1", "other")):
            further = await begin(store, name, session=session, owner=owner)
            await further.ask("int_1", "int_3")
            await further.end("interrupted")
        await (await begin(store, "r2", at=writer.head)).end()
        rows = [row for owner in (OWNER, "other") for row in await store.rows(Interrupt, owner=owner)]
        found = {(row.session, row.id): row.state for row in rows}
        assert found["below", "int_1"] == "superseded"
        assert found["below", "int_3"] == "open"
        others = await store.rows(Interrupt, owner="other")
        assert {row.state for row in others} == {"open"}

    async def test_an_enqueued_user_message_supersedes_when_it_begins(self, store: Store) -> None:
        writer = await begin(store)
        waiting = await queue(store, "r2")
        await writer.ask("int_1")
        await writer.end("interrupted")
        assert await self._states(store) == {"int_1": "open"}
        claimed = await take(store, waiting)
        assert claimed is not None
        assert claimed.base == writer.head
        assert await self._states(store) == {"int_1": "superseded"}

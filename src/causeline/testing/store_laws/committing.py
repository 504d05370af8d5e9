"""Laws of `Store.commit`: all or nothing, from the expected head, in order."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from causeline.errors import Conflict, Missing, Misuse
from causeline.run.ledger import CALL_STATES, MOVES, CallState
from causeline.runtime.records import CallRow, Commit, Interrupt, Progress, RunPatch
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import (
    AT,
    LATER,
    OWNER,
    Backend,
    Writer,
    begin,
    everything,
    new_call,
    new_interrupt,
    plain,
    refused,
    run_row,
    session_row,
    take,
)  # fmt: skip


def full(writer: Writer, place: int = 0) -> Commit:
    """A commit with something of everything."""
    commit = writer.next([f"a{place}", f"b{place}"], events=3, at=LATER)
    assert commit.checkpoint is not None
    return replace(
        commit,
        calls=[new_call(f"call_{place}_1"), new_call(f"call_{place}_2", "awaiting", client=True)],
        interrupts=[new_interrupt(commit.checkpoint.id, f"int_{place}")],
        progress=[Progress(run="r1", step=writer.step + 1, path=["scatter", 0], index=place, port="done", writes={"n": place})],
        patch=RunPatch(usage={"input_tokens": place}),
    )


def _unknown_parent(good: Commit) -> Commit:
    assert good.checkpoint is not None
    return replace(good, checkpoint=replace(good.checkpoint, parent="ck_" + "1" * 24))


REFUSED: dict[str, Callable[[Commit], Commit]] = {
    "lost_lease": lambda good: replace(good, epoch=2),
    "stale_head": lambda good: replace(good, expect_head=None),
    "event_gap": lambda good: replace(good, first_event=good.first_event + 1),
    "call_moved": lambda good: replace(good, calls=[*good.calls, new_call("done", "started")]),
    "run_ended": lambda good: replace(good, patch=RunPatch(status="running")),
    "not_found": _unknown_parent,
}


class CommitLaws:
    """One commit, one transaction."""

    async def test_all_of_a_commit_can_be_read(self, store: Store) -> None:
        writer = await begin(store)
        commit = await writer.write(full(writer))
        assert commit.checkpoint is not None
        (link,) = await store.branch(OWNER, "s1", commit.checkpoint.id)
        assert plain(link.checkpoint) == plain(commit.checkpoint)
        assert list(link.nodes) == list(commit.nodes)
        assert plain(await store.rows(CallRow, owner=OWNER)) == plain([CallRow(run="r1", call=call) for call in commit.calls])
        assert plain(await store.rows(Interrupt, owner=OWNER)) == plain(commit.interrupts)
        assert plain(await store.rows(Progress, owner=OWNER)) == plain(commit.progress)
        assert await store.events(OWNER, "r1", 0) == [{**event, "seq": place + 1} for place, event in enumerate(commit.events)]
        run = await run_row(store)
        assert (run.head, run.usage, run.status) == (commit.checkpoint.id, {"input_tokens": 0}, "running")
        session = await session_row(store)
        assert (session.head, session.created_at, session.updated_at) == (commit.checkpoint.id, AT, LATER)

    @pytest.mark.parametrize("reason", REFUSED)
    async def test_a_refused_commit_changes_nothing(self, store: Store, reason: str) -> None:
        writer = await begin(store)
        await writer.write(full(writer))
        await writer.write(writer.commit(calls=[new_call("done", "succeeded", ok=True, result=1)]))
        good = full(writer, 1)
        before = await everything(store)
        with pytest.raises(Missing if reason == "not_found" else Conflict) as refusal:
            await store.commit(REFUSED[reason](good))
        assert refusal.value.code == reason
        assert await everything(store) == before
        await writer.write(good)
        assert await everything(store) != before

    async def test_a_commit_of_no_run_or_another_owners_is_missing(self, store: Store) -> None:
        writer = await begin(store)
        await begin(store, "other", session="s2")
        before = await everything(store)
        good = full(writer)
        assert good.checkpoint is not None
        for run, owner, session in (("r9", OWNER, "s1"), ("r1", "bob", "s1"), ("r1", OWNER, "s2")):
            checkpoint = replace(good.checkpoint, run=run, session=session)
            with pytest.raises(Missing):
                await store.commit(replace(good, run=run, owner=owner, session=session, checkpoint=checkpoint))
        assert await everything(store) == before

    async def test_a_commit_that_contradicts_itself_is_misuse(self, store: Store) -> None:
        writer = await begin(store)
        good = full(writer)
        assert good.checkpoint is not None
        for bad in (
            replace(good, checkpoint=None), replace(good, nodes=good.nodes[:1]), replace(good, nodes=good.nodes[::-1]),
            replace(good, first_event=0), replace(good, checkpoint=replace(good.checkpoint, run="r2")),
        ):  # fmt: skip
            with pytest.raises(Misuse):
                await store.commit(bad)
        assert await store.events(OWNER, "r1", 0) == []

    async def test_one_refused_commit_does_not_fail_others(self, store: Store) -> None:
        writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(12)]
        commits = [writer.next(events=2) for writer in writers]
        commits[0] = replace(commits[0], epoch=7)
        commits[3] = replace(commits[3], expect_head="ck_" + "0" * 24)
        commits[6] = replace(commits[6], first_event=3)
        commits[9] = replace(commits[9], patch=RunPatch(status="running"))
        ends = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
        assert [isinstance(end, BaseException) for end in ends] == [n % 3 == 0 for n in range(12)]
        for n, writer in enumerate(writers):
            head = commits[n].checkpoint
            assert head is not None
            assert (await run_row(store, writer.run.id)).head == (None if n % 3 == 0 else head.id)
            assert len(await store.events(OWNER, writer.run.id, 0)) == (0 if n % 3 == 0 else 2)

    async def test_of_commits_from_one_head_one_lands(self, store: Store) -> None:
        writer = await begin(store)
        await writer.go()
        commits: list[Commit] = []
        for n in range(5):
            rival = Writer(store, writer.run, head=writer.head)
            rival.step = 1
            commits.append(rival.next([f"rival {n}"]))
        ends = await asyncio.gather(*[store.commit(commit) for commit in commits], return_exceptions=True)
        assert sorted(isinstance(end, BaseException) for end in ends) == [False] + [True] * 4
        landed = [commit.checkpoint for commit, end in zip(commits, ends, strict=True) if end is None]
        assert landed[0] is not None
        assert (await session_row(store)).head == landed[0].id

    async def test_the_session_head_is_compared_not_the_parent(self, store: Store) -> None:
        first = await begin(store)
        root = await first.go()
        head = await first.go()
        await first.end()
        fork = await begin(store, "r2", at=root)
        fork.session_head = head
        forked = await fork.go()
        assert (await session_row(store)).head == forked
        assert [link.checkpoint.id for link in await store.branch(OWNER, "s1", forked)] == [root, forked]

    async def test_a_patch_leaves_alone_what_it_does_not_name(self, store: Store) -> None:
        writer = await begin(store)
        await writer.write(writer.commit(patch=RunPatch(usage={"n": 1}, answer={"deep": [0]})))
        await writer.write(writer.commit(patch=RunPatch(error={"code": "x"})))
        await writer.end("failed", stop_reason="tool_error", pending_tool_call_ids=["c1", "c2"])
        run = await run_row(store)
        assert (run.usage, run.answer, run.error) == ({"n": 1}, {"deep": [0]}, {"code": "x"})
        assert (run.status, run.stop_reason, run.finished_at, list(run.pending_tool_call_ids)) == (
            "failed",
            "tool_error",
            LATER,
            ["c1", "c2"],
        )

    @pytest.mark.parametrize("answer", [0, False, "", [], {}, "text"])
    async def test_a_falsy_answer_is_an_answer(self, store: Store, answer: object) -> None:
        writer = await begin(store)
        await writer.end(answer=answer)
        stored = (await run_row(store)).answer
        assert stored == answer
        assert type(stored) is type(answer)


class LedgerLaws:
    """Calls, interrupts and progress within commits."""

    async def test_calls_move_by_the_table_alone(self, store: Store) -> None:
        writer = await begin(store)
        pairs: list[tuple[CallState, CallState]] = [(origin, target) for origin in CALL_STATES for target in CALL_STATES]
        await writer.write(writer.commit(calls=[new_call(f"{origin}-{target}", origin) for origin, target in pairs]))
        moves = [store.commit(writer.commit(calls=[new_call(f"{origin}-{target}", target, result="new")])) for origin, target in pairs]
        ends = await asyncio.gather(*moves, return_exceptions=True)
        for (origin, target), end in zip(pairs, ends, strict=True):
            allowed = target in MOVES[origin]
            assert (end is None) == allowed, f"{origin} to {target}: {end}"
            if not allowed:
                assert isinstance(end, Conflict)
        rows = {row.call.call_id: row.call for row in await store.rows(CallRow, owner=OWNER)}
        for origin, target in pairs:
            moved = target in MOVES[origin]
            call = rows[f"{origin}-{target}"]
            assert (call.state, call.result) == ((target, "new") if moved else (origin, None))

    async def test_a_call_is_started_once(self, store: Store) -> None:
        writer = await begin(store)
        await writer.write(writer.commit(calls=[new_call()]))
        starts = [store.commit(writer.commit(calls=[new_call(state="started", attempts=1)])) for _ in range(5)]
        ends = await asyncio.gather(*starts, return_exceptions=True)
        assert sorted(isinstance(end, Conflict) for end in ends) == [False] + [True] * 4

    async def test_calls_keep_their_place_and_belong_to_their_run(self, store: Store) -> None:
        writer = await begin(store)
        await writer.write(writer.commit(calls=[new_call("b"), new_call("a")]))
        await writer.write(writer.commit(calls=[new_call("a", "succeeded", ok=True, result={"x": 1}), new_call("c")]))
        await writer.end()
        fork = await begin(store, "r2")
        await fork.write(fork.commit(calls=[new_call("a", "awaiting")]))
        rows = await store.rows(CallRow, owner=OWNER)
        assert [(row.run, row.call.call_id, row.call.state) for row in rows] == [
            ("r1", "b", "pending"), ("r1", "a", "succeeded"), ("r1", "c", "pending"), ("r2", "a", "awaiting"),
        ]  # fmt: skip
        assert rows[1].call == new_call("a", "succeeded", ok=True, result={"x": 1})

    async def test_an_open_interrupt_moves_on_with_the_run_that_announces_it_again(self, store: Store) -> None:
        writer = await begin(store)
        await writer.ask("int_1", "int_2")
        await writer.end("interrupted")
        follower = await begin(store, "r2", input=[], answers={"int_1": {"decision": "approve"}})
        commit = follower.next()
        assert commit.checkpoint is not None
        again = [new_interrupt(commit.checkpoint.id, name, "r2", tool_call_id=f"call_{name}") for name in ("int_2", "int_3")]
        await follower.write(replace(commit, interrupts=again))
        rows = await store.rows(Interrupt, owner=OWNER)
        assert [(row.id, row.run, row.state, row.checkpoint) for row in rows] == [
            ("int_1", "r1", "answered", writer.head), ("int_2", "r2", "open", follower.head), ("int_3", "r2", "open", follower.head),
        ]  # fmt: skip

    async def test_a_closed_interrupt_stays_closed(self, store: Store) -> None:
        writer = await begin(store)
        (asked,) = await writer.ask("int_1")
        decision = {"decision": "deny", "reason": "late"}
        await writer.write(writer.commit(interrupts=[replace(asked, state="answered", decision=decision, answered_by="r1")]))
        for other in ("open", "superseded", "answered"):
            await writer.write(writer.commit(interrupts=[replace(asked, state=other, decision={"decision": other}, answered_by="r9")]))
            (row,) = await store.rows(Interrupt, owner=OWNER)
            assert (row.state, row.decision, row.answered_by) == ("answered", decision, "r1")

    async def test_progress_is_replaced_and_then_folded_into_its_step(self, store: Store) -> None:
        writer = await begin(store)
        piece = Progress(run="r1", step=0, path=["a", 1], index=0, port="done", writes={"n": 1})
        other = replace(piece, path=["a", "1"])
        ahead = replace(piece, step=1)
        await writer.write(writer.commit(progress=[piece, other, ahead]))
        await writer.write(writer.commit(progress=[replace(piece, writes={"n": 2})]))
        rows = await store.rows(Progress, owner=OWNER, run="r1")
        assert plain(rows) == plain([replace(piece, writes={"n": 2}), other, ahead])
        await writer.go()
        assert plain(await store.rows(Progress, owner=OWNER, run="r1")) == plain([ahead])

    async def test_a_takeover_goes_on_after_the_durable_events(self, store: Store) -> None:
        writer = await begin(store)
        await writer.write(writer.next(events=4))
        taken = await take(store, await run_row(store))
        assert taken is not None
        heir = Writer(store, taken, head=writer.head)
        await refused("event_gap", store.commit(heir.commit(events=[{"type": "x"}], first_event=1)))
        heir.next_event = 5
        await heir.write(heir.commit(events=[{"type": "x"}], first_event=5))
        assert [event["seq"] for event in await store.events(OWNER, "r1", 0)] == [1, 2, 3, 4, 5]


class EventLaws:
    """Events are read in order, without gaps."""

    async def test_events_are_read_from_any_number(self, store: Store) -> None:
        writer = await begin(store)
        for count in (1, 5, 2, 7):
            await writer.write(
                writer.commit(events=[{"type": "t", "n": writer.next_event + n} for n in range(count)], first_event=writer.next_event)
            )
        for after in range(-1, 17):
            events = await store.events(OWNER, "r1", after)
            assert [event["seq"] for event in events] == list(range(max(after, 0) + 1, 16))
            assert all(event["n"] == event["seq"] and event["type"] == "t" for event in events)
            for limit in (1, 3, 4):
                assert [event["seq"] for event in await store.events(OWNER, "r1", after, limit)] == [event["seq"] for event in events][
                    :limit
                ]

    async def test_events_of_no_run_are_missing(self, store: Store) -> None:
        writer = await begin(store, owner="bob")
        await writer.write(writer.next(events=1))
        with pytest.raises(Missing):
            await store.events(OWNER, "r1", 0)
        assert len(await store.events("bob", "r1", 0)) == 1
        assert (await begin(store, "fresh", session="s2")).run.id == "fresh"
        assert await store.events(OWNER, "fresh", 0) == []

    async def test_a_reader_never_sees_a_gap(self, backend: Backend, store: Store) -> None:
        reader = backend.connect()
        await reader.open()
        writer = await begin(store)
        total = 120

        async def write() -> None:
            while writer.next_event <= total:
                first = writer.next_event
                await writer.write(writer.commit(events=[{"type": "t"}] * (1 + first % 3), first_event=first))

        async def follow() -> list[int]:
            seen: list[int] = []
            token = 0
            while not seen or seen[-1] < total:
                token = await reader.changed(token, 5.0)
                while batch := await reader.events(OWNER, "r1", seen[-1] if seen else 0, 4):
                    seen.extend(event["seq"] for event in batch)
            return seen

        try:
            _, seen = await asyncio.wait_for(asyncio.gather(write(), follow()), 30)
        finally:
            if reader is not store:
                await reader.close()
        assert seen == list(range(1, writer.next_event))

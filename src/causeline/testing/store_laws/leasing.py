"""Laws of leases: who may take a run, who may write it, and how it is asked to stop."""

import asyncio

import pytest

from causeline.errors import Missing
from causeline.runtime.records import Run, RunPatch
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import (
    AT,
    LATER,
    OWNER,
    Backend,
    Writer,
    begin,
    everything,
    later,
    plain,
    queue,
    refused,
    run_row,
    take,
)  # fmt: skip


class LeaseLaws:
    """Claims, heartbeats and fencing."""

    async def test_a_queued_run_is_taken_with_the_head_of_that_moment(self, store: Store) -> None:
        first = await begin(store)
        waiting = await queue(store, "r2")
        head = await first.go(2)
        await first.end()
        taken = await take(store, waiting)
        assert taken is not None
        assert (taken.status, taken.holder, taken.epoch, taken.base, taken.started_at) == ("running", "h2", 1, head, LATER)
        assert plain(await run_row(store, "r2")) == plain(taken)
        await Writer(store, taken).go()

    async def test_a_queued_run_keeps_the_base_it_asked_for(self, store: Store) -> None:
        first = await begin(store)
        root = await first.go()
        await first.go()
        waiting = await queue(store, "r2", at=root)
        await first.end()
        taken = await take(store, waiting)
        assert taken is not None
        assert taken.base == root

    async def test_the_queue_keeps_its_order_and_waits_for_the_running_run(self, store: Store) -> None:
        first = await begin(store)
        second, third = await queue(store, "r2"), await queue(store, "r3")
        assert await take(store, second) is None
        await first.end()
        assert await take(store, third) is None
        taken = await take(store, second)
        assert taken is not None
        assert await take(store, third) is None
        await Writer(store, taken).end()
        assert await take(store, third) is not None

    async def test_sessions_do_not_wait_for_each_other(self, store: Store) -> None:
        await begin(store)
        other = await queue(store, "r2", session="s2")
        assert await take(store, other) is not None

    async def test_a_claim_by_an_old_lease_gets_nothing(self, store: Store) -> None:
        run = (await begin(store)).run
        (renewed,) = await store.renew("h1")
        assert renewed.beat == run.beat + 1
        assert await take(store, run) is None
        assert await take(store, later(renewed, epoch=0)) is None
        assert await take(store, renewed) is not None
        assert await take(store, renewed) is None

    async def test_nothing_is_claimed_that_ended_or_is_not_there(self, store: Store) -> None:
        writer = await begin(store)
        await writer.end()
        assert await take(store, await run_row(store)) is None
        assert await store.claim(OWNER, "nobody", "h2", epoch=0, beat=0, at=AT) is None
        waiting = await queue(store, "r2")
        assert await store.claim("bob", "r2", "h2", epoch=0, beat=0, at=AT) is None
        await store.cancel(OWNER, "r2", LATER)
        assert await take(store, waiting) is None

    async def test_a_takeover_fences_the_holder_before(self, store: Store) -> None:
        writer = await begin(store)
        head = await writer.go()
        taken = await take(store, await run_row(store))
        assert taken is not None
        assert (taken.epoch, taken.holder, taken.head, taken.base, taken.started_at) == (2, "h2", head, None, AT)
        before = await everything(store)
        await refused("lost_lease", store.commit(writer.next(events=2)))
        await refused("lost_lease", store.commit(writer.commit(events=[{"type": "x"}], first_event=1)))
        await refused("lost_lease", store.commit(writer.commit(patch=RunPatch(status="failed"))))
        assert await everything(store) == before
        await Writer(store, taken, head=head).go()

    async def test_of_many_claimants_one_wins(self, backend: Backend, store: Store) -> None:
        others = [backend.connect() for _ in range(3)]
        for other in others:
            await other.open()
        try:
            for name in ("r1", "r2", "r3"):
                run = await queue(store, name, session=name)
                claims = [take([store, *others][n % 4], run, f"h{n}") for n in range(8)]
                winners = [taken for taken in await asyncio.gather(*claims) if taken is not None]
                assert len(winners) == 1
                assert await run_row(store, name) == winners[0]
        finally:
            for other in others:
                if other is not store:
                    await other.close()

    async def test_two_queued_runs_of_a_session_never_run_at_once(self, backend: Backend, store: Store) -> None:
        other = backend.connect()
        await other.open()
        try:
            runs = [await queue(store, f"r{n}") for n in range(4)]
            await asyncio.gather(*[take((store, other)[n % 2], run, f"h{n}") for n, run in enumerate(runs)])
        finally:
            if other is not store:
                await other.close()
        assert [run.id for run in await store.rows(Run, owner=OWNER, status=("running",))] == ["r0"]

    async def test_a_heartbeat_counts_for_the_holders_running_runs_alone(self, store: Store) -> None:
        await begin(store, holder="h1")
        await begin(store, "r2", session="s2", holder="h2")
        ended = await begin(store, "r3", session="s3", holder="h1")
        await ended.end()
        await begin(store, "r4", session="s4", owner="bob", holder="h1")
        await store.cancel(OWNER, "r1", LATER)
        runs = await store.renew("h1")
        assert {(run.owner, run.id): (run.beat, run.cancel_requested) for run in runs} == {
            (OWNER, "r1"): (1, True),
            ("bob", "r4"): (1, False),
        }
        assert [(run.id, run.beat) for run in await store.rows(Run, owner=OWNER)] == [("r1", 1), ("r2", 0), ("r3", 0)]
        assert await store.renew("nobody") == []

    async def test_an_ended_run_has_no_holder_and_takes_no_write(self, store: Store) -> None:
        writer = await begin(store)
        await writer.go()
        await writer.end("interrupted")
        run = await run_row(store)
        assert (run.holder, run.status) == (None, "interrupted")
        before = await everything(store)
        await refused("lost_lease", store.commit(writer.next()))
        assert await everything(store) == before

    async def test_a_parked_run_goes_on_before_those_that_came_later(self, store: Store) -> None:
        writer = await begin(store)
        head = await writer.go()
        after = await queue(store, "r2")
        await writer.write(writer.commit(patch=RunPatch(status="queued")))
        parked = await run_row(store)
        assert (parked.status, parked.holder, parked.head) == ("queued", None, head)
        await refused("lost_lease", store.commit(writer.next()))
        assert await take(store, after) is None
        taken = await take(store, parked)
        assert taken is not None
        assert (taken.epoch, taken.base, taken.head, taken.started_at) == (2, None, head, AT)


class CancelLaws:
    """Asking a run to stop."""

    async def test_a_queued_run_is_cancelled_at_once(self, store: Store) -> None:
        await begin(store)
        await queue(store, "r2")
        run = await store.cancel(OWNER, "r2", LATER)
        assert (run.status, run.stop_reason, run.finished_at, run.cancel_requested) == ("cancelled", "cancelled", LATER, False)
        assert plain(await run_row(store, "r2")) == plain(run)

    async def test_a_running_run_is_asked(self, store: Store) -> None:
        writer = await begin(store)
        run = await store.cancel(OWNER, "r1", LATER)
        assert (run.status, run.cancel_requested, run.holder) == ("running", True, "h1")
        await writer.go()
        assert (await run_row(store)).cancel_requested

    async def test_an_ended_run_is_left_alone(self, store: Store) -> None:
        writer = await begin(store)
        await writer.end()
        before = await everything(store)
        assert (await store.cancel(OWNER, "r1", LATER)).status == "succeeded"
        assert await everything(store) == before

    async def test_nobody_cancels_what_is_not_there(self, store: Store) -> None:
        await begin(store, owner="bob")
        with pytest.raises(Missing):
            await store.cancel(OWNER, "r1", LATER)
        assert not (await run_row(store, owner="bob")).cancel_requested

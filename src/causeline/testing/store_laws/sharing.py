"""Laws of time and place: what survives a restart or a kill, and what other processes see."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from causeline.runtime.records import CallRow, Interrupt, Progress, Run
from causeline.runtime.store import Store
from causeline.testing.store_laws.committing import full
from causeline.testing.store_laws.sample import OWNER, Backend, begin, everything, new_call, queue, session_row


class Child:
    """Another process on the same data; see `child`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def told(self) -> dict[str, Any]:
        """Its next line."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), 30)
        assert line, "the other process ended early; its own output says why"
        return json.loads(line)

    async def go(self) -> None:
        """Let it do its deed."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        await self.process.stdin.drain()


@asynccontextmanager
async def children(backend: Backend, *deeds: str) -> AsyncGenerator[list[Child]]:
    """Processes that stand ready for their deeds. Killed at the end, if they still run."""
    if backend.process is None:
        pytest.skip("no other process can reach this backend")
    started: list[Child] = []
    try:
        for deed in deeds:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "causeline.testing.store_laws.child", *backend.process, deed,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )  # fmt: skip
            started.append(Child(process))
        for child in started:
            assert await child.told() == {"ready": True}
        yield started
    finally:
        for child in started:
            if child.process.returncode is None:
                child.process.kill()
            await child.process.wait()
            # The pipes close with the transport, which otherwise waits for the collector.
            getattr(child.process, "_transport").close()  # noqa: B009 - asyncio has no public name for it


class ChangedLaws:
    """Waiting for commits."""

    async def test_the_first_wait_returns_at_once_and_the_next_one_waits(self, store: Store) -> None:
        token = await asyncio.wait_for(store.changed(0, 30.0), 5)
        assert await store.changed(token, 0.15) == token
        assert await store.changed(token, 0.0) == token

    async def test_every_kind_of_write_wakes_who_waits(self, backend: Backend, store: Store) -> None:
        other = backend.connect()
        await other.open()
        try:
            for name, watcher in (("own", store), ("others", other))[: 1 if other is store else 2]:
                token = await watcher.changed(0, 0)
                for write in (
                    lambda name=name: begin(store, name, session=name),
                    lambda name=name: queue(store, f"{name}-2", session=name),
                    lambda name=name: store.cancel(OWNER, name, "2026-11-30T12:00:00.000Z"),
                ):
                    waiting = asyncio.create_task(watcher.changed(token, 20.0))
                    await asyncio.sleep(0.02)
                    assert not waiting.done()
                    await write()
                    after = await asyncio.wait_for(waiting, 10)
                    assert after != token
                    token = await watcher.changed(after, 0.15)
        finally:
            if other is not store:
                await other.close()

    async def test_a_change_before_the_wait_is_not_missed(self, store: Store) -> None:
        writer = await begin(store)
        token = await store.changed(0, 0)
        await writer.go()
        assert await asyncio.wait_for(store.changed(token, 30.0), 5) != token

    async def test_another_process_wakes_who_waits(self, backend: Backend, store: Store) -> None:
        await begin(store)
        async with children(backend, "step") as (child,):
            token = await store.changed(await store.changed(0, 0), 0.3)
            waiting = asyncio.create_task(store.changed(token, 20.0))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            await child.go()
            assert await asyncio.wait_for(waiting, 10) != token
            head = (await child.told())["head"]
        assert (await session_row(store)).head == head


class DurableLaws:
    """A call that returned is durable."""

    async def test_a_restart_keeps_all(self, backend: Backend, store: Store) -> None:
        if not backend.durable:
            pytest.skip("this backend keeps nothing beyond its object")
        writer = await begin(store)
        await writer.write(full(writer))
        await writer.write(full(writer, 1))
        await writer.end()
        await queue(store, "r2")
        await begin(store, owner="bob")
        before = await everything(store)
        assert all(before[kind.__name__] for kind in (Run, CallRow, Interrupt, Progress))
        await store.close()
        await store.close()
        again = backend.connect()
        await again.open()
        try:
            assert await everything(again) == before
        finally:
            await again.close()

    async def test_closing_writes_what_was_queued(self, backend: Backend, store: Store) -> None:
        if not backend.durable:
            pytest.skip("this backend keeps nothing beyond its object")
        writers = [await begin(store, f"r{n}", session=f"s{n}") for n in range(20)]
        commits = [asyncio.create_task(writer.go()) for writer in writers]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await store.close()
        ends = await asyncio.gather(*commits, return_exceptions=True)
        again = backend.connect()
        await again.open()
        try:
            stored = {run.id: run.head for run in await again.rows(Run, owner=OWNER)}
        finally:
            await again.close()
        for writer, end in zip(writers, ends, strict=True):
            assert isinstance(end, BaseException) or stored[writer.run.id] == end

    async def test_a_kill_loses_nothing_that_was_acknowledged(self, backend: Backend, store: Store) -> None:
        async with children(backend, "write") as (child,):
            await child.go()
            told = [await child.told() for _ in range(40)]
            child.process.kill()
            await child.process.wait()
        session = await session_row(store, "endless")
        links = await store.branch(OWNER, "endless", session.head)
        events: list[Any] = []
        while batch := await store.events(OWNER, "endless", len(events)):
            events.extend(batch)
        heads = [link.checkpoint.id for link in links]
        assert heads[:40] == [line["head"] for line in told]
        assert len(events) == 3 * len(links)
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        (run,) = await store.rows(Run, owner=OWNER, id="endless")
        assert (run.head, run.status) == (heads[-1], "running")

    async def test_of_claiming_processes_one_wins_each_run(self, backend: Backend, store: Store) -> None:
        for n in range(12):
            await queue(store, f"r{n}", session=f"s{n}")
        async with children(backend, "claim-1", "claim-2", "claim-3") as claimants:
            await asyncio.gather(*[child.go() for child in claimants])
            told = await asyncio.gather(*[self._rest(child) for child in claimants])
        winners: dict[str, int] = {}
        for line in (line for lines in told for line in lines if line["won"]):
            winners[line["run"]] = winners.get(line["run"], 0) + 1
        assert winners == {f"r{n}": 1 for n in range(12)}
        assert {run.epoch for run in await store.rows(Run, owner=OWNER)} == {1}

    async def test_processes_that_write_at_once_do_not_fail_each_other(self, backend: Backend, store: Store) -> None:
        async with children(backend, "share-1", "share-2") as writers:
            await asyncio.gather(*[child.go() for child in writers])
            assert [await child.told() for child in writers] == [{"done": "1"}, {"done": "2"}]
        runs = await store.rows(Run, owner=OWNER)
        assert sorted((run.id, run.status) for run in runs) == sorted((f"{me}-{n}", "succeeded") for me in (1, 2) for n in range(4))
        for run in runs:
            assert len(await store.branch(OWNER, run.session, run.head)) == 15
            assert len(await store.events(OWNER, run.id, 0)) == 30

    async def _rest(self, child: Child) -> list[Any]:
        assert child.process.stdout is not None
        return [json.loads(line) async for line in child.process.stdout]


class UnchangedLaws:
    """What was handed in does not change under the store, and what it hands out is no handle on it."""

    async def test_a_commit_is_what_it_was_when_it_was_given(self, backend: Backend, store: Store) -> None:
        if not backend.durable:
            pytest.skip("this backend hands back the records it was given")
        writer = await begin(store)
        arguments = {"q": ["cats"]}
        given = replace(writer.next(), calls=[new_call(arguments=arguments)])
        await store.commit(given)
        arguments["q"].append("dogs")
        (row,) = await store.rows(CallRow, owner=OWNER)
        assert row.call.arguments == {"q": ["cats"]}
        row.call.arguments["q"] = None
        assert (await store.rows(CallRow, owner=OWNER))[0].call.arguments == {"q": ["cats"]}

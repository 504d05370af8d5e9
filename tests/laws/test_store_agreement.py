"""Whatever is done to them, the stores agree: each answers as the memory store does, and holds the same rows."""

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from causeline.adapters.stores import open_store
from causeline.causal import AgentState
from causeline.errors import CauselineError
from causeline.run.ledger import CALL_STATES
from causeline.runtime.records import Checkpoint, Commit, Interrupt, Progress, Run, RunPatch, Session
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import AT, OWNER, everything, new_call, new_interrupt, new_run, plain
from tests.adapters.postgres_server import fresh_schema

SMALL = st.integers(0, 3)
NAMES = st.sampled_from(["r0", "r1", "r2", "r3"])
SESSIONS = st.sampled_from(["s0", "s1"])
START = st.fixed_dictionaries({
    "do": st.just("start"), "run": NAMES, "session": SESSIONS, "busy": st.sampled_from(["reject", "enqueue", "cancel"]),
    "queued": st.booleans(), "at": st.none() | SMALL, "answers": st.lists(SMALL, max_size=2, unique=True), "speaks": st.booleans(),
})  # fmt: skip
CLAIM = st.fixed_dictionaries({"do": st.just("claim"), "run": NAMES, "stale": st.sampled_from([False, False, True])})
COMMIT = st.fixed_dictionaries({
    "do": st.just("commit"), "run": NAMES, "stale": st.sampled_from(["", "", "", "epoch", "head", "events", "parent"]),
    "texts": st.none() | st.lists(SMALL, max_size=3, unique=True), "parent": st.none() | SMALL, "events": SMALL,
    "calls": st.lists(st.tuples(SMALL, st.sampled_from(CALL_STATES)), max_size=3, unique_by=lambda call: call[0]),
    "interrupts": st.lists(st.tuples(SMALL, st.sampled_from(["open", "open", "superseded"])), max_size=2, unique_by=lambda one: one[0]),
    "progress": st.lists(st.tuples(SMALL, SMALL), max_size=2, unique=True),
    "status": st.sampled_from([None, None, None, "succeeded", "interrupted", "queued", "running"]),
})  # fmt: skip
OTHER = st.fixed_dictionaries({"do": st.sampled_from(["cancel", "renew", "delete", "reload", "put"]), "run": NAMES, "session": SESSIONS})


def unnumbered(value: Any) -> Any:
    """Without the numbers of the queue: PostgreSQL's have gaps where a start was refused. Their order is that of the rows."""
    if isinstance(value, dict):
        return {key: 0 if key == "queue" else unnumbered(part) for key, part in value.items()}
    return [unnumbered(part) for part in value] if isinstance(value, list) else value


class Player:
    """Does one thing to several stores, in the light of what the first one holds, and compares."""

    def __init__(self, stores: list[Store]) -> None:
        self.stores = stores
        self.count = 0

    async def play(self, step: dict[str, Any]) -> None:
        call = await getattr(self, step["do"])(step)
        answers = [await self._answer(call, store) for store in self.stores]
        assert answers[1:] == answers[:1] * (len(answers) - 1), step
        states = [unnumbered(await everything(store)) for store in self.stores]
        assert states[1:] == states[:1] * (len(states) - 1), step

    @staticmethod
    async def _answer(call, store: Store) -> Any:
        try:
            return unnumbered(plain(await call(store)))
        except CauselineError as error:
            return type(error).__name__, error.code, str(error)

    async def start(self, step: dict[str, Any]):
        run = new_run(
            step["run"], session=step["session"], status="queued" if step["queued"] else "running", holder=None if step["queued"] else "h1",
            at=await self._checkpoint(step["session"], step["at"]), answers={f"int_{one}": {"n": one} for one in step["answers"]},
            input=[{"role": "user" if step["speaks"] else "tool", "content": "x"}],
        )  # fmt: skip
        return lambda store: store.start(run, step["busy"])

    async def claim(self, step: dict[str, Any]):
        run = await self._run(step["run"])
        epoch, beat = (run.epoch, run.beat) if run else (0, 0)
        return lambda store: store.claim(
            OWNER, step["run"], "h2", epoch=epoch - step["stale"], beat=beat, at=f"2026-11-30T1{step['stale']:d}:00:00.000Z"
        )

    async def cancel(self, step: dict[str, Any]):
        return lambda store: store.cancel(OWNER, step["run"], AT)

    async def renew(self, step: dict[str, Any]):
        return lambda store: store.renew("h1")

    async def delete(self, step: dict[str, Any]):
        return lambda store: store.delete(OWNER, step["session"])

    async def put(self, step: dict[str, Any]):
        self.count += 1
        given = {"metadata" if self.count % 2 else "context": {"n": self.count}}
        return lambda store: store.put_session(OWNER, step["session"], AT, **given)

    async def reload(self, step: dict[str, Any]):
        """Read a session, and load it where it was."""
        store, name = self.stores[0], step["session"]
        sessions = await store.rows(Session, owner=OWNER, id=name)
        runs = await store.rows(Run, owner=OWNER, session=name)
        rows = await store.rows(Checkpoint, owner=OWNER, session=name)
        links = [(await store.branch(OWNER, name, row.id))[-1] for row in rows]

        async def again(store: Store) -> None:
            await store.delete(OWNER, name)
            await store.load(sessions[0], runs, links, [])

        return again

    async def commit(self, step: dict[str, Any]):
        run = await self._run(step["run"]) or new_run(step["run"], session="s0", epoch=1)
        sessions = await self.stores[0].rows(Session, owner=OWNER, id=run.session)
        last = len(await self.stores[0].events(OWNER, run.id, 0)) if sessions and await self._run(run.id) else 0
        head = sessions[0].head if sessions else None
        checkpoint, nodes = await self._step(step, run)
        asked = [self._interrupt(number, state, run, head) for number, state in step["interrupts"]]
        commit = Commit(
            run=run.id, session=run.session, owner=OWNER, epoch=run.epoch + (step["stale"] == "epoch"), at=AT,
            expect_head="ck_" + "f" * 24 if step["stale"] == "head" else head, checkpoint=checkpoint, nodes=nodes,
            calls=[new_call(f"c{number}", state, attempts=self.count) for number, state in step["calls"]], interrupts=asked,
            progress=[
                Progress(run=run.id, step=at, path=["p"], index=index, port="x", writes=self.count) for at, index in step["progress"]
            ],
            first_event=last + 1 + (step["stale"] == "events"), events=[{"type": "t", "n": self.count}] * step["events"],
            took_context=sessions[0].next_context if sessions else None,
            patch=None if step["status"] is None else RunPatch(status=step["status"], usage={"n": self.count}),
        )  # fmt: skip
        return lambda store: store.commit(commit)

    async def _step(self, step: dict[str, Any], run: Run):
        self.count += 1
        if step["texts"] is None:
            return None, []
        state = AgentState()
        at = f"2026-11-30T10:00:00.{self.count:03}Z"
        nodes = [state.append("goal", f"text {text}", (), created_at=at) for text in step["texts"]]
        parent = "ck_" + "e" * 24 if step["stale"] == "parent" else await self._checkpoint(run.session, step["parent"])
        row = Checkpoint(
            id=f"ck_{self.count:024x}", session=run.session, run=run.id, step=self.count % 4, parent=parent, path=[], node="n", port="p",
            next=None, appended=[node.id for node in nodes], frontier=sorted(node.id for node in nodes), delta={}, position=self.count,
            created_at=AT,
        )  # fmt: skip
        return row, nodes

    @staticmethod
    def _interrupt(number: int, state: str, run: Run, head: str | None) -> Interrupt:
        return replace(new_interrupt(head or "ck_" + "a" * 24, f"int_{number}", run.id, run.session), state=state)

    async def _run(self, name: str) -> Run | None:
        rows = await self.stores[0].rows(Run, owner=OWNER, id=name)
        return rows[0] if rows else None

    async def _checkpoint(self, session: str, number: int | None) -> str | None:
        """One of the session's checkpoints, or one that is not there."""
        if number is None:
            return None
        rows = await self.stores[0].rows(Checkpoint, owner=OWNER, session=session)
        return rows[-1 - number].id if number < len(rows) else "ck_" + "d" * 24


async def _play(steps: list[dict[str, Any]], urls: list[str]) -> None:
    stores = [open_store(url) for url in urls]
    for store in stores:
        await store.open()
    try:
        player = Player(stores)
        for step in steps:
            await player.play(step)
    finally:
        for store in stores:
            await store.close()


STEPS = st.lists(st.one_of(START, CLAIM, COMMIT, COMMIT, COMMIT, OTHER), min_size=5, max_size=25)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_sqlite_answers_as_memory_does(steps):
    with TemporaryDirectory() as folder:
        asyncio.run(_play(steps, ["memory://", f"sqlite:///{Path(folder)}/store.db"]))


@settings(max_examples=10, deadline=None)
@given(steps=STEPS)
def test_postgres_answers_as_memory_does(postgres_url, steps):
    with fresh_schema(postgres_url) as url:
        asyncio.run(_play(steps, ["memory://", url]))

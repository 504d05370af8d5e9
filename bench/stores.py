"""What a durable round costs: `python -m bench.stores [--store URL] [--rounds N]`.

A round is what a ReAct agent writes for one model call and one tool call: two commits with a checkpoint each,
three nodes of about 100 bytes, a ledger row in two states, and twelve events in two packed rows. It is
measured beside a bare commit of one row on the same disk, in the same run, because disks differ and change.
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.bare import bare_sqlite
from causeline.adapters.stores import open_store
from causeline.adapters.stores.sql import encoding, log_writes, schema_version, writes
from causeline.adapters.stores.sql.sqlite_threads import converse
from causeline.adapters.stores.sql.tips import Tips
from causeline.causal import AgentState, CausalNode, checkpoint_id
from causeline.run.ledger import Call
from causeline.runtime.records import Checkpoint, Commit, Run
from causeline.runtime.store import Store

AT = "2026-11-30T10:00:00.000Z"
OWNER = "default"


class Rounds:
    """The commits of one run, made ahead of time so that only the store is measured."""

    def __init__(self, session: str) -> None:
        self.session, self.run = session, f"run_{session}"
        self.state, self.head, self.step, self.next_event = AgentState(), None, 0, 1

    def round(self, number: int) -> Iterator[Commit]:
        """Two commits."""
        call = f"call_{number:024x}"
        asked = {"text": "", "calls": [{"id": call, "name": "lookup", "arguments": {"query": f"cats {number}"}}], "finish": "tool_calls"}
        reply = [
            self.state.append("inference", asked, created_at=AT),
            self.state.append("tool_call", {"call_id": call, "name": "lookup", "args": {"query": f"cats {number}"}}, created_at=AT),
        ]
        yield self._commit("call_model", reply, self._call(call, "started"), [
            {"type": "step_started", "node": "call_model", "step": self.step},
            *({"type": kind, "message_id": f"msg_{number:024x}", **more} for kind, more in (
                ("text_message_start", {}), ("text_message_content", {"delta": "I will look that up."}), ("text_message_end", {}),
            )),
            {"type": "tool_call_delta", "message_id": f"msg_{number:024x}", "index": 0, "delta": '{"query": "cats"}'},
            {"type": "step_finished", "node": "call_model", "step": self.step},
        ])  # fmt: skip
        text = f"Result {number}: a cat is a small animal that sleeps for most of the day."
        result = [self.state.append("tool_result", {"call_id": call, "tool": "lookup", "result": text, "ok": True}, created_at=AT)]
        yield self._commit("call_tools", result, self._call(call, "succeeded", text), [
            {"type": "step_started", "node": "call_tools", "step": self.step},
            {"type": "tool_call_start", "tool_call_id": call, "name": "lookup", "client": False},
            {"type": "tool_call_args", "tool_call_id": call, "delta": '{"query": "cats"}'},
            {"type": "tool_call_end", "tool_call_id": call},
            {"type": "tool_call_result", "tool_call_id": call, "content": text, "ok": True},
            {"type": "step_finished", "node": "call_tools", "step": self.step},
        ])  # fmt: skip

    def _call(self, name: str, state: str, result: str | None = None) -> Call:
        return Call(
            call_id=name, name="lookup", arguments={"query": "cats"}, args_hash="5" * 64, state=state, index=0, step=self.step,  # type: ignore[arg-type]
            ok=None if result is None else True, result=result, attempts=1,
        )  # fmt: skip

    def _commit(self, node: str, nodes: list[CausalNode], call: Call, events: list[dict]) -> Commit:
        hashed = {
            "parent": self.head, "run": self.run, "path": [], "node": node, "port": "tools", "next": "call_tools",
            "appended": [one.id for one in nodes], "frontier": sorted(self.state.frontier), "delta": {},
            "position": {"at": [node], "visits": {"call_model": self.step, "call_tools": self.step}},
        }  # fmt: skip
        facts = {
            "usage": {"input_tokens": 812, "output_tokens": 31, "cached_tokens": 0, "reasoning_tokens": 0, "cost": 0.00021},
            "ms": 812.5,
        }
        checkpoint = Checkpoint(id=checkpoint_id(**hashed), session=self.session, step=self.step, created_at=AT, facts=facts, **hashed)
        commit = Commit(
            run=self.run, session=self.session, owner=OWNER, epoch=1, at=AT, expect_head=self.head, checkpoint=checkpoint, nodes=nodes,
            calls=[call], first_event=self.next_event, events=[{**event, "ts": AT} for event in events],
        )  # fmt: skip
        self.head, self.step, self.next_event = checkpoint.id, self.step + 1, self.next_event + len(events)
        return commit


async def begin(store: Store, session: str) -> Rounds:
    rounds = Rounds(session)
    await store.start(
        Run(id=rounds.run, session=session, owner=OWNER, status="running", agent="a", created_at=AT, holder="h", manifest={"model": "m"}),
        "reject",
    )
    return rounds


async def one_session(store: Store, count: int) -> tuple[list[float], Rounds]:
    """Seconds of each commit."""
    rounds = await begin(store, f"one-{count}")
    commits = [commit for number in range(count) for commit in rounds.round(number)]
    spent: list[float] = []
    for commit in commits:
        started = time.perf_counter()
        await store.commit(commit)
        spent.append(time.perf_counter() - started)
    return spent, rounds


async def many_sessions(store: Store, name: str, sessions: int, count: int) -> float:
    """Rounds a second of all sessions together."""
    all_rounds = [await begin(store, f"{name}-{number}") for number in range(sessions)]
    prepared = [[commit for number in range(count) for commit in rounds.round(number)] for rounds in all_rounds]

    async def write(commits: list[Commit]) -> None:
        for commit in commits:
            await store.commit(commit)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for commits in prepared:
            group.create_task(write(commits))
    return sessions * count / (time.perf_counter() - started)


def same_statements(path: Path, count: int) -> list[float]:
    """Seconds of each commit of a step on a bare connection, in this thread: what handing it to the writer's thread is compared with."""
    connection = sqlite3.connect(path, isolation_level=None)
    schema_version.prepare(connection, str(path), 1.0)
    rounds, tips = Rounds("bare"), Tips(0)
    run = Run(id=rounds.run, session="bare", owner=OWNER, status="running", agent="a", created_at=AT, holder="h")
    converse(connection, writes.start(run, encoding.run_body(run), "reject"))
    spent: list[float] = []
    for commit in [commit for number in range(count) for commit in rounds.round(number)]:
        started = time.perf_counter()
        writing = log_writes.writing(commit)
        connection.execute("BEGIN IMMEDIATE")
        converse(connection, log_writes.write(writing, tips))
        connection.execute("COMMIT")
        spent.append(time.perf_counter() - started)
    connection.close()
    return spent


async def timed(call: Callable, times: int = 50) -> float:
    """Median seconds of an awaited call."""
    spent: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        await call()
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("store.db*"))


def line(what: str, seconds: float, bare: float) -> None:
    print(f"{what:<46}{seconds * 1e6:>10.0f} us   {seconds / bare:6.2f} x a bare commit")


async def measure(url: str, folder: Path, rounds: int, sessions: int) -> None:
    store = open_store(url)
    await store.open()
    await one_session(store, 20)
    bare = bare_sqlite(folder, 2 * rounds)
    spent, run = await one_session(store, rounds)
    print(f"{url.partition(':')[0]}, {rounds} rounds")
    line("bare SQLite commit of 1 kB", bare, bare)
    line("commit of a step on a bare SQLite connection", statistics.median(same_statements(folder / "same.db", rounds)), bare)
    line("commit of a step, one session, median", statistics.median(spent), bare)
    line("  its 99th percentile", statistics.quantiles(spent, n=100)[98], bare)
    line("branch of the whole run", await timed(lambda: store.branch(OWNER, run.session, run.head), 5), bare)
    line("last events of the run", await timed(lambda: store.events(OWNER, run.run, run.next_event - 6)), bare)
    line("row of the run", await timed(lambda: store.rows(Run, owner=OWNER, id=run.run)), bare)
    await store.close()
    if (size := bytes_of(folder)) > 0:
        print(f"{'bytes of the file per round':<46}{size / (rounds + 20):>10.0f}")
    await store.open()
    best = max([await many_sessions(store, f"many{turn}", sessions, max(2, rounds // 20)) for turn in range(3)])
    print(f"{f'rounds/s, {sessions} sessions at once, best of 3':<46}{best:>10.0f}")
    await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", help="URL; default: a SQLite file in a temporary folder")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder:
        url = options.store or f"sqlite:///{folder}/store.db"
        asyncio.run(measure(url, Path(folder), options.rounds, options.sessions))


if __name__ == "__main__":
    main()

"""What durability costs: rounds of the react document on a store that flushes every commit, beside a bare commit.

    python -m bench.durable [--rounds N] [--sessions N] [--store postgres|URL]

A round is one scripted model reply with one tool call, and its result: two commits for a tool whose effects matter (its start
is part of the first), and for one without effects. The bare commit is a 1 kB row on the same disk in the same minute.
Bytes are those of the database file with its log written back.
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import causeline
from bench.bare import bare_postgres, bare_sqlite, postgres_url
from causeline.models import ScriptedModel

Url = Callable[[str], str]


@causeline.tool
async def act(i: int) -> str:
    """Has an effect."""
    return f"acted {i}"


@causeline.tool(effects=False)
async def look(i: int) -> str:
    """Has none."""
    return f"looked {i}"


def agent(rounds: int, tool: causeline.Tool) -> causeline.Agent:
    return causeline.Agent(ScriptedModel.named(f"loop-{rounds}"), tools=[tool], remember=False, max_steps=2 * rounds + 10)


async def one_session(url: str, rounds: int, tool: causeline.Tool) -> float:
    """Seconds per round of one run."""
    own = agent(rounds, tool)
    async with causeline.open(url, agents=[own]) as runtime:
        started = time.perf_counter()
        result = await (await runtime.start(own, "go")).result()
        seconds = time.perf_counter() - started
    assert result.answer == f"done {rounds}", result
    return seconds / rounds


async def many_sessions(url: str, sessions: int, rounds: int, tool: causeline.Tool) -> float:
    """Rounds per second of sessions that run at once in one process."""
    own = agent(rounds, tool)
    async with causeline.open(url, agents=[own]) as runtime:
        started = time.perf_counter()
        runs = [await runtime.start(own, "go") for _ in range(sessions)]
        results = [await run.result() for run in runs]
        seconds = time.perf_counter() - started
    assert all(result.answer == f"done {rounds}" for result in results)
    return sessions * rounds / seconds


def bytes_of(path: Path) -> int:
    file = sqlite3.connect(path)
    file.execute("pragma wal_checkpoint(truncate)")
    file.close()
    return path.stat().st_size


async def sqlite(rounds: int, sessions: int) -> None:
    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder:
        sizes: dict[int, float] = {}
        for tool in (act, look):
            for count in (rounds // 10, rounds):
                path = Path(folder) / f"{tool.name}-{count}.db"
                before = bare_sqlite(folder)
                seconds = await one_session(f"sqlite:///{path}", count, tool)
                bare = statistics.median([before, bare_sqlite(folder)])
                sizes[count] = bytes_of(path) / count
                print(
                    f"{tool.name}: {count} rounds, {seconds * 1e6:.0f} us per round; a bare commit {bare * 1e6:.0f} us; "
                    f"{seconds / bare:.2f} commits; {sizes[count]:.0f} bytes per round"
                )
            print(f"{tool.name}: bytes per round at {rounds} are {sizes[rounds] / sizes[rounds // 10]:.2f} of those at {rounds // 10}")
        rate = await many_sessions(f"sqlite:///{folder}/many.db", sessions, 10, act)
        print(f"{sessions} sessions of 10 rounds at once: {rate:.0f} rounds per second")


async def postgres(url: str, rounds: int, sessions: int) -> None:
    for tool in (act, look):
        before = await bare_postgres(url)
        seconds = await one_session(url, rounds, tool)
        bare = statistics.median([before, await bare_postgres(url)])
        print(
            f"{tool.name}: {rounds} rounds, {seconds * 1e6:.0f} us per round; "
            f"a bare commit {bare * 1e6:.0f} us; {seconds / bare:.2f} commits"
        )
    rate = await many_sessions(url, sessions, 10, act)
    print(f"{sessions} sessions of 10 rounds at once: {rate:.0f} rounds per second")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.durable", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--store", default="sqlite", help="sqlite, postgres (from its wheel), or a postgresql:// URL")
    options = parser.parse_args()
    if options.store == "sqlite":
        asyncio.run(sqlite(options.rounds, options.sessions))
        return
    with postgres_url(options.store) as url:
        asyncio.run(postgres(url, options.rounds, options.sessions))


if __name__ == "__main__":
    main()

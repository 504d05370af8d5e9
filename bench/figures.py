"""Figures of causeline that can be compared between two checkouts: each is one number, measured through the public API alone.

Another figure is a function here, or in a module that `bench.__main__` imports, under `@figure(name, unit)`.
"""

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import causeline
from bench.bare import bare_sqlite
from causeline.models import ScriptedModel

Measure = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Figure:
    """What is measured, in which unit, and whether more is better."""

    unit: str
    measure: Measure
    more: bool = False


FIGURES: dict[str, Figure] = {}
ROUNDS = 1_000


def figure(name: str, unit: str, *, more: bool = False) -> Callable[[Measure], Measure]:
    """Make a function a figure."""

    def add(measure: Measure) -> Measure:
        FIGURES[name] = Figure(unit, measure, more)
        return measure

    return add


@causeline.tool
async def act(i: int) -> str:
    """Has an effect."""
    return f"acted {i}"


def agent(rounds: int) -> causeline.Agent:
    return causeline.Agent(ScriptedModel.named(f"loop-{rounds}"), tools=[act], remember=False, max_steps=2 * rounds + 20)


async def _run(url: str, rounds: int, sessions: int = 1) -> float:
    """Seconds that all rounds of all sessions took."""
    bot = agent(rounds)
    async with causeline.open(url, agents=[bot]) as runtime:
        started = time.perf_counter()
        runs = [await runtime.start(bot, "go", session=f"s{number}") for number in range(sessions)]
        for run in runs:
            assert (await run.result()).answer == f"done {rounds}"
        return time.perf_counter() - started


def _on_disk(rounds: int, sessions: int = 1) -> tuple[float, float, float]:
    """Seconds of the run, seconds of a bare commit beside it, bytes of the file."""
    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder:
        path = Path(folder) / "store.db"
        before = bare_sqlite(folder)
        seconds = asyncio.run(_run(f"sqlite:///{path}", rounds, sessions))
        bare = (before + bare_sqlite(folder)) / 2
        with sqlite3.connect(path) as file:
            file.execute("pragma wal_checkpoint(truncate)")
        return seconds, bare, path.stat().st_size


@figure("round in memory", "us")
def in_memory() -> float:
    return asyncio.run(_run("memory://", ROUNDS)) / ROUNDS * 1e6


@figure("durable round", "us")
def durable() -> float:
    return _on_disk(ROUNDS)[0] / ROUNDS * 1e6


@figure("durable round beside a bare commit", "commits")
def in_commits() -> float:
    seconds, bare, _ = _on_disk(ROUNDS)
    return seconds / ROUNDS / bare


@figure("bytes a round", "bytes")
def size() -> float:
    return _on_disk(ROUNDS)[2] / ROUNDS


@figure("100 sessions of 10 rounds", "rounds/s", more=True)
def at_once() -> float:
    return 1_000 / _on_disk(10, 100)[0]


@figure("load 1,000 rounds", "ms")
def load() -> float:
    """From an open store to the history of a session of 1,000 rounds."""

    async def measure(url: str) -> float:
        await _run(url, ROUNDS)
        async with causeline.open(url, agents=[agent(ROUNDS)]) as runtime:
            started = time.perf_counter()
            await runtime.messages("s0")
            return (time.perf_counter() - started) * 1e3

    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder:
        return asyncio.run(measure(f"sqlite:///{folder}/store.db"))

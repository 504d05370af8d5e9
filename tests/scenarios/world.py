"""A store that several processes share, tools that leave a trace of every effect, and processes that can be killed."""

import asyncio
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from causeline.adapters.stores import open_store
from causeline.adapters.stores.in_memory_store import InMemoryStore
from causeline.assemble import Agent, agent_of
from causeline.models.model import Model
from causeline.runtime.program import Program
from causeline.runtime.runtime import Runtime
from causeline.runtime.store import Store
from tests.agent.stage import Heard, Ran, Stage

ROOT = Path(__file__).parents[2]


class Effects:
    """A file with one line for each effect, flushed before the tool returns."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def leave(self, line: Any) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def lines(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []


class World:
    """One store at `url`. Each `process` is a runtime of its own over it, as another process would open it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.effects = Effects(folder / "effects")
        self._shared = InMemoryStore() if url.startswith("memory") else None

    def store(self) -> Store:
        return self._shared or open_store(self.url)

    @asynccontextmanager
    async def process(self, *agents: Program, owner: str = "default", clock: Any = None, store: Store | None = None, grace: float = 0.0):
        """One that leaves at once when it leaves, unless it has `grace`."""
        async with Runtime(store or self.store(), owner=owner, programs=agents, build=agent_of, clock=clock, grace=grace) as runtime:
            yield runtime

    @asynccontextmanager
    async def stage(self, script: Sequence[Any] | Model, tools: Sequence[Any] = (), **options: Any):
        """A process with one agent that plays a script; every request to its model must be well paired."""
        agent, model = playing(script, tools, **options)
        async with self.process(agent) as runtime:
            yield Stage(runtime, agent, model)
        assert model.faults == []


def playing(script: Sequence[Any] | Model, tools: Sequence[Any] = (), **options: Any) -> tuple[Agent, Heard]:
    """An agent that plays a script, and what its model hears."""
    model = Heard(script)
    return Agent(model, tools=tools, **options), model


async def end(run: Any) -> Ran:
    """Follow a run to its end."""
    return await Stage.end(run)


def only(ran: Any) -> str:
    """The id of the one open interrupt."""
    (one,) = ran.interrupts
    return one.id


async def states(runtime: Runtime, run_id: str) -> dict[str, str]:
    """Call id -> state in the ledger."""
    return {row.call.call_id: row.call.state for row in await runtime.calls(run_id)}


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something that another task or process brings about; a test that waits in vain is ended."""
    async with asyncio.timeout(20):
        while True:
            met = condition()
            if await met if inspect.isawaitable(met) else met:
                return
            await asyncio.sleep(0.002)


class Process:
    """`python -m tests.scenarios.world MODULE:FUNCTION ARGUMENT...`: a coroutine function of a test, in a process of its own."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        name = f"tests.scenarios.{function.__module__.rpartition('.')[2]}:{function.__name__}"
        words = [sys.executable, "-m", "tests.scenarios.world", name, *map(str, arguments)]
        self._inner = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def ready(self) -> None:
        """Wait for its first line."""
        assert self._inner.stdout is not None
        assert self._inner.stdout.readline() == "ready\n", self._inner.communicate(timeout=20)

    def go(self) -> None:
        assert self._inner.stdin is not None
        self._inner.stdin.write("\n")
        self._inner.stdin.flush()

    def kill(self) -> None:
        self._inner.kill()
        self.end()

    def end(self) -> tuple[int, list[str]]:
        """Its exit code (negative: a signal) and the lines it has printed."""
        out, err = self._inner.communicate(timeout=40)
        assert self._inner.returncode in (0, -9), err
        return self._inner.returncode, out.splitlines()


def tell(line: Any) -> None:
    """One line for the test that started this process."""
    print(line, flush=True)


async def waved() -> None:
    """Say that this process stands ready, and wait for the word to go."""
    tell("ready")
    await asyncio.to_thread(sys.stdin.readline)


async def _act() -> None:
    module, _, function = sys.argv[1].partition(":")
    await getattr(importlib.import_module(module), function)(*sys.argv[2:])


if __name__ == "__main__":
    asyncio.run(_act())

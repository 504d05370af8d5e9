"""Opening the store and the agents that a command works with, and closing both again."""

import asyncio
import re
import signal
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn, cast

import typer

from causeline.assemble import agent_of, load_program
from causeline.assemble import open as open_runtime
from causeline.cli.shared_arguments import STORE_VARIABLE, is_server
from causeline.cli.signals import on_signal
from causeline.cli.views.error_report import CTRL_C
from causeline.cli.views.terminal import set_aside
from causeline.errors import Invalid, Missing
from causeline.runtime.engine_room import GRACE_SECONDS
from causeline.runtime.program import Program
from causeline.runtime.records import ACTIVE, Run
from causeline.runtime.runtime import Runtime

_SQLITE = "sqlite:///"
TERMINATED = 128 + signal.SIGTERM


@asynccontextmanager
async def opened(store: str, *agents: Program, new: bool = False, grace: float = GRACE_SECONDS) -> AsyncGenerator[Runtime]:
    """A runtime over the store. Without `new` a SQLite file must be there: looking at a store that is not there is a slip.

    The agents are closed with it. Raises Missing.
    """
    if is_server(store):
        from causeline.client import Client  # noqa: PLC0415 - commands that ask no server start faster without

        async with Client(store) as client:
            yield cast("Runtime", client)  # it has the verbs that commands ask for
        return
    if not new and not exists(store):
        file = store.removeprefix(_SQLITE)
        raise Missing(f"there is no store at {file}; `causeline run` makes one, --store or {STORE_VARIABLE} names another")
    try:
        async with open_runtime(store, agents=agents, adopts=False, grace=grace) as runtime:
            yield runtime
    finally:
        for agent in agents:
            await let_go(agent)


def own_store(store: str, what: str) -> None:
    """Raises Invalid where a command that needs the store itself was given a server."""
    if is_server(store):
        raise Invalid(f"{what} works on a store, not through a server; name the store with --store")


async def let_go(agent: Program) -> None:
    """Close what an agent holds, if it holds anything."""
    close = getattr(agent, "aclose", None)
    if close is not None:
        await close()


def exists(store: str) -> bool:
    """False for a SQLite file that is not there; of other stores only opening them tells."""
    return not store.startswith(_SQLITE) or Path(store.removeprefix(_SQLITE)).exists()


def leave(body: Coroutine[Any, Any, int | None], *, aside: bool = False) -> NoReturn:
    """Run a command's coroutine and leave with the exit code it returns (None: 0); 130 if Ctrl-C ended it, 143 if SIGTERM did. With
    `aside`, whatever tools, their modules and their child processes print goes to standard error: a program reads standard output."""
    try:
        with set_aside() if aside else nullcontext():
            code = asyncio.run(_until_told(body))
    except (KeyboardInterrupt, asyncio.CancelledError):
        code = CTRL_C
    raise typer.Exit(code or 0)


async def _until_told(body: Coroutine[Any, Any, int | None]) -> int | None:
    """A command's coroutine; SIGTERM ends it in good order."""
    task, told = asyncio.current_task(), asyncio.Event()
    assert task is not None

    def end() -> None:
        told.set()
        task.cancel()

    try:
        with on_signal(signal.SIGTERM, end):
            return await body
    except asyncio.CancelledError:
        if not told.is_set():
            raise
        return TERMINATED


def place(store: str) -> str:
    """The store's URL for people to read, without a password."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1:***@", store)


def agent_from(target: str, store: str, *, model: str | None = None, base_url: str | None = None) -> Program:
    """The agent of a file or of a Python module, with what the command line says instead; of a server the one of this name there."""
    if is_server(store):
        if model is not None or base_url is not None:
            raise Invalid("an agent on a server keeps its model; leave --model and --base-url out")
        return cast("Program", target)
    overrides = {"model": model, "base_url": base_url}
    return load_program(target, **{name: value for name, value in overrides.items() if value is not None})


def agent_words(target: str | None, agent: Program | None) -> Sequence[str]:
    """The words that name the agent in a further command line: none where its runs keep it."""
    kept = agent is None or isinstance(agent, str) or agent.manifest() is not None
    return () if target is None or kept else ("--agent", target)


def agent_for(run: Run, target: str | None, store: str, **overrides: Any) -> Program:
    """The agent that is named, else the one stored with the run; `overrides` stand in for options of it. Raises Missing if there is
    neither, and for an imported run: an agent says which code is loaded and which key goes to which server, and that is not for a file
    from elsewhere to decide."""
    if is_server(store):
        return cast("Program", target or run.agent)
    if target is not None:
        return load_program(target, **overrides)
    if run.epoch == 0 and run.status not in ACTIVE:
        raise Missing(f"run {run.id} was not run here, and the agent stored with it is not trusted; name one with --agent FILE", run=run.id)
    if run.manifest is None:
        raise Missing(f"run {run.id} has no agent stored, since its tools are not in files; name one with --agent FILE", run=run.id)
    return agent_of(run.manifest, **overrides)

"""`causeline worker`: drive the runs of a store that nobody drives."""

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from causeline.cli.opening import agent_from, leave, on_signal, opened, place
from causeline.cli.options import DEFAULT_STORE, Store
from causeline.cli.terminal import Terminal


def command(
    agent: Annotated[
        list[Path] | None,
        typer.Option("--agent", "-a", metavar="FILE", help="An agent for runs that do not carry theirs; may be given several times."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Drive at most so many runs at the same time.")] = 16,
    store: Store = DEFAULT_STORE,
) -> None:
    """Drive the runs that nobody drives, until told to stop.

    Those are queued runs, and runs whose process is gone. Any number of workers may share a store; each run is driven by one of
    them. SIGTERM and Ctrl-C drain it: it takes nothing new, hands its runs back where they stand, and leaves with 0. Another worker
    goes on with them at once.
    """

    async def work() -> None:
        agents = [agent_from(file) for file in agent or ()]
        async with opened(store, *agents, new=True) as runtime:
            working = asyncio.create_task(runtime.work(concurrency=concurrency))
            terminal = Terminal()
            terminal.say(f"working on {place(store)} (Ctrl-C or SIGTERM drains)")
            with on_signal(signal.SIGTERM, working.cancel), on_signal(signal.SIGINT, working.cancel), suppress(asyncio.CancelledError):
                await working
            terminal.say("draining ...")
        terminal.say("done")

    leave(work())

"""`causeline worker`: drive the runs of a store that nobody drives."""

import asyncio
import signal
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any

import typer

from causeline.cli.opening import agent_from, leave, opened, own_store, place
from causeline.cli.shared_arguments import DEFAULT_STORE, Store
from causeline.cli.signals import on_signal
from causeline.cli.views.clean_text import one_line
from causeline.cli.views.terminal import Terminal
from causeline.cli.views.trace import asked
from causeline.cli.worker_processes import run_together
from causeline.errors import Missing
from causeline.runtime.records import Run
from causeline.runtime.runtime import Runtime


def command(
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", "-a", metavar="AGENT", help="An agent for runs that do not carry theirs; may be given several times."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Drive at most so many runs at the same time.")] = 16,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that begun calls may take to finish when it is told to stop.")] = 30.0,
    processes: Annotated[int, typer.Option(min=1, help="Workers to start, each a process of its own with so many runs at a time.")] = 1,
    store: Store = DEFAULT_STORE,
) -> None:
    """Drive the runs that nobody drives, until told to stop.

    Those are queued runs, and runs whose process is gone. Any number of workers may share a store; each run is driven by one of
    them. A line says which run is taken, and one how it ended. SIGTERM and Ctrl-C drain it: it takes nothing new, hands its runs
    back once the calls that have begun are finished, and leaves with 0. Another worker goes on with them at once. A second signal
    stops at once. With --processes it does this in several processes, which end together.
    """
    own_store(store, "a worker")
    if processes > 1:
        agents = [word for one in agent or () for word in ("--agent", one)]
        limits = ("--concurrency", str(concurrency), "--grace", str(grace), "--store", store)
        raise typer.Exit(run_together(processes, [*agents, *limits]))

    async def work() -> None:
        agents = [agent_from(file, store) for file in agent or ()]
        stop = _Stop()
        with on_signal(signal.SIGTERM, stop.press), on_signal(signal.SIGINT, stop.press):
            async with opened(store, *agents, new=True, grace=grace) as runtime:
                terminal = Terminal()
                terminal.say(f"working on {place(store)} (Ctrl-C or SIGTERM drains)")
                report = Report(runtime, terminal)
                telling = asyncio.create_task(report.turns())
                await stop.until_pressed(runtime.work(concurrency=concurrency, lacks=report.lacks))
                telling.cancel()
                await asyncio.gather(telling, return_exceptions=True)
                for run in report.held:
                    terminal.say(f"handing back run {run}")
                terminal.say("draining ...")
            terminal.say("done")

    leave(work())


class _Stop:
    """What a signal does: the first one ends the work, the second one what waits for begun calls."""

    def __init__(self) -> None:
        self._main = asyncio.current_task()
        self._working: asyncio.Task[None] | None = None

    def press(self) -> None:
        if self._working is not None and not self._working.done():
            self._working.cancel()
        elif self._main is not None:
            self._main.cancel()

    async def until_pressed(self, work: Coroutine[Any, Any, None]) -> None:
        self._working = asyncio.create_task(work)
        await asyncio.wait((self._working,))
        if not self._working.cancelled():
            self._working.result()


class Report:
    """What a worker does, a line each: runs taken and ended, and agents that runs wait for and nobody gave it."""

    def __init__(self, runtime: Runtime, terminal: Terminal) -> None:
        self._runtime = runtime
        self._terminal = terminal
        self._turns: asyncio.Queue[tuple[tuple[str, str], bool]] = asyncio.Queue()
        self._held: dict[tuple[str, str], None] = {}
        runtime.feed.watch = lambda run, begins: self._turns.put_nowait((run, begins))

    @property
    def held(self) -> Sequence[str]:
        """Ids of the runs that were taken and have not ended."""
        return [name for _, name in self._held]

    async def turns(self) -> None:
        """Tell of runs as they are taken and end, until cancelled."""
        while True:
            key, begins = await self._turns.get()
            owner, name = key
            try:
                run = await self._runtime.of(owner).run(name)
            except Missing:  # it was deleted in the meantime
                self._held.pop(key, None)
                continue
            if begins:
                self._held[key] = None
                self._terminal.say(f"taken  run {run.id} of session {run.session}, agent {one_line(run.agent)}: {asked(run)}", "quiet")
            else:
                self._held.pop(key, None)
                self._terminal.say(f"ended  run {run.id}: {ending(run)}", "bad" if run.status == "failed" else "good")

    def lacks(self, run: Run) -> None:
        """Tell once of each agent that this worker was not given."""
        self._terminal.say(f"waits  run {run.id} needs the agent {one_line(run.agent)}: start a worker with --agent FILE", "bad")


def ending(run: Run) -> str:
    """How a run that this process let go of stands, with the reason."""
    if run.status == "queued":
        return "handed back"
    fault = (run.error or {}).get("message")
    reason = one_line(str(fault)) if fault else run.stop_reason
    return f"{run.status} ({reason})" if reason and reason != run.status else run.status

"""Following a run to its end: events as they come, then how it ended.

Law: the run goes on by itself; this only watches. The first Ctrl-C cancels the run and waits for its end, so that
what had finished is kept; the second one leaves at once.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

from causeline.cli.shared_arguments import store_words
from causeline.cli.signals import on_signal
from causeline.cli.views.activity import Activity
from causeline.cli.views.clean_text import line
from causeline.cli.views.error_report import CTRL_C, first_of
from causeline.cli.views.narration import Narrator
from causeline.cli.views.run_end import as_json, exit_code, told
from causeline.cli.views.terminal import Terminal, program_output
from causeline.events import Event
from causeline.runtime.handle import RunHandle, RunResult
from causeline.runtime.runtime import Runtime

TICK_SECONDS = 0.1


class View(Protocol):
    """Where a run is shown."""

    def skip(self, event: Event) -> None:
        """An event of before, that is not to be shown."""
        ...

    def event(self, event: Event) -> None: ...

    def tick(self, now: float) -> None:
        """Some time has passed; `now` in seconds of the event loop's clock."""
        ...

    def end(self, result: RunResult) -> None: ...


class Words:
    """For a person: text as it streams, calls and results, then the end with command lines to go on; `further` are the words that name
    agent and store in those."""

    def __init__(self, further: Sequence[str], *, steps: bool = False, announced: set[tuple[str, str]] | None = None) -> None:
        self._terminal = Terminal()
        self._activity = Activity()
        self._narrator = Narrator(steps=steps, announced=announced)
        self._further = further

    def skip(self, event: Event) -> None:
        self._narrator.skip(event)

    def event(self, event: Event) -> None:
        self._activity.tell(event, asyncio.get_running_loop().time())
        self._terminal.pieces(self._narrator.tell(event))

    def tick(self, now: float) -> None:
        line = None if self._narrator.in_line else self._activity.line(now)
        self._terminal.status(line)

    def end(self, result: RunResult) -> None:
        self._terminal.pieces(told(result, said=self._narrator.said, further=self._further))


class Lines:
    """For a program: an event a line, then the result."""

    def skip(self, event: Event) -> None:
        pass

    def event(self, event: Event) -> None:
        print(line(event), file=program_output(), flush=True)

    def tick(self, now: float) -> None:
        pass

    def end(self, result: RunResult) -> None:
        print(line(as_json(result)), file=program_output(), flush=True)


def view(store: str, agent: Sequence[str] = (), *, as_json: bool) -> View:
    """The view that the command line asks for. `agent` are the words that name the agent again, where the run does not keep it."""
    return Lines() if as_json else Words((*agent, *store_words(store)))


@dataclass(frozen=True, slots=True)
class Followed:
    """How a run ended, and whether Ctrl-C was pressed while it was followed."""

    result: RunResult
    stopped: bool

    @property
    def code(self) -> int:
        """The exit code of a command that did nothing else."""
        return CTRL_C if self.stopped and self.result.status == "cancelled" else exit_code(self.result)


async def follow(runtime: Runtime, run: RunHandle, shown: View, *, after: int = 0, cancels: bool = True) -> Followed:
    """Show the run's events above `after` and its end. With `cancels`, Ctrl-C cancels the run; else it only ends the watching."""
    try:
        async with asyncio.TaskGroup() as tasks:
            stop = _Stop(runtime, run, tasks)
            ending = tasks.create_task(run.result())  # beside the events, so that what breaks the run ends the watching too
            ticking = tasks.create_task(_tick(shown))
            with on_signal(signal.SIGINT, stop.press) if cancels else nullcontext():
                async for event in run.events(after):
                    shown.event(event)
                result = await ending
            ticking.cancel()
    except ExceptionGroup as group:
        raise first_of(group) from None
    shown.end(result)
    return Followed(result, stop.pressed)


async def _tick(shown: View) -> None:
    while True:
        await asyncio.sleep(TICK_SECONDS)
        shown.tick(asyncio.get_running_loop().time())


class _Stop:
    """What Ctrl-C does while a run is followed."""

    def __init__(self, runtime: Runtime, run: RunHandle, tasks: asyncio.TaskGroup) -> None:
        self.pressed = False
        self._runtime = runtime
        self._run = run
        self._tasks = tasks

    def press(self) -> None:
        if self.pressed:
            sys.stdout.flush()
            os._exit(CTRL_C)  # a tool may hang in its cancelling; what is stored survives this like any crash
        self.pressed = True
        Terminal(error=True).say("\ncancelling (Ctrl-C again leaves at once) ...", "quiet")
        self._tasks.create_task(self._runtime.cancel(self._run.id))

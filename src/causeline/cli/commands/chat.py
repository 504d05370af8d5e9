"""`causeline chat`: a conversation with an agent, one run a turn, all in one session.

Law: the event loop runs only while a run does; waiting for the person is ordinary blocking input, so that Ctrl-C
and Ctrl-D mean there what they mean in any program.
"""

import asyncio
import re
import sys
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from typing import Annotated, Any

import typer

from causeline.cli.opening import agent_from, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AgentFile, BaseUrl, Model, Store, store_words
from causeline.cli.views.ask_person import decide
from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.error_report import CTRL_C, report
from causeline.cli.views.follow import Words, follow
from causeline.cli.views.narration import Piece
from causeline.cli.views.run_end import described, outcome
from causeline.cli.views.terminal import Terminal
from causeline.errors import CauselineError
from causeline.runtime.handle import RunHandle, RunResult
from causeline.runtime.program import Program
from causeline.runtime.runtime import Runtime

_HELP = "Ctrl-C stops a turn or leaves a question open; exit or Ctrl-D leaves the conversation."
_LEAVE = ("exit", "quit", "/exit", "/quit")
_COMMAND = re.compile(r"/[a-z]+")


def command(
    agent: AgentFile,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this session, or begin one of this name.")] = None,
    model: Model = None,
    base_url: BaseUrl = None,
    store: Store = DEFAULT_STORE,
) -> None:
    """Talk to an agent, turn by turn. It asks for its approvals here.

    Ctrl-C stops the turn, or leaves a question open, and returns to the prompt. At the prompt, or a second time, it
    leaves, as do Ctrl-D and exit.
    """
    code = 0
    with asyncio.Runner() as runner:
        chat = Chat(runner, agent_from(agent, store, model=model, base_url=base_url), store, session)
        try:
            chat.talk()
        except EOFError:
            pass
        except (KeyboardInterrupt, asyncio.CancelledError):
            code = CTRL_C
        finally:
            chat.close()
        if chat.session is not None:
            given = [word for name, value in (("--model", model), ("--base-url", base_url)) if value for word in (name, value)]
            again = command_line("chat", "--agent", str(agent), "--session", chat.session, *given, *store_words(store))
            Terminal().pieces([Piece(f"\ngo on later with  {again}\n", "quiet")])
    raise typer.Exit(code)


class Chat:
    """One conversation. `session` is None until the first turn of a new one."""

    def __init__(self, runner: asyncio.Runner, agent: Program, store: str, session: str | None) -> None:
        self.session = session
        self._runner = runner
        self._agent = agent
        self._store = store
        self._announced: set[tuple[str, str]] = set()
        self._open = AsyncExitStack()
        self._terminal = Terminal()
        self._runtime: Runtime = runner.run(self._open.enter_async_context(opened(store, agent, new=True)))
        if sys.stdin.isatty():
            with suppress(ImportError):
                import_module("readline")  # line editing and history for input()

    def close(self) -> None:
        """Close the store."""
        self._runner.run(self._open.aclose())

    def talk(self) -> None:
        """Until the person leaves: EOFError or KeyboardInterrupt says so."""
        self._terminal.pieces([Piece(f"{_HELP}\n", "quiet")] if sys.stdin.isatty() else [])
        self._questions(self._guarded(self._left_open()))
        while True:
            prompt = self._read("\n> ").strip()
            if prompt.lower() in _LEAVE:
                raise EOFError
            if _COMMAND.fullmatch(prompt):
                known = "" if prompt == "/help" else f"There is no command {prompt}. "
                self._terminal.say(f"{known}{_HELP}", "quiet")
            elif prompt:
                self._questions(self._guarded(self._turn(prompt)))

    def _guarded(self, body: Any) -> RunResult | None:
        """What a coroutine found; an error is told, and the conversation goes on."""
        try:
            return self._runner.run(body)
        except CauselineError as error:
            report(error)
            return None

    async def _turn(self, prompt: str) -> RunResult:
        run = await self._runtime.start(self._agent, prompt, session=self.session)
        self.session = run.session
        return await self._follow(run)

    async def _left_open(self) -> RunResult | None:
        """How the session's last run ended, if it still waits for answers."""
        if self.session is None:
            return None
        runs = await self._runtime.runs(self.session)
        return await self._runtime.result(runs[-1].id) if runs and runs[-1].status == "interrupted" else None

    async def _follow(self, run: RunHandle) -> RunResult:
        return (await follow(self._runtime, run, _Turn(store_words(self._store), announced=self._announced))).result

    def _questions(self, result: RunResult | None) -> None:
        """Ask the person what the run asks, as long as something is answered."""
        while result is not None and result.interrupts:
            answers = self._decisions(result)
            if not answers:
                self._terminal.pieces([Piece("  left open; your next message takes their place\n", "quiet")])
                return
            result = self._guarded(self._answer(result.run_id, answers))

    def _decisions(self, result: RunResult) -> dict[str, Any]:
        """What the person decides, by interrupt. Ctrl-C leaves this question and those after it open."""
        answers: dict[str, Any] = {}
        try:
            for interrupt in result.interrupts:
                self._terminal.pieces([Piece("\n"), *described(interrupt)])
                decision = decide(interrupt, self._read)
                if decision is not None:
                    answers[interrupt.id] = decision
        except KeyboardInterrupt:
            self._terminal.say()
        return answers

    async def _answer(self, run: str, answers: dict[str, Any]) -> RunResult:
        return await self._follow(await self._runtime.answer(run, answers, agent=self._agent))

    def _read(self, prompt: str) -> str:
        return input(prompt if sys.stdin.isatty() else "")


class _Turn(Words):
    """A turn ends without ids; the session is named once, when the conversation ends."""

    def end(self, result: RunResult) -> None:
        self._terminal.pieces(outcome(result, said=self._narrator.said))

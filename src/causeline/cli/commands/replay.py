"""`causeline replay`: the same question again, with another model or prompt, and both answers side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from causeline.agent.definition import AgentDefinition
from causeline.assemble import recorded_agent
from causeline.cli.opening import agent_for, leave, let_go, opened, own_store
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Model, OtherAgent, RunName, Store
from causeline.cli.views.clean_text import clean, line
from causeline.cli.views.follow import follow
from causeline.cli.views.side_by_side import compared
from causeline.cli.views.terminal import Terminal, program_output
from causeline.errors import Invalid
from causeline.models.messages import Message
from causeline.runtime.handle import RunResult
from causeline.runtime.records import Link, Run
from causeline.runtime.runtime import Runtime
from causeline.tools.recorded_calls import RecordedCalls
from causeline.tools.toolbox import client_tools
from causeline.view_models.run_side import Side, side


def command(
    run: RunName,
    at: Annotated[str | None, typer.Option(metavar="CK", help="Begin at this checkpoint of the run instead of its beginning.")] = None,
    model: Model = None,
    system: Annotated[Path | None, typer.Option(metavar="FILE", help="Use the text of this file as the system prompt.")] = None,
    tools: Annotated[
        Literal["recorded", "live"], typer.Option(help="Give each call the result it had then, or run the tools again, with their effects.")
    ] = "recorded",
    agent: OtherAgent = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Go through a run again, and show what it did then and does now side by side.

    The new run is a fork: the history of RUN stays as it is, and the session's head moves to the new branch (a run that began its
    session is replayed in a new one). With recorded tools nothing is run: a call that was not made then fails, and is listed below.
    Ends as the new run ends: 0, 1 if it failed, 3 if it waits for answers.
    """
    overrides = {} if model is None else {"model": model}
    if system is not None:
        overrides["system"] = _text(system)

    async def replay() -> int:
        own_store(store, "replay")
        async with opened(store) as runtime:
            before = await runtime.run(run)
            then = await runtime.final(before.id)  # with what people answered it
            links: Sequence[Link] = await runtime.links(then.session, then.head) if then.head is not None else ()
            program: Any = agent_for(before, agent, store, **overrides)
            calls = RecordedCalls(node for link in links for node in link.nodes)
            try:
                again = _with_recorded(program, calls, before) if tools == "recorded" else program
                result, code = await _replayed(runtime, before, again, at, client=tools == "live")
            finally:
                await let_go(program)
            start = at if at is not None else before.base
            sides = (_side(then, links, start), _side(result, await runtime.links(result.session, result.head), start))
        _show(*sides, calls.misses, as_json=as_json)
        return code

    leave(replay(), aside=as_json)


def _with_recorded(program: Any, calls: RecordedCalls, before: Run) -> Any:
    if not isinstance(program, AgentDefinition):
        raise Invalid("only an agent has tools whose calls are recorded; say --tools live to run this graph again")
    return recorded_agent(program, calls, client_tools(before.tools))


async def _replayed(runtime: Runtime, before: Run, program: Any, at: str | None, *, client: bool) -> tuple[RunResult, int]:
    """Run once more what the run was asked, from where it began, or go on from `at`."""
    base = at if at is not None else before.base
    said = [Message.from_json(message) for message in before.input] if at is None else []
    further = await runtime.start(
        program,
        said or None,
        session=before.session if base is not None else None,
        at=base,
        context=before.context,
        tools=before.tools if client else (),
    )
    followed = await follow(runtime, further, _Unseen())
    return followed.result, followed.code


class _Unseen:
    """Shows nothing of the run: what counts is how it ends."""

    def skip(self, event: Any) -> None:
        pass

    def event(self, event: Any) -> None:
        pass

    def tick(self, now: float) -> None:
        pass

    def end(self, result: RunResult) -> None:
        pass


def _side(result: RunResult, links: Sequence[Link], start: str | None) -> Side:
    return side(result.run_id, result.status, (result.error or {}).get("message", ""), _after(links, start))


def _after(links: Sequence[Link], start: str | None) -> Sequence[Link]:
    places = [place for place, link in enumerate(links) if link.checkpoint.id == start]
    return links[places[0] + 1 :] if places else links


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}", param_hint="--system") from error


def _show(recorded: Side, replayed: Side, misses: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        told = {"recorded": recorded.to_json(), "replayed": replayed.to_json(), "unrecorded_calls": misses}
        print(line(told), file=program_output(), flush=True)
        return
    terminal = Terminal()
    for row in compared(recorded, replayed, terminal.width):
        terminal.say(row)
    for miss in misses:
        terminal.say(f"\n{clean(miss)}", "bad")

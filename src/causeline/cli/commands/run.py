"""`causeline run`: one prompt, one run."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from causeline.cli.opening import agent_from, agent_words, leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AgentFile, BaseUrl, EventsAsJson, Model, OnBusy, Store, store_words
from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.clean_text import line
from causeline.cli.views.follow import follow, view
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_checkpoint


def command(
    agent: AgentFile,
    prompt: Annotated[str, typer.Argument(metavar="[PROMPT]", help="What to ask; - reads it from standard input.")] = "",
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this session, or begin one of this name.")] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="A name for the run; a known run is shown again, not repeated.")
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="CK", help="Start from this checkpoint instead of the session's head.")] = None,
    context: Annotated[str | None, typer.Option(metavar="JSON", help="The context object that the run starts with.")] = None,
    tools: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tools that you execute: a JSON list of {name, description, parameters}.")
    ] = None,
    results: Annotated[
        list[str] | None,
        typer.Option("--result", metavar="CALL=TEXT", help="What came of a call that was left to you, by its id; may be given again."),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Only store the run; `causeline worker` or `resume` drives it.")] = False,
    on_busy: OnBusy = "reject",
    model: Model = None,
    base_url: BaseUrl = None,
    store: Store = DEFAULT_STORE,
    as_json: EventsAsJson = False,
) -> None:
    """Ask an agent, and watch it work.

    The run is stored step by step: after a crash `causeline resume` takes it up where it was. Ctrl-C cancels it. Ends with 0 if the
    run succeeded, 1 if it failed or was refused, 3 if it waits for answers, 130 after Ctrl-C.
    """
    text = sys.stdin.read() if prompt == "-" else prompt
    messages = [_result(word) for word in results or ()]
    if text.strip():
        messages.append({"role": "user", "content": text})
    if not messages:
        raise typer.BadParameter("there is nothing to ask; write a question, or - to read one from standard input", param_hint="PROMPT")

    start_context, own_tools = json_option("--context", context), json_option("--tools", tools.read_text("utf-8-sig") if tools else None)

    async def run() -> int:
        asked = agent_from(agent, store, model=model, base_url=base_url)
        shown = view(store, agent_words(agent, asked), as_json=as_json)
        async with opened(store, asked, new=True) as runtime:
            start = None if at is None else await whole_checkpoint(runtime, at, session)
            place = (await runtime.checkpoint(start)).session if start is not None and session is None else session
            handle = await runtime.start(
                asked, messages, session=place, run_id=run_id, at=start, context=start_context, tools=own_tools, on_busy=on_busy,
                drive=not detach,
            )  # fmt: skip
            if detach:
                return _stored(handle.id, handle.session, store, as_json=as_json)
            if (await runtime.run(handle.id)).status == "queued":
                Terminal(error=True).say("waiting for the session's other run to end ...", "quiet")
            return (await follow(runtime, handle, shown)).code

    leave(run(), aside=as_json)


def _result(word: str) -> dict[str, Any]:
    """The message with the result of a call that the caller carried out. Raises typer.BadParameter."""
    call, equals, text = word.partition("=")
    if not equals or not call:
        raise typer.BadParameter(f"{word!r} is not CALL=TEXT, a call's id and what came of it", param_hint="--result")
    return {"role": "tool", "tool_call_id": call, "content": text}


def json_option(option: str, text: str | None) -> Any:
    """The value of an option that is JSON; () for one that is not given. Raises typer.BadParameter."""
    if text is None:
        return None if option == "--context" else ()
    try:
        return json.loads(text)
    except ValueError as fault:
        raise typer.BadParameter(f"this is not JSON: {fault}", param_hint=option) from None


def _stored(run: str, session: str, store: str, *, as_json: bool) -> int:
    """Say where a run is that nobody drives yet."""
    if as_json:
        print(line({"run": run, "session": session, "status": "queued"}))
        return 0
    terminal = Terminal()
    terminal.say(f"run      {run}\nsession  {session}", "quiet")
    terminal.say(f"stored, to be driven by a worker or by: {command_line('resume', run, *store_words(store))}")
    return 0

"""`causeline run`: one prompt, one run."""

import sys
from typing import Annotated

import typer

from causeline.cli.opening import agent_from, leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AgentFile, BaseUrl, EventsAsJson, Model, OnBusy, Store
from causeline.cli.views.follow import follow, view
from causeline.cli.views.terminal import Terminal


def command(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="What to ask; - reads it from standard input.")],
    agent: AgentFile,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Go on with this session, or begin one of this name.")] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="A name for the run; a known run is shown again, not repeated.")
    ] = None,
    at: Annotated[str | None, typer.Option(metavar="CK", help="Start from this checkpoint instead of the session's head.")] = None,
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
    if not text.strip():
        raise typer.BadParameter("there is nothing to ask; write a question, or - to read one from standard input", param_hint="PROMPT")

    shown = view(store, as_json=as_json)

    async def run() -> int:
        asked = agent_from(agent, model=model, base_url=base_url)
        async with opened(store, asked, new=True) as runtime:
            place = (await runtime.checkpoint(at)).session if at is not None and session is None else session
            handle = await runtime.start(asked, text, session=place, run_id=run_id, at=at, on_busy=on_busy)
            if (await runtime.run(handle.id)).status == "queued":
                Terminal(error=True).say("waiting for the session's other run to end ...", "quiet")
            return (await follow(runtime, handle, shown)).code

    leave(run(), aside=as_json)

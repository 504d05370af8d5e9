"""`causeline fork`: another run from an earlier point of a session."""

from typing import Annotated

import typer

from causeline.cli.opening import agent_for, agent_words, leave, let_go, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, EventsAsJson, OnBusy, OtherAgent, RunName, Store
from causeline.cli.views.follow import follow, view
from causeline.cli.whole_ids import whole_checkpoint, whole_run


def command(
    run: RunName,
    at: Annotated[str, typer.Option(metavar="CK", help="The checkpoint to start from; `causeline show SESSION` lists them.")],
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="What to ask there; without it the agent goes on.")] = None,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="A name for the new run.")] = None,
    agent: OtherAgent = None,
    on_busy: OnBusy = "reject",
    store: Store = DEFAULT_STORE,
    as_json: EventsAsJson = False,
) -> None:
    """Start a new run from an earlier checkpoint.

    It belongs to RUN's session and has RUN's agent. The history it leaves stays as it is, byte for byte; the session's head moves
    to the new branch. `causeline export --all` keeps both.
    """
    if prompt is not None and not prompt.strip():
        raise typer.BadParameter("there is nothing to ask; leave --prompt out to let the agent go on", param_hint="--prompt")

    async def fork() -> int:
        async with opened(store) as runtime:
            before = await runtime.run(await whole_run(runtime, run))
            program = agent_for(before, agent, store)
            shown = view(store, agent_words(agent, program), as_json=as_json)
            try:
                place = await whole_checkpoint(runtime, at, before.session)
                further = await runtime.start(program, prompt, session=before.session, run_id=run_id, at=place, on_busy=on_busy)
                return (await follow(runtime, further, shown)).code
            finally:
                await let_go(program)

    leave(fork(), aside=as_json)

"""`causeline fork`: another run from an earlier point of a session."""

from typing import Annotated

import typer

from causeline.cli.opening import agent_for, leave, let_go, opened, whole_id
from causeline.cli.shared_arguments import DEFAULT_STORE, EventsAsJson, OnBusy, OtherAgent, RunName, Store
from causeline.cli.views.follow import follow, view


def command(
    run: RunName,
    at: Annotated[str, typer.Option(metavar="CK", help="The checkpoint to start from; `causeline show SESSION` lists them.")],
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="What to ask there; without it the agent goes on.")] = None,
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

    shown = view(store, as_json=as_json)

    async def fork() -> int:
        async with opened(store) as runtime:
            before = await runtime.run(await whole_id(runtime, "run", run))
            program = agent_for(before, agent, store)
            try:
                further = await runtime.start(program, prompt, session=before.session, at=at, on_busy=on_busy)
                return (await follow(runtime, further, shown)).code
            finally:
                await let_go(program)

    leave(fork(), aside=as_json)

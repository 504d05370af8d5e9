"""`causeline delete`: remove a session for good."""

import sys
from typing import Annotated

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, SessionName, Store
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_session
from causeline.errors import Conflict
from causeline.plain_text import counted


def command(
    session: SessionName, yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False, store: Store = DEFAULT_STORE
) -> None:
    """Remove a session and all that belongs to it, for good: its runs, its log, every branch.

    Asks first, unless --yes is given. `causeline export` keeps a copy. A session with an active run is left as it is.
    """

    async def delete() -> int:
        async with opened(store) as runtime:
            place = await whole_session(runtime, session)
            runs = await runtime.runs(place)
            await runtime.checkpoints(place)
            if not yes and not agreed(f"Delete session {place} and its {counted(len(runs), 'run')} for good? Type yes: "):
                Terminal().say("nothing was deleted; --yes deletes without asking")
                return 1
            try:
                await runtime.delete(place)
            except Conflict as error:
                raise Conflict(error.message.partition(";")[0], code="run_active", **error.facts) from error
        Terminal().say(f"deleted session {place}: {counted(len(runs), 'run')}", "good")
        return 0

    leave(delete())


def agreed(question: str) -> bool:
    """Whether the person at the terminal types yes; nobody there is a no."""
    if not sys.stdin.isatty():
        return False
    try:
        return input(question).strip().lower() == "yes"
    except EOFError:
        return False

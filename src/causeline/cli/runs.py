"""`causeline runs`: the runs of a store or of a session."""

from typing import Annotated

import typer

from causeline.cli.ending import tokens
from causeline.cli.opening import leave, opened
from causeline.cli.options import DEFAULT_STORE, AsJson, Store
from causeline.cli.terminal import Terminal, table
from causeline.cli.text import line
from causeline.cli.trace import asked, when
from causeline.runtime.transfer import run_row


def command(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="Only the runs of this session.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """List runs, newest last."""

    async def runs() -> None:
        async with opened(store) as runtime:
            if session is not None:
                await runtime.checkpoints(session)
            found = await runtime.runs(session)
        if as_json:
            print(line({"runs": [run_row(one) for one in found]}))
            return
        rows = [
            (one.id, one.session, when(one.created_at), one.status, one.stop_reason or "-", tokens(one.usage) or "-", asked(one))
            for one in found
        ]
        for row in table([("RUN", "SESSION", "STARTED", "STATUS", "WHY", "TOKENS", "QUESTION"), *rows]) if rows else ["no runs yet"]:
            Terminal().say(row)

    leave(runs())

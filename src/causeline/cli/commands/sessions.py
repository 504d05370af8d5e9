"""`causeline sessions`: what is in the store."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Limit, Statuses, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.listing import below, session_rows
from causeline.cli.views.terminal import Terminal, table
from causeline.plain_text import counted
from causeline.runtime.records import Run


def command(
    status: Statuses = None,
    limit: Limit = None,
    everything: Annotated[bool, typer.Option("--all", help="Also the sessions of runs that agents started as tools of others.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """List the sessions, newest last."""

    async def sessions() -> None:
        async with opened(store) as runtime:
            rows = await runtime.sessions()
            runs: dict[str, list[Run]] = {}
            for run in await runtime.runs():
                runs.setdefault(run.session, []).append(run)
        found = [row for row in rows if everything or not (row.id in runs and all(map(below, runs[row.id])))]
        if status:
            found = [row for row in found if row.id in runs and runs[row.id][-1].status in status]
        chosen = found[-limit:] if limit is not None else found
        if as_json:
            print(line({"sessions": [asdict(row) for row in chosen]}))
            return
        terminal = Terminal()
        for row in (
            table(session_rows(chosen, runs, datetime.now(UTC))) if chosen else ["no sessions yet" if not rows else "no such sessions"]
        ):
            terminal.say(row)
        if len(found) > len(chosen):
            terminal.say(f"{counted(len(found) - len(chosen), 'older session')} not shown", "quiet")

    leave(sessions())

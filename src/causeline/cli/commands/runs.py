"""`causeline runs`: the runs of a store or of a session."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store, store_words
from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.clean_text import line
from causeline.cli.views.narration import Piece
from causeline.cli.views.open_questions import Standing, questions, standing, why
from causeline.cli.views.run_end import interrupt_row, tokens
from causeline.cli.views.terminal import Terminal, table
from causeline.cli.views.trace import asked, when
from causeline.runtime.export_import import run_row
from causeline.runtime.records import Run


def command(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="Only the runs of this session.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """List runs, newest last, and below them the questions that are open.

    A run that stopped for a question has ended: answers start another run, which goes on from it.
    """

    async def runs() -> None:
        async with opened(store) as runtime:
            if session is not None:
                await runtime.checkpoints(session)
            found = await runtime.runs(session)
            standings = await standing(runtime, found, session)
        if as_json:
            print(line({"runs": [as_row(one, standings.get(one.id, Standing())) for one in found]}))
            return
        rows = [
            (one.id, one.session, when(one.created_at), one.status, why(one, standings) or "-", tokens(one.usage) or "-", asked(one))
            for one in found
        ]
        for row in table([("RUN", "SESSION", "STARTED", "STATUS", "WHY", "TOKENS", "QUESTION"), *rows]) if rows else ["no runs yet"]:
            Terminal().say(row)
        _print_open(standings, store)

    leave(runs())


def as_row(run: Run, found: Standing) -> dict[str, Any]:
    """A run as `--json` lists it: as exports carry it, without the agent's definition, with its open questions."""
    row = {name: value for name, value in run_row(run).items() if name != "manifest"}
    return {**row, "interrupts": [interrupt_row(one) for one in found.open], "answered_by": found.answered_by}


def _print_open(standings: Mapping[str, Standing], store: str) -> None:
    terminal = Terminal()
    for run, found in standings.items():
        if found.open:
            how = command_line("resume", run, *store_words(store))
            terminal.pieces([Piece(f"\nrun {run} waits for answers; how to give them: "), Piece(f"{how}\n", "call")])
            terminal.pieces(questions(found, width=terminal.width))

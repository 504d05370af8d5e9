"""`causeline runs`: the runs of a store or of a session."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Limit, Statuses, Store, store_words
from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.clean_text import line
from causeline.cli.views.listing import below, nobody_drives, run_rows
from causeline.cli.views.narration import Piece
from causeline.cli.views.open_questions import Standing, questions, standing
from causeline.cli.views.run_end import interrupt_row
from causeline.cli.views.terminal import Terminal, table
from causeline.cli.whole_ids import whole_session
from causeline.plain_text import counted
from causeline.runtime.export_import import run_row
from causeline.runtime.records import Run


def command(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="Only the runs of this session.")] = None,
    status: Statuses = None,
    limit: Limit = None,
    everything: Annotated[bool, typer.Option("--all", help="Also the runs that agents started as tools of others.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """List runs, newest last, and below them the questions that are open.

    A run that stopped for a question has ended: answers start another run, which goes on from it.
    """

    async def runs() -> None:
        async with opened(store) as runtime:
            place = None if session is None else await whole_session(runtime, session)
            if place is not None:
                await runtime.checkpoints(place)
            found = await runtime.runs(place)
            standings = await standing(runtime, found, place)
        of_a_sub_session = place is not None and all(map(below, found))
        asked_for = [run for run in found if (not status or run.status in status) and (everything or of_a_sub_session or not below(run))]
        chosen = asked_for[-limit:] if limit is not None else asked_for
        if as_json:
            print(line({"runs": [as_row(run, standings.get(run.id, Standing())) for run in chosen]}))
            return
        _print(chosen, len(asked_for) - len(chosen), standings, store)

    leave(runs())


def as_row(run: Run, found: Standing) -> dict[str, Any]:
    """A run as `--json` lists it: as exports carry it, without the agent's definition, with its open questions."""
    row = {name: value for name, value in run_row(run).items() if name != "manifest"}
    return {**row, "interrupts": [interrupt_row(question) for question in found.open], "answered_by": found.answered_by}


def _print(runs: Sequence[Run], left_out: int, standings: Mapping[str, Standing], store: str) -> None:
    terminal = Terminal()
    if not runs:
        terminal.say("no runs yet" if not left_out else "no such runs")
        return
    for row in table(run_rows(runs, standings, datetime.now(UTC))):
        terminal.say(row)
    if left_out:
        terminal.say(f"{counted(left_out, 'older run')} not shown", "quiet")
    for run in runs:
        if nobody_drives(run):
            _remedy(terminal, f"\nnobody drives {run.id} any more: ", run.id, store)
        elif run.id in standings and standings[run.id].open:
            _remedy(terminal, f"\nrun {run.id} waits for answers; how to give them: ", run.id, store)
            terminal.pieces(questions(standings[run.id], width=terminal.width))


def _remedy(terminal: Terminal, what: str, run: str, store: str) -> None:
    terminal.pieces([Piece(what), Piece(f"{command_line('resume', run, *store_words(store))}\n", "call")])

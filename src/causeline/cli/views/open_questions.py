"""What became of the questions of interrupted runs: which are open, and who goes on from the run.

An interrupted run has ended. Answers start a new run, which goes on where it stopped; a message of the user makes its questions void.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from causeline.cli.views.clean_text import one_line, short, shown
from causeline.cli.views.narration import Piece
from causeline.plain_text import counted
from causeline.runtime.records import Interrupt, Run
from causeline.runtime.runtime import Runtime

_ASKED = {"approval": "may it run", "question": "question", "unknown_outcome": "what became of it"}


@dataclass(frozen=True, slots=True)
class Standing:
    """The open questions of an interrupted run, the run that goes on from it, if it was answered, and whether a message made
    questions void."""

    open: Sequence[Interrupt] = ()
    answered_by: str | None = None
    superseded: bool = False

    def __str__(self) -> str:
        if self.open:
            return counted(len(self.open), "open question")
        if self.answered_by:
            return f"answered by {self.answered_by}"
        return "superseded by a later message" if self.superseded else "open where this session came from"


async def standing(runtime: Runtime, runs: Sequence[Run], session: str | None = None) -> Mapping[str, Standing]:
    """Of each interrupted run, how it stands. `runs` have to be all of a session, or of the store."""
    if not any(one.status == "interrupted" for one in runs):
        return {}
    asked: dict[str, list[Interrupt]] = {}
    for one in await runtime.interrupts(session, status=("open", "superseded")):
        asked.setdefault(one.checkpoint, []).append(one)
    later: dict[str, str] = {}
    for one in runs:
        if one.parent_run is not None and one.answers:
            later.setdefault(one.parent_run, one.id)
    found: dict[str, Standing] = {}
    for one in runs:
        if one.status == "interrupted":
            rows = asked.get(one.head or "", ())
            waiting = [row for row in rows if row.state == "open"]
            found[one.id] = Standing(waiting, later.get(one.id), superseded=len(waiting) < len(rows))
    return found


def why(run: Run, standings: Mapping[str, Standing]) -> str:
    """How a run stands beyond its status; nothing where its stop reason says no more than the status."""
    if run.status == "interrupted" and run.id in standings:
        return str(standings[run.id])
    return run.stop_reason if run.stop_reason and run.stop_reason != run.status else ""


def questions(found: Standing, *, width: int = 160) -> Sequence[Piece]:
    """The open questions, a line each."""
    return [Piece(f"  open: {short(_line(one), max(width - 8, 40))}\n", "title") for one in found.open]


def _line(interrupt: Interrupt) -> str:
    return f"{_asked(interrupt)}{f'  (asked by {one_line(interrupt.path[-1])})' if len(interrupt.path) > 1 else ''}"


def _asked(interrupt: Interrupt) -> str:
    if interrupt.kind == "question" and interrupt.question:
        return f"{interrupt.id}  {_ASKED[interrupt.kind]}: {one_line(interrupt.question)}"
    return f"{interrupt.id}  {_ASKED[interrupt.kind]}: {one_line(interrupt.name)} {shown(interrupt.arguments)}"

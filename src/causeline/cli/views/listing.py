"""Sessions and runs as tables: what stands in a row, and how long ago a time was.

Law: pure. The time it is now is an argument.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from causeline.cli.views.open_questions import Standing, why
from causeline.cli.views.run_end import tokens
from causeline.cli.views.trace import asked
from causeline.plain_text import counted
from causeline.runtime.lease import evidently_gone
from causeline.runtime.records import Run, Session

_UNITS = ((86_400 * 365, "year"), (86_400 * 30, "month"), (86_400, "day"), (3_600, "hour"), (60, "minute"))
_NOW = 10
"""Seconds within which something happened just now."""


def ago(time: str | None, now: datetime) -> str:
    """A stored time (ISO 8601) as how long ago it was, in its largest unit; `-` where there is none."""
    if not time:
        return "-"
    seconds = (now - datetime.fromisoformat(time).astimezone(UTC)).total_seconds()
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    return "just now" if seconds < _NOW else f"{int(seconds)} seconds ago"


def nobody_drives(run: Run) -> bool:
    """Whether a run that counts as running is seen to have lost its process. False says nothing."""
    return run.status == "running" and run.holder is not None and evidently_gone(run.holder)


def below(run: Run) -> bool:
    """Whether a call of another run started this one."""
    return run.parent_call is not None


def run_rows(runs: Sequence[Run], standings: Mapping[str, Standing], now: datetime) -> list[Sequence[str]]:
    """A head line, and a line for each run. The column FROM is there when a run began elsewhere than at the end of its session."""
    forked = any(run.at and not run.answers for run in runs)
    rows: list[Sequence[str]] = [("RUN", "SESSION", "STARTED", "STATUS", *(("FROM",) if forked else ()), "WHY", "TOKENS", "QUESTION")]
    for run in runs:
        origin = ((run.at or "-") if not run.answers else "-",) if forked else ()
        rows.append(
            (run.id, run.session, ago(run.started_at or run.created_at, now), _status(run), *origin, why(run, standings) or "-",
             tokens(run.usage) or "-", asked(run))
        )  # fmt: skip
    return rows


def session_rows(sessions: Sequence[Session], runs: Mapping[str, Sequence[Run]], now: datetime) -> list[Sequence[str]]:
    """A head line, and a line for each session: when it changed, how many runs it has, how the last one stands, what was asked first."""
    rows: list[Sequence[str]] = [("SESSION", "UPDATED", "RUNS", "LAST RUN", "AGENT", "FIRST QUESTION")]
    for session in sessions:
        own = runs.get(session.id, ())
        last, first = (_status(own[-1]), asked(own[0])) if own else ("-", "-")
        rows.append((session.id, ago(session.updated_at, now), str(len(own)), last, own[-1].agent if own else "-", first))
    return rows


def _status(run: Run) -> str:
    return "nobody drives it" if nobody_drives(run) else run.status

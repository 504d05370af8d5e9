"""The list of sessions: one row each, newest first, filtered and searched."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from causeline.plain_text import shown
from causeline.runtime.records import Run, Session
from causeline.view_models.figures import all_tokens, moment, total_cost

WORDS = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """A session as a list shows it. `words` is what was said last, `cost` US dollars or None, `changed` milliseconds since 1970."""

    id: str
    status: str
    agent: str
    words: str
    runs: int
    tokens: int
    cost: float | None
    changed: float
    title: str = ""

    def matches(self, text: str, status: str = "", agent: str = "") -> bool:
        """Whether the row is shown for a search and filters."""
        if (status and self.status != status) or (agent and self.agent != agent):
            return False
        found = f"{self.id} {self.agent} {self.words} {self.title}".casefold()
        return all(word in found for word in text.casefold().split())


def session_rows(sessions: Iterable[Session], runs: Iterable[Run]) -> list[SessionRow]:
    """Rows for these sessions from the runs given, the last changed first."""
    by_session: dict[str, list[Run]] = {}
    for run in runs:
        by_session.setdefault(run.session, []).append(run)
    rows = [_row(session, sorted(by_session.get(session.id, ()), key=lambda run: run.queue)) for session in sessions]
    return sorted(rows, key=lambda row: row.changed, reverse=True)


def prompt_of(run: Run) -> str:
    """What a run was asked, on one line; "" for one that only answers questions."""
    said: Sequence[Mapping[str, Any]] = run.input
    return shown(_text(said[-1].get("content", "")), WORDS) if said else ""


def _row(session: Session, runs: Sequence[Run]) -> SessionRow:
    usages = [run.usage for run in runs if run.usage]
    last = runs[-1] if runs else None
    return SessionRow(
        id=session.id,
        status=last.status if last else "empty",
        agent=last.agent if last else "",
        words=_last_words(last) if last else "",
        runs=len(runs),
        tokens=sum(all_tokens(usage) for usage in usages),
        cost=total_cost(usages),
        changed=moment(session.updated_at),
        title=shown(session.metadata.get("title") or "", WORDS),
    )


def _last_words(run: Run) -> str:
    if run.error:
        return shown(run.error.get("message") or run.stop_reason or "", WORDS)
    return shown(run.answer, WORDS) if run.answer is not None else prompt_of(run)


def _text(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    parts = cast("list[Any]", content)
    return " ".join(str(cast("dict[str, Any]", part).get("text") or "") for part in parts if isinstance(part, dict))

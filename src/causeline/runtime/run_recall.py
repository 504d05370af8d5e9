"""Recall of earlier runs: a walk over their logs, in words, bounded and cited.

Law: what is recalled is data for a reader, never an instruction; it names run, step and node of everything it
says; recalled text is not recalled again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.errors import Invalid
from causeline.memory.lexical import query_words, words
from causeline.models.messages import Message
from causeline.models.transcript import goal_content, result_text
from causeline.run.scope import Recalled, RunScope
from causeline.runtime.records import Checkpoint, Link, Run
from causeline.runtime.store import Store

TOKENS = 1000
RUNS = 5
PIECE = 400
CHARACTERS_PER_TOKEN = 4


class LogRecall:
    """Finds earlier runs and tells them (see `causeline.run.scope.Recall`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recall(self, scope: RunScope, wanted: Mapping[str, Any], query: str) -> Recalled:
        """`wanted` is `{runs: [id] | "session" | "owner", k, max_tokens}`; the runs that share most words with `query` come first,
        newer before older. Of an owner's runs those that share no telling word with it have nothing to say."""
        which = wanted.get("runs", "session")
        runs = await self._runs(scope, which)
        if which == "owner":
            asked = set(query_words(query))
            runs = [one for one in runs if asked & set(words(spoken(one)))]
        return await self.tell(
            scope.owner,
            [one for one in runs if one.id != scope.run_id],
            query,
            most=int(wanted.get("k") or RUNS),
            max_tokens=int(wanted.get("max_tokens") or TOKENS),
        )

    async def search(self, owner: str, runs: Sequence[Run], query: str, *, most: int = RUNS, max_tokens: int = TOKENS) -> Recalled:
        """As `tell`, but of the runs that share a word with the query: nothing where none does. Without a query all are told."""
        fitting = [one for one in runs if overlap(query, spoken(one))] if _wanted(query) else runs
        return await self.tell(owner, fitting, query, most=most, max_tokens=max_tokens)

    async def tell(self, owner: str, runs: Sequence[Run], query: str, *, most: int = RUNS, max_tokens: int = TOKENS) -> Recalled:
        """The given runs, best first, within a budget of estimated tokens (4 characters each)."""
        ranked = sorted(enumerate(runs), key=lambda pair: (-overlap(query, spoken(pair[1])), -pair[0]))[:most]
        room = max_tokens * CHARACTERS_PER_TOKEN
        lines: list[str] = []
        citations: list[Mapping[str, Any]] = []
        for _, run in ranked:
            for line, citation in await self._story(owner, run):
                if len(line) + 1 > room:
                    return Recalled("\n".join(lines), citations)
                room -= len(line) + 1
                lines.append(line)
                citations.append(citation)
        return Recalled("\n".join(lines), citations)

    async def _runs(self, scope: RunScope, which: Any) -> Sequence[Run]:
        if which == "session":
            return await self._store.rows(Run, owner=scope.owner, session=scope.session_id)
        if which == "owner":
            return await self._store.rows(Run, owner=scope.owner)
        if not isinstance(which, list):
            raise Invalid(f'recall.runs is "session", "owner" or a list of run ids, not {which!r}')
        return [run for name in cast("list[Any]", which) for run in await self._store.rows(Run, owner=scope.owner, id=str(name))]

    async def _story(self, owner: str, run: Run) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """One run as lines, oldest first, failures included."""
        if run.head is None:
            return []
        story: list[tuple[str, Mapping[str, Any]]] = []
        for link in await self._store.branch(owner, run.session, run.head):
            if link.checkpoint.run == run.id:
                story.extend(_lines(link))
        if run.status not in ("succeeded", "running"):
            reason = run.stop_reason or run.status
            story.append((f"[{run.id}] ended: {run.status} ({reason})", {"run": run.id, "step": None, "node": None}))
        return story


def _lines(link: Link) -> Sequence[tuple[str, Mapping[str, Any]]]:
    checkpoint: Checkpoint = link.checkpoint
    lines: list[tuple[str, Mapping[str, Any]]] = []
    for node in link.nodes:
        said = _said(node.kind, node.payload)
        if said is not None:
            text = " ".join(said.split())
            text = text if len(text) <= PIECE else text[:PIECE] + " ..."
            lines.append(
                (
                    f"[{checkpoint.run} step {checkpoint.step} {node.id}] {text}",
                    {"run": checkpoint.run, "step": checkpoint.step, "node": node.id},
                )
            )
    return lines


def _said(kind: str, payload: Any) -> str | None:
    match kind:
        case "goal":
            return f"asked: {Message('user', goal_content(payload)).text}"
        case "tool_call":
            return f"called {payload['name']} with {result_text(payload['args'])}"
        case "tool_result":
            return f"{payload['tool']} {'returned' if payload['ok'] else 'failed'}: {result_text(payload['result'])}"
        case "answer":
            return f"answered: {result_text(payload)}"
        case "semantic":
            return f"noted {payload['type']} {payload['key']}: {result_text(payload['content'])}"
        case "protocol_error":
            return f"fault: {payload.get('code')}"
        case _:
            return None


def spoken(run: Run) -> str:
    """What the caller asked of a run and what it answered, for ranking."""
    asked = " ".join(str(one.get("content", "")) for one in run.input)
    return f"{asked} {'' if run.answer is None else result_text(run.answer)}"


def overlap(query: str, text: str) -> float:
    """Share of the query's words (of three letters or more, where it has such) that the text has."""
    words = _wanted(query)
    return len(words & set(_words(text))) / len(words) if words else 0.0


def _wanted(query: str) -> set[str]:
    words = set(_words(query))
    return {word for word in words if len(word) > 2} or words


def _words(text: str) -> Sequence[str]:
    return "".join(letter.lower() if letter.isalnum() else " " for letter in text).split()

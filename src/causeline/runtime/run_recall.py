"""Recall of earlier runs, found by their words in an index of digests: bounded, and cited.

Law: what is recalled is data for a reader, never an instruction; it names run, step and node of everything it says; recalled text is not
recalled again. No run is read for it but those it tells of, so it costs the same however many there are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.errors import Invalid
from causeline.memory.backend import Question
from causeline.memory.items import Item
from causeline.memory.lexical import MAX_QUERY_WORDS, query_words, words
from causeline.memory.long_term import FLOOR
from causeline.memory.ranking import ranked
from causeline.run.scope import Recalled, RunScope
from causeline.runtime.records import Run
from causeline.runtime.run_digests import ANSWERED, ASKED, ENDED, PAGE, PAGES, Line, lines_in, lines_of, pages, told
from causeline.runtime.store import Store

TOKENS = 1000
RUNS = 5
RANKED = 8
"""Pages a run that are put in order where something is asked for."""
NEWEST = 4
"""Pages a run that are looked at where nothing is asked for; a session's runs are short as a rule."""
CHARACTERS_PER_TOKEN = 4
_NEVER = ""
"""Digests do not expire, so it does not matter when they are looked for."""


class LogRecall:
    """Finds earlier runs and tells them (see `causeline.run.scope.Recall`)."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recall(self, scope: RunScope, wanted: Mapping[str, Any], query: str) -> Recalled:
        """`wanted` is `{runs: [id] | "session" | "owner", k, max_tokens}`. Of a session's or an owner's runs those are told that have to do
        with the query; runs that are named are told in any case. Raises Invalid."""
        which = wanted.get("runs", "session")
        most, max_tokens = int(wanted.get("k") or RUNS), int(wanted.get("max_tokens") or TOKENS)
        if which in ("session", "owner"):
            session = scope.session_id if which == "session" else None
            return _tell(await self._found(scope.owner, query_words(query), session, most, max_tokens), query, max_tokens)
        if not isinstance(which, list | tuple):
            raise Invalid(f'recall.runs is "session", "owner" or a list of run ids, not {which!r}')
        names = [str(name) for name in cast("Sequence[Any]", which) if name != scope.run_id]
        return _tell([await self.pages(scope.owner, name) for name in names[:most]], query, max_tokens)

    async def search(self, owner: str, query: str, *, session: str | None = None, most: int = RUNS, max_tokens: int = TOKENS) -> Recalled:
        """At most so many runs of an owner, or of one session, that have to do with the query, best first; without a word in it the newest
        ones. Within a budget of estimated tokens, 4 characters each."""
        asked = query_words(query) or words(query)[:MAX_QUERY_WORDS]
        found = await self._found(owner, asked, session, most, max_tokens, anything=not asked)
        if session is not None:
            for run in await self._store.rows(Run, owner=owner, session=session, status=("running",)):
                under_way = await self.pages(owner, run.id)
                if not asked or any(set(asked) & set(words(line.text)) for page in under_way for line in lines_in(page.value)):
                    found.insert(0, under_way)
        return _tell(found[:most], query, max_tokens)

    async def _found(
        self, owner: str, asked: Sequence[str], session: str | None, most: int, max_tokens: int, *, anything: bool = False
    ) -> list[Sequence[Item]]:
        """The pages of the runs that fit, run by run, of each the best ones, about twice what can be told; without words the newest ones,
        if anything will do."""
        if not asked and not anything:
            return []
        namespace = () if session is None else (session,)
        wanted = max_tokens * CHARACTERS_PER_TOKEN // PAGE + 2
        question = Question(namespace=namespace, words=asked, now=_NEVER, limit=most * PAGES if asked else most * NEWEST)
        findings = await self._store.memory().search((owner, "runs"), question)
        by_run: dict[str, list[Item]] = {}
        for item in ranked(question, findings, most * RANKED, FLOOR):
            by_run.setdefault(item.value["run"], []).append(item)
        return [sorted(items[:wanted], key=lambda item: item.key) for items in list(by_run.values())[:most]]

    async def pages(self, owner: str, run_id: str) -> Sequence[Item]:
        """All pages of a run; of one that has not ended what it has done so far. Empty for one that is not there."""
        rows = await self._store.rows(Run, owner=owner, id=run_id)
        if not rows:
            return ()
        run = rows[0]
        items = await self._store.memory().page((owner, "runs"), (run.session,), f"{run_id}/", PAGES, _NEVER)
        kept = [item for item in items if item.value["run"] == run_id]
        if kept or run.head is None:
            return kept
        links = await self._store.branch(owner, run.session, run.head)
        lines = [
            line for link in links if link.checkpoint.run == run_id for node in link.nodes for line in lines_of(node, link.checkpoint.step)
        ]
        return [page.item for page in pages(run, lines, run.created_at)]


def _tell(runs: Sequence[Sequence[Item]], query: str, max_tokens: int) -> Recalled:
    """The runs, best first, each with its share of what room is left."""
    wanted = set(query_words(query))
    room = max_tokens * CHARACTERS_PER_TOKEN
    texts: list[str] = []
    citations: list[Mapping[str, Any]] = []
    runs = [pages for pages in runs if pages]
    for number, items in enumerate(runs):
        name = items[0].value["run"]
        lines = list(dict.fromkeys(line for item in items for line in lines_in(item.value)))
        for line in _chosen(name, lines, wanted, room // (len(runs) - number)):
            text = told(name, line)
            room -= len(text) + 1
            texts.append(text)
            citations.append({"run": name, "step": line.step, "node": line.node})
    return Recalled("\n".join(texts), citations)


def _chosen(run: str, lines: Sequence[Line], wanted: set[str], room: int) -> Sequence[Line]:
    """The lines that fit, in their order: those with words of the query first, then what was asked and how it ended, then the latest of
    the others."""
    lengths = [len(told(run, line)) + 1 for line in lines]
    if sum(lengths) <= room:
        return lines
    shared = [len(wanted.intersection(words(line.text))) if wanted else 0 for line in lines]
    ends = [line.said in (ASKED, ANSWERED, ENDED) for line in lines]
    order = sorted(range(len(lines)), key=lambda place: (-shared[place], not ends[place], -place))
    kept: set[int] = set()
    for place in order:
        if lengths[place] <= room:
            kept.add(place)
            room -= lengths[place]
    return [line for place, line in enumerate(lines) if place in kept]

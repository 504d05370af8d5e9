"""Long-term memory of one owner: what was kept across sessions, found again by words and by meaning.

Law: no model is called when something is kept. What has nothing to do with a question is not an answer to it. An embedder
that fails costs its share of the ranking, never the call.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol, cast, runtime_checkable

from causeline.causal import InvalidValue, canonical
from causeline.causal.view.words import text_of
from causeline.errors import Invalid
from causeline.graph.engine.control import SystemClock
from causeline.memory.backend import Collection, MemoryBackend, Question
from causeline.memory.items import Item, StoredItem, checked_filter, checked_name, checked_namespace
from causeline.memory.lexical import query_words, words
from causeline.memory.ranking import ranked
from causeline.memory.vectors import packed
from causeline.policy import Clock, iso

K, FLOOR = 5, 0.05
MAX_K = 1_000
MAX_EMBEDDED = 8_000
"""Characters of one text that an embedder gets."""
_LOG = logging.getLogger("causeline.memory")


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors, all of one size."""

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...


Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]


class Memories:
    """The memories of all owners in one store."""

    def __init__(self, backend: MemoryBackend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock

    def of(self, owner: str, embedder: "Embedder | Embed | None" = None) -> "LongTermMemory":
        """Those of one owner."""
        return LongTermMemory(self._backend, owner=owner, embedder=embedder, clock=self._clock)


class LongTermMemory:
    """See the module. A namespace is a tuple of texts; a search also finds what is in deeper ones."""

    def __init__(
        self, backend: MemoryBackend, *, owner: str = "default", embedder: Embedder | Embed | None = None, clock: Clock | None = None
    ) -> None:
        self.owner = checked_name("owner", owner)
        self._where: Collection = (owner, "memories")
        self._backend = backend
        self._embed: Embed | None = embedder.embed if isinstance(embedder, Embedder) else embedder
        self._clock = clock or SystemClock()

    def with_embedder(self, embedder: Embedder | Embed | None) -> "LongTermMemory":
        """The same memory, found by meaning too; None: as it is."""
        return self if embedder is None else LongTermMemory(self._backend, owner=self.owner, embedder=embedder, clock=self._clock)

    def of(self, owner: str) -> "LongTermMemory":
        """The memory of another owner in the same place."""
        return LongTermMemory(self._backend, owner=owner, embedder=self._embed, clock=self._clock)

    async def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: Any,
        *,
        text: str | None = None,
        ttl: float | timedelta | None = None,
        source: Mapping[str, Any] | None = None,
    ) -> Item:
        """Keep a JSON value, in the place of an older one with this key; returns it once it is durable.

        `text` is what is searched, the value's own texts unless given. It expires `ttl` seconds from now. `source` says where it is
        from, `{run, step, node}`. Raises Invalid.
        """
        item = item_of(namespace, key, value, now=self._clock.now(), text=text, ttl=ttl, source=source)
        await self._backend.put(self._where, [StoredItem(item=item, words=words(item.text), vector=await self._vector(item.text))])
        return item

    async def get(self, namespace: Sequence[str], key: str) -> Item | None:
        """The memory with this key; None where there is none, or no longer."""
        return await self._backend.get(self._where, *_place(namespace, key), iso(self._clock.now()))

    async def search(
        self, namespace: Sequence[str], query: str = "", *, k: int = K, min_score: float = FLOOR, filter: Mapping[str, Any] | None = None
    ) -> list[Item]:
        """The `k` memories that fit the query best, in this namespace and deeper ones; without a query the newest.

        `filter` looks at values before the best are chosen: `{path: value}`, `{path: [values]}`, `{"$and" | "$or": [filters]}`. A score
        is the share of the query's words that a memory has, rare words counting more and repetition a little, or the likeness of
        the vectors where that is greater. What scores below `min_score` is left out. Raises Invalid.
        """
        if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from callers
            raise Invalid(f"a query is text, not {type(query).__name__}")
        if isinstance(k, bool) or not isinstance(k, int) or not 0 < k <= MAX_K:  # pyright: ignore[reportUnnecessaryIsInstance] - as above
            raise Invalid(f"k is a number from 1 to {MAX_K}, not {k!r}")
        question = Question(
            namespace=checked_namespace(namespace, whole=False),
            words=query_words(query),
            vector=await self._vector(query),
            filter=checked_filter({} if filter is None else filter),
            now=iso(self._clock.now()),
            limit=k,
        )
        if query.strip() and not question.words and question.vector is None:
            return []
        return ranked(question, await self._backend.search(self._where, question), k, min_score)

    async def delete(self, namespace: Sequence[str], key: str) -> bool:
        """Forget one; whether it was there. When this returns, no read finds it."""
        return await self._backend.delete(self._where, *_place(namespace, key))

    async def list(self, namespace: Sequence[str], *, after: str | None = None, limit: int = 100) -> list[Item]:
        """The memories of exactly this namespace in the order of their keys, those behind the key `after`."""
        if limit < 1:
            raise Invalid(f"limit is a number from 1, not {limit!r}")
        place = checked_namespace(namespace, whole=True)
        return [*await self._backend.page(self._where, place, after, limit, iso(self._clock.now()))]

    async def _vector(self, text: str) -> bytes | None:
        if self._embed is None or not text.strip():
            return None
        try:
            (vector,) = await self._embed([text[:MAX_EMBEDDED]])
            return packed(vector)
        except Exception as error:  # noqa: BLE001 - whatever an embedder does wrong, words still find the memory
            _LOG.warning("the embedder failed, so words alone count: %s", error)
            return None


def item_of(
    namespace: Any,
    key: Any,
    value: Any,
    *,
    now: float,
    text: str | None = None,
    ttl: float | timedelta | None = None,
    source: Mapping[str, Any] | None = None,
) -> Item:
    """A checked memory, made at `now`, seconds. Raises Invalid."""
    try:
        canonical(value)
    except InvalidValue as error:
        raise Invalid(f"the value of a memory is JSON: {error.message}") from error
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if seconds is not None and not seconds > 0:
        raise Invalid(f"ttl is a number of seconds above 0, not {seconds!r}")
    if text is not None and not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - from callers
        raise Invalid(f"text is text, not {type(text).__name__}")
    place, name = _place(namespace, key)
    return Item(
        namespace=place,
        key=name,
        value=value,
        text=text_of(value) if text is None else text,
        source=_source(source),
        created_at=iso(now),
        expires_at=None if seconds is None else iso(now + seconds),
    )


def _source(source: Any) -> Mapping[str, Any] | None:
    if source is None:
        return None
    table = cast("Mapping[Any, Any]", source)
    if not isinstance(source, Mapping) or not {"run", "step", "node"}.issuperset(table):
        raise Invalid(f"source is {{run, step, node}}, not {source!r:.80}")
    return dict(table)


def _place(namespace: Any, key: Any) -> tuple[tuple[str, ...], str]:
    return checked_namespace(namespace, whole=True), checked_name("key", key)

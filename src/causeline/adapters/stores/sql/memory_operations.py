"""What keeping and finding memories does, as `writes` says what a commit does: queries out, rows in.

Law: who looks for a word looks among the items of one collection alone, because the word is stored under its number.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from heapq import nsmallest
from typing import Any, TypeVar

from causeline.adapters.stores.sql import encoding
from causeline.adapters.stores.sql.operation import Operation
from causeline.memory.backend import CANDIDATES, COMMON, Collection, Findings, FoundItem, Question, rarest
from causeline.memory.items import Item, StoredItem, fits
from causeline.memory.lexical import length
from causeline.memory.vectors import far, signature

T = TypeVar("T")
Index = Callable[[int, int, bytes], Operation[None]]
"""Gives the vector of an item, by its number and its collection, to what compares vectors."""
Near = Callable[[int, Sequence[bytes], str, bytes, int], Operation[list[int]]]
"""The numbers of at most so many items of a collection and a range of namespaces, alive now, whose vectors are the nearest."""
DIGESTS = "runs"
"""The collections of digests of runs, which do not expire."""
_LAST = 2**62
_FETCHED = 100


class SqlItems:
    """See `causeline.memory.backend.MemoryBackend`; `read` and `write` run an operation in the store's own way."""

    def __init__(
        self,
        read: Callable[[Callable[[], Operation[Any]]], Awaitable[Any]],
        write: Callable[[Callable[[], Operation[Any]]], Awaitable[Any]],
    ) -> None:
        self._read = read
        self._write = write

    async def put(self, where: Collection, rows: Sequence[StoredItem]) -> None:
        await self._write(partial(put, where, [columns(row) for row in rows]))

    async def get(self, where: Collection, namespace: tuple[str, ...], key: str, now: str) -> Item | None:
        return await self._read(partial(_get, where, _place(namespace), encoding.text_bytes(key), now))

    async def delete(self, where: Collection, namespace: tuple[str, ...], key: str) -> bool:
        return await self._write(partial(_delete, where, _place(namespace), encoding.text_bytes(key)))

    async def page(self, where: Collection, namespace: tuple[str, ...], after: str | None, limit: int, now: str) -> Sequence[Item]:
        return await self._read(partial(_page, where, _place(namespace), encoding.text_bytes(after or ""), limit, now))

    async def search(self, where: Collection, question: Question) -> Findings:
        return await self._read(partial(search, where, question))


def columns(row: StoredItem) -> Sequence[Any]:
    """An item, encoded: what `memory_add` takes behind the collection, then its vector. Raises Invalid."""
    item = row.item
    source = None if item.source is None else dict(item.source)
    body = encoding.dump_small([item.value, item.text, source])
    words = " ".join(row.words).encode()
    place, key = _place(item.namespace), encoding.text_bytes(item.key)
    return place, key, item.created_at, item.expires_at, length(row.words), words, body, row.vector


def put(where: Collection, rows: Sequence[Sequence[Any]], index: Index | None = None) -> Operation[None]:
    """Keep items, each in the place of an older one; what has expired meanwhile makes room. Vectors are also given to `index`."""
    ((collection,),) = yield "memory_set_lock", (*where, len(rows), sum(row[4] for row in rows))
    gone: list[Sequence[Any]] = []
    for row in rows:
        old = list((yield "memory_remove", (collection, *row[:2])))
        if where[1] != DIGESTS:
            old += yield "memory_remove_expired", (collection, row[2])
        yield from _unlist(collection, old)
        gone += old
        found_by = _found_by(collection, row[5])
        ((number, is_found),) = yield "memory_add", (collection, *row[:7], found_by)
        if not is_found:
            yield "memory_words_add", (number, found_by)
        if row[7] is not None:
            yield "memory_vector_add", (number, collection, signature(row[7]), row[7])
            if index is not None:
                yield from index(number, collection, row[7])
    yield from _discount(collection, gone)


def clear(where: Collection, namespace: tuple[str, ...]) -> Operation[None]:
    """Remove a namespace with all below it."""
    ((collection,),) = yield "memory_set_lock", (*where, 0, 0)
    gone = yield "memory_remove_below", (collection, *_range(namespace))
    yield from _forget(collection, gone)


def _delete(where: Collection, namespace: bytes, key: bytes) -> Operation[bool]:
    ((collection,),) = yield "memory_set_lock", (*where, 0, 0)
    gone = yield "memory_remove", (collection, namespace, key)
    yield from _forget(collection, gone)
    return bool(gone)


def _forget(collection: int, gone: Sequence[Sequence[Any]]) -> Operation[None]:
    yield from _unlist(collection, gone)
    yield from _discount(collection, gone)


def _discount(collection: int, gone: Sequence[Sequence[Any]]) -> Operation[None]:
    """Count removed items no more."""
    if gone:
        yield "memory_set_count", (collection, -len(gone), -sum(row[1] for row in gone))


def _unlist(collection: int, gone: Sequence[Sequence[Any]]) -> Operation[None]:
    """Take the words and vectors of removed items away."""
    for number, _, words in gone:
        yield "memory_words_remove", (number, _found_by(collection, words))
        yield "memory_vector_remove", (number,)


def _get(where: Collection, namespace: bytes, key: bytes, now: str) -> Operation[Item | None]:
    known = yield "memory_set", where
    if not known:
        return None
    rows = yield "memory_get", (known[0][0], namespace, key, now)
    return _item(rows[0]) if rows else None


def _page(where: Collection, namespace: bytes, after: bytes, limit: int, now: str) -> Operation[Sequence[Item]]:
    known = yield "memory_set", where
    if not known:
        return ()
    rows = yield "memory_page", (known[0][0], namespace, after, now, limit)
    return [_item(row) for row in rows]


def search(where: Collection, question: Question, near: Near | None = None) -> Operation[Findings]:
    """See `MemoryBackend.search`. `near` finds the nearest vectors where the database can."""
    known = yield "memory_set", where
    if not known:
        return Findings()
    collection, items, length = known[0]
    frequencies: dict[str, int] = {}
    for word in question.words:
        ((frequencies[word],),) = yield "memory_word_count", (f"{collection}_{word}", COMMON)
    lexical: list[FoundItem] = []
    chosen = rarest(frequencies)
    if chosen:
        words = " ".join(f"{collection}_{word}" for word in chosen)
        lexical = yield from _newest("memory_lexical", words, question, CANDIDATES)
    elif not question.words and question.vector is None:
        lexical = yield from _newest("memory_newest", collection, question, question.limit)
    nearest = yield from _nearest(collection, question, near)
    return Findings(items=items, words=length, frequencies=frequencies, lexical=lexical, nearest=nearest)


def _newest(query: str, first: Any, question: Question, most: int) -> Operation[list[FoundItem]]:
    """The newest rows of a query that the filter lets through."""
    found: list[FoundItem] = []
    before = _LAST
    while True:
        rows = yield query, (first, *_range(question.namespace), question.now, before, most)
        found += _let_through(rows, question)
        if len(rows) < most or len(found) >= most:
            return found[:most]
        before = rows[-1][6]


def _nearest(collection: int, question: Question, near: Near | None) -> Operation[list[FoundItem]]:
    if question.vector is None:
        return []
    size, most = len(question.vector), max(question.limit * 4, 50)
    if near is not None:
        ordered = yield from near(collection, _range(question.namespace), question.now, question.vector, most)
    else:
        ordered = yield from _sieved(collection, question, question.vector, most)
    found: list[FoundItem] = []
    for start in range(0, len(ordered), _FETCHED):
        numbers = ordered[start : start + _FETCHED]
        places = ", ".join(f"${place}" for place in range(2, len(numbers) + 2))
        fetched = yield f"memory_embedded AND v.no IN ({places})", (collection, *numbers)
        found += [row for row in _let_through(fetched, question) if row.vector is not None and len(row.vector) == size]
        if len(found) >= most:
            break
    return found


def _sieved(collection: int, question: Question, vector: bytes, most: int) -> Operation[list[int]]:
    """The numbers of the items whose signatures differ least: those that are looked at closely, or with a filter all of them."""
    wanted = signature(vector)
    bits = int.from_bytes(wanted, "big")
    rows = yield "memory_signatures", (collection, *_range(question.namespace), question.now)
    distances = [(far(bits, int.from_bytes(row[1], "big")), row[0]) for row in rows if len(row[1]) == len(wanted)]
    return [number for _, number in (sorted(distances) if question.filter else nsmallest(most, distances))]


def _let_through(rows: Sequence[Sequence[Any]], question: Question) -> Iterator[FoundItem]:
    for row in rows:
        found = _FoundRow(row)
        if not question.filter or fits(found.item.value, question.filter):
            yield found


class _FoundRow:
    """See `FoundItem`: of the rows that are looked at few are told, so their bodies are read when they are."""

    __slots__ = ("_read", "_row", "vector", "words")

    def __init__(self, row: Sequence[Any]) -> None:
        self._row = row
        self._read: Item | None = None
        self.words: Sequence[str] = row[5].decode().split()
        self.vector: bytes | None = row[7]

    @property
    def item(self) -> Item:
        """The item itself."""
        if self._read is None:
            self._read = _item(self._row)
        return self._read


def _item(row: Sequence[Any]) -> Item:
    value, text, source = encoding.load(row[4])
    place, key = _parts(row[0]), encoding.bytes_text(row[1])
    return Item(namespace=place, key=key, value=value, text=text, source=source, created_at=row[2], expires_at=row[3])


def _found_by(collection: int, words: bytes) -> str:
    """The words as they are found. How often an item has one is counted elsewhere."""
    return " ".join(f"{collection}_{word}" for word in Counter(words.decode().split()))


def _place(namespace: tuple[str, ...]) -> bytes:
    """Each part ended by a zero byte; a zero or one within it is written as two bytes."""
    parts = [encoding.text_bytes(part).replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01") for part in namespace]
    return b"".join(part + b"\x00" for part in parts)


def _parts(place: bytes) -> tuple[str, ...]:
    parts = place.split(b"\x00")[:-1]
    return tuple(encoding.bytes_text(part.replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01")) for part in parts)


def _range(namespace: tuple[str, ...]) -> tuple[bytes, bytes]:
    """From the namespace itself to the end of what is below it; no text has the byte 255."""
    place = _place(namespace)
    return place, place + b"\xff"

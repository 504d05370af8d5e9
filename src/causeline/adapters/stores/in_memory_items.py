"""Memories in this process: a real backend under the same laws as the SQL ones."""

from collections.abc import Iterable, Sequence
from itertools import count, islice

from causeline.memory.backend import CANDIDATES, COMMON, Collection, Findings, Question, rarest
from causeline.memory.items import Item, StoredItem, fits
from causeline.memory.lexical import length
from causeline.memory.vectors import far, signature

Place = tuple[tuple[str, ...], str]


class _Collection:
    """Items by place and by number, and the numbers of the items with a word. Numbers grow."""

    def __init__(self) -> None:
        self.rows: dict[int, StoredItem] = {}
        self.numbers: dict[Place, int] = {}
        self.holders: dict[str, dict[int, None]] = {}
        self.words = 0

    def remove(self, place: Place) -> bool:
        number = self.numbers.pop(place, None)
        if number is None:
            return False
        row = self.rows.pop(number)
        self.words -= length(row.words)
        for word in set(row.words):
            del self.holders[word][number]
            if not self.holders[word]:
                del self.holders[word]
        return True

    def add(self, number: int, row: StoredItem) -> None:
        self.numbers[row.item.namespace, row.item.key] = number
        self.rows[number] = row
        self.words += length(row.words)
        for word in set(row.words):
            self.holders.setdefault(word, {})[number] = None


class InMemoryItems:
    """See `causeline.memory.backend.MemoryBackend`. `put_now` and `clear` are for the store that commits them with a step."""

    def __init__(self) -> None:
        self._collections: dict[Collection, _Collection] = {}
        self._numbers = count(1)

    async def put(self, where: Collection, rows: Sequence[StoredItem]) -> None:
        self.put_now(where, rows)

    def put_now(self, where: Collection, rows: Sequence[StoredItem]) -> None:
        """As `put`."""
        collection = self._collections.setdefault(where, _Collection())
        for row in rows:
            collection.remove((row.item.namespace, row.item.key))
            collection.add(next(self._numbers), row)

    def clear(self, where: Collection, namespace: tuple[str, ...]) -> None:
        """Remove a namespace with all below it."""
        collection = self._collections.get(where, _Collection())
        for place in [place for place in collection.numbers if place[0][: len(namespace)] == namespace]:
            collection.remove(place)

    async def get(self, where: Collection, namespace: tuple[str, ...], key: str, now: str) -> Item | None:
        collection = self._collections.get(where, _Collection())
        number = collection.numbers.get((namespace, key))
        item = None if number is None else collection.rows[number].item
        return item if item is not None and _lives(item, now) else None

    async def delete(self, where: Collection, namespace: tuple[str, ...], key: str) -> bool:
        return self._collections.get(where, _Collection()).remove((namespace, key))

    async def page(self, where: Collection, namespace: tuple[str, ...], after: str | None, limit: int, now: str) -> Sequence[Item]:
        collection = self._collections.get(where, _Collection())
        items = (collection.rows[number].item for (place, _), number in collection.numbers.items() if place == namespace)
        fitting = (item for item in items if _lives(item, now) and (after is None or _order(item.key) > _order(after)))
        return sorted(fitting, key=lambda item: _order(item.key))[:limit]

    async def search(self, where: Collection, question: Question) -> Findings:
        collection = self._collections.get(where)
        if collection is None:
            return Findings()
        frequencies = {word: min(len(collection.holders.get(word, ())), COMMON) for word in question.words}
        lexical: list[StoredItem] = []
        if question.words:
            numbers: set[int] = set()
            for word in rarest(frequencies):
                numbers.update(collection.holders[word])
            lexical = list(islice(_asked_for(collection, question, sorted(numbers, reverse=True)), CANDIDATES))
        elif question.vector is None:
            lexical = list(islice(_asked_for(collection, question, reversed(collection.rows)), question.limit))
        return Findings(
            items=len(collection.rows), words=collection.words, frequencies=frequencies, lexical=lexical,
            nearest=_nearest(collection, question),
        )  # fmt: skip


def _nearest(collection: _Collection, question: Question) -> list[StoredItem]:
    if question.vector is None:
        return []
    wanted = int.from_bytes(signature(question.vector), "big")
    embedded = [number for number, row in collection.rows.items() if row.vector is not None]
    rows = list(_asked_for(collection, question, embedded))
    rows.sort(key=lambda row: far(wanted, int.from_bytes(signature(row.vector or b""), "big")))
    return rows[: max(question.limit * 4, 50)]


def _asked_for(collection: _Collection, question: Question, numbers: Iterable[int]) -> Iterable[StoredItem]:
    """The rows with these numbers that are in the namespace, alive and let through by the filter."""
    depth = len(question.namespace)
    for number in numbers:
        row = collection.rows[number]
        item = row.item
        if item.namespace[:depth] == question.namespace and _lives(item, question.now) and fits(item.value, question.filter):
            yield row


def _lives(item: Item, now: str) -> bool:
    return item.expires_at is None or item.expires_at > now


def _order(key: str) -> bytes:
    """Keys are in the order of their bytes, as databases have it."""
    return key.encode()

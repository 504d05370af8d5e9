"""What keeps memories: the part of a store that searches.

Promises, checked by `causeline.testing.memory_laws` on every backend:
- a call that returned is durable, and a memory is found, and no longer found, from then on;
- what another owner put is not there: neither its items, nor how often they have a word;
- a memory that has expired is not there, and takes no place of one that has not;
- filters and namespaces are applied before the best are chosen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from causeline.memory.items import Item, StoredItem

Collection = tuple[str, Literal["memories", "runs"]]
"""An owner's memories, or the digests of an owner's runs. Nothing is shared between two."""

CANDIDATES = 500
"""Items with words of the question that are looked at closely."""
COMMON = 5_000
"""From here on a word is common, and nobody counts further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked for: items of a namespace and of deeper ones. Without words and vector the newest ones."""

    namespace: tuple[str, ...]
    words: Sequence[str] = ()
    vector: bytes | None = None
    filter: Mapping[str, Any] = field(default_factory=dict[str, Any])
    now: str
    limit: int


class FoundItem(Protocol):
    """A memory that was found: as a StoredItem, or one that reads its item when it is looked at."""

    @property
    def item(self) -> Item: ...
    @property
    def words(self) -> Sequence[str]: ...
    @property
    def vector(self) -> bytes | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What may be the answer, and what its ranking needs: how many items and words the collection has, and in how many items each
    word of the question is. `lexical` are the newest of the items with the rarest words, or without words the newest of all;
    `nearest` are those whose vectors are about the nearest."""

    items: int = 0
    words: int = 0
    frequencies: Mapping[str, int] = field(default_factory=dict[str, int])
    lexical: Sequence[FoundItem] = ()
    nearest: Sequence[FoundItem] = ()


class MemoryBackend(Protocol):
    """All methods raise Unavailable when the backend does not answer in time."""

    async def put(self, where: Collection, rows: Sequence[StoredItem]) -> None:
        """Keep these, each in the place of an older one with its namespace and key."""
        ...

    async def get(self, where: Collection, namespace: tuple[str, ...], key: str, now: str) -> Item | None: ...

    async def delete(self, where: Collection, namespace: tuple[str, ...], key: str) -> bool:
        """Whether there was one."""
        ...

    async def page(self, where: Collection, namespace: tuple[str, ...], after: str | None, limit: int, now: str) -> Sequence[Item]:
        """Items of exactly this namespace in the order of their keys."""
        ...

    async def search(self, where: Collection, question: Question) -> Findings: ...


def rarest(frequencies: Mapping[str, int]) -> list[str]:
    """The words to look up: the rarest first, until they are in about CANDIDATES items together; at least one that is in any."""
    chosen: list[str] = []
    total = 0
    for word, number in sorted(frequencies.items(), key=lambda pair: pair[1]):
        if not number:
            continue
        total += number
        if chosen and total > CANDIDATES:
            break
        chosen.append(word)
    return chosen

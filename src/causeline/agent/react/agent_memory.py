"""Long-term memory in a run: what bears on the user's words is put before the model, and what is noted is kept.

Law: a memory that cannot be asked costs its answer, never the run. What was recalled in a turn is not learnt again in it.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import causeline.memory as memory_package
from causeline.agent.system_prompt import SLOT, context_value
from causeline.causal import CausalNode
from causeline.causal.payload import as_text, fields, is_forgotten, recalled_text
from causeline.errors import Invalid
from causeline.memory.backend import Collection
from causeline.memory.items import Item, StoredItem
from causeline.memory.lexical import words
from causeline.memory.long_term import FLOOR, Embed, Embedder, K, LongTermMemory, Memories, item_of
from causeline.memory.shared import OpenMemory, SharedMemory
from causeline.run.scope import Recalled, RunScope, merged

HEADER = "Relevant memories:"
NAMESPACE = ("memories",)
PATIENCE = 10.0
"""Seconds that a run waits for a memory."""
_LINE = 1_000
"""Characters of one memory that are put before the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """The option `memory`, taken apart. `store` is a memory, its address, or None for the runtime's own store; `embedder` an embedder, its
    name, or a table `{model, base_url?, api_key_env?, dimensions?}`."""

    store: Any = None
    namespace: tuple[str, ...] = NAMESPACE
    k: int = K
    header: str = HEADER
    min_score: float = FLOOR
    embedder: Any = None

    @classmethod
    def of(cls, option: Any) -> "MemoryOptions | None":
        """From an option that has passed its rule."""
        if option is None:
            return None
        if not isinstance(option, Mapping):
            return cls(store=option)
        given: dict[str, Any] = {key: value for key, value in cast("Mapping[str, Any]", option).items() if value is not None}
        if "namespace" in given:
            given["namespace"] = (given["namespace"],) if isinstance(given["namespace"], str) else tuple(given["namespace"])
        return cls(**given)


class MemoryPlace:
    """The memory that an option `memory` names, for all runs of an agent: a memory at an address is open while a run uses it."""

    def __init__(self, option: Any, open_memory: OpenMemory | None) -> None:
        self._options = MemoryOptions.of(option)
        store = self._options.store if self._options is not None else None
        self._outside: Any = SharedMemory(store, open_memory) if isinstance(store, str) and open_memory is not None else store
        self._embedder = _embedder_of(self._options.embedder) if self._options is not None else None

    def of(self, scope: RunScope) -> "AgentMemory | None":
        """A run's view of it; None for an agent without one."""
        return AgentMemory(self._options, scope, self._outside, self._embedder) if self._options is not None else None

    async def open(self) -> None:
        """A run begins. Nothing is raised: a memory that cannot be opened says so when it is asked."""
        if isinstance(self._outside, SharedMemory):
            await self._outside.enter()

    async def close(self) -> None:
        """A run has ended."""
        if isinstance(self._outside, SharedMemory):
            await self._outside.leave()


class AgentMemory:
    """One run's view of the memory. `outside` is a memory that is not the runtime's own store."""

    def __init__(
        self,
        options: MemoryOptions,
        scope: RunScope,
        outside: LongTermMemory | SharedMemory | None,
        embedder: Embedder | Embed | None = None,
    ) -> None:
        self.options = options
        self._scope = scope
        self._outside = outside
        self._embedder = embedder
        self._recalled: frozenset[str] = frozenset()

    def namespace(self) -> tuple[str, ...]:
        """The namespace of this run. Raises Invalid where a part of it names what the run does not have."""
        return tuple(SLOT.sub(self._value, part) for part in self.options.namespace)

    def _value(self, slot: re.Match[str]) -> str:
        name = slot.group(1)
        scope = self._scope
        values: dict[str, Any] = {"owner": scope.owner, "session.id": scope.session_id}
        value = values[name] if name in values else context_value(name, merged(scope.before, scope.context or {}))
        if value is None or value == "":
            raise Invalid(f"memory.namespace: this run has no {name}, which {slot.string!r} names", code="namespace")
        return as_text(value)

    async def search(self, own: Memories | None, query: str) -> Recalled:
        """What the memory has for these words, each thing once, best first. Raises what the memory raises."""
        async with asyncio.timeout(PATIENCE):
            async with self._used(own) as memory:
                found = await memory.search(self.namespace(), query, k=self.options.k, min_score=self.options.min_score)
        lines: dict[str, Item] = {}
        for item in found:
            text = " ".join(item.text.split())
            lines.setdefault(text if len(text) <= _LINE else f"{text[:_LINE]} ...", item)
        if not lines:
            return Recalled("", [])
        return Recalled("\n".join([self.options.header, *(f"- {line}" for line in lines)]), [_citation(item) for item in lines.values()])

    def store(self, own: Memories | None) -> LongTermMemory | None:
        """The memory itself, for a tool; None where there is none."""
        return self._memory(own).with_embedder(self._embedder) if self._outside is not None or own is not None else None

    def take_up(self, node: CausalNode) -> None:
        """A memory node of this turn: its lines are known already."""
        self._recalled = frozenset(_plain(line[2:]) for line in recalled_text(node.payload).splitlines()[1:])

    def kept(self, nodes: Sequence[CausalNode], step: int, at: float) -> Sequence[tuple[Collection, StoredItem]]:
        """What of a step's nodes is committed with the step: its notes, where the runtime's own store keeps them."""
        if self._outside is not None:
            return ()
        where: Collection = (self._scope.owner, "memories")
        return [(where, StoredItem(item=item, words=words(item.text))) for item in self._items(nodes, step, at)]

    async def put(self, nodes: Sequence[CausalNode], step: int, at: float, own: Memories | None = None) -> None:
        """Keep a step's notes elsewhere, after its commit, or give those that are committed their vectors; doing it twice is doing it once.
        Raises what the memory raises."""
        if self._outside is None and (self._embedder is None or own is None):
            return
        async with asyncio.timeout(PATIENCE), self._used(own) as memory:
            for item in self._items(nodes, step, at):
                if self._outside is None and not await _is_there(memory, item):
                    continue  # somebody else has noted something since
                if item.expires_at is not None:
                    await memory.delete(item.namespace, item.key)
                else:
                    await memory.put(item.namespace, item.key, item.value, text=item.text, source=item.source)

    def _items(self, nodes: Sequence[CausalNode], step: int, at: float) -> Sequence[Item]:
        notes = [node for node in nodes if node.kind == "semantic"]
        return [item for node in notes if _plain((item := self._item(node, step, at)).text) not in self._recalled]

    def _item(self, node: CausalNode, step: int, at: float) -> Item:
        """A note as a memory; of one that takes an earlier note back a memory that has expired when it is made, so that no read finds
        either."""
        note = fields(node.payload)
        if is_forgotten(node.kind, note):
            gone = item_of(self.namespace(), f"{note.get('type')}:{note.get('key')}", None, now=at, text="")
            return replace(gone, expires_at=gone.created_at)
        source = {"run": self._scope.run_id, "step": step, "node": node.id}
        text = as_text(note.get("content"))
        return item_of(self.namespace(), f"{note.get('type')}:{note.get('key')}", note, now=at, text=text, source=source)

    @asynccontextmanager
    async def _used(self, own: Memories | None) -> AsyncGenerator[LongTermMemory, None]:
        if isinstance(self._outside, SharedMemory):
            async with self._outside.used(self._scope.owner) as memory:
                yield memory.with_embedder(self._embedder)
        else:
            yield self._memory(own).with_embedder(self._embedder)

    def _memory(self, own: Memories | None) -> LongTermMemory:
        if isinstance(self._outside, SharedMemory):
            return self._outside.of(self._scope.owner)
        if self._outside is not None:
            return self._outside
        if own is None:
            raise Invalid("memory: there is no store here; name one with memory={'store': ...}")
        return own.of(self._scope.owner)


async def _is_there(memory: LongTermMemory, item: Item) -> bool:
    kept = await memory.get(item.namespace, item.key)
    return kept is not None and kept.source == item.source


def _embedder_of(option: Any) -> Any:
    """An embedder by its name or its table. Raises Invalid for a kind there is not."""
    if isinstance(option, str):
        return memory_package.embedder(option)
    if isinstance(option, Mapping):
        table = {key: value for key, value in cast("Mapping[str, Any]", option).items() if value is not None}
        return memory_package.embedder(table.pop("model"), **table)
    return option


def _citation(item: Item) -> Mapping[str, Any]:
    return {"namespace": list(item.namespace), "key": item.key, "score": item.score, **(item.source or {})}


def _plain(text: str) -> str:
    """A text by which two that say the same are the same."""
    return " ".join(text.split()).casefold()

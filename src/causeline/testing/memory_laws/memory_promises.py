"""Keeping: what was put is there, under its place alone, for its owner alone, until it is replaced, forgotten or expired."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import pytest

from causeline.errors import Invalid
from causeline.memory.backend import MemoryBackend
from causeline.memory.long_term import LongTermMemory


@dataclass(frozen=True)
class MemoryCase:
    """How to open the backend, each time on the same data. `durable` says whether that outlives the process."""

    connect: Callable[[], AbstractAsyncContextManager[MemoryBackend]]
    durable: bool = True


class Hands:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


async def value_at(memory: LongTermMemory, namespace: Sequence[str], key: str) -> Any:
    """The value of a memory that is there."""
    item = await memory.get(namespace, key)
    assert item is not None
    return item.value


class LawsOnMemory:
    """What all laws need."""

    @pytest.fixture
    def case(self) -> MemoryCase:
        """What the laws run on."""
        raise NotImplementedError("give a fixture named case that returns a MemoryCase")

    @pytest.fixture
    async def backend(self, case: MemoryCase) -> AsyncIterator[MemoryBackend]:
        """An open backend on the case's data."""
        async with case.connect() as backend:
            yield backend

    @pytest.fixture
    def clock(self) -> Hands:
        """The time."""
        return Hands()

    @pytest.fixture
    def memory(self, backend: MemoryBackend, clock: Hands) -> LongTermMemory:
        """The memory of the owner `ada`."""
        return LongTermMemory(backend, owner="ada", clock=clock)


class KeepingLaws(LawsOnMemory):
    """See the module."""

    @pytest.mark.parametrize(
        "value", [None, True, 0, 10**30, -1.5, "", "a\x00b \N{SNOWMAN}", [], {}, {"a": [1, {"b": None}], "\x00": 1e-300}, "x" * 100_000]
    )
    async def test_a_value_reads_back_as_it_was_put(self, memory: LongTermMemory, value: Any) -> None:
        put = await memory.put(("n",), "k", value, text="words", source={"run": "r", "step": 2, "node": "cw_1"})
        assert await memory.get(("n",), "k") == put
        assert (put.value, put.text, put.source, put.score) == (value, "words", {"run": "r", "step": 2, "node": "cw_1"}, None)
        assert (put.created_at, put.expires_at) == ("2027-01-15T08:00:00.000Z", None)

    async def test_the_same_key_takes_the_place_of_the_older_one(self, memory: LongTermMemory) -> None:
        await memory.put(("n",), "city", "lives in Lisbon")
        await memory.put(("n",), "city", "lives in Porto")
        assert [item.value for item in await memory.list(("n",))] == ["lives in Porto"]
        assert await memory.search(("n",), "Lisbon") == []
        assert [item.key for item in await memory.search(("n",), "Porto")] == ["city"]

    async def test_no_two_places_are_one(self, memory: LongTermMemory) -> None:
        glued = [(("users", "u1"), "x::k"), (("users", "u1", "x"), "k"), (("users",), "u1::x::k")]
        zeros = [(("a\x00b",), "c"), (("a",), "b\x00c"), (("a\x00",), "c")]
        ones = [(("a\x01", "b"), "c"), (("a", "\x01b"), "c"), (("a\x01\x02b",), "c"), (("a\x01\x01",), "c")]
        places: list[tuple[tuple[str, ...], str]] = [*glued, *zeros, *ones]
        for number, (namespace, key) in enumerate(places):
            await memory.put(namespace, key, number)
        assert [await value_at(memory, *place) for place in places] == list(range(len(places)))
        for number, place in enumerate(places):
            assert await memory.delete(*place)
            assert [await value_at(memory, *other) for other in places[number + 1 :]] == list(range(number + 1, len(places)))

    async def test_what_is_forgotten_is_found_by_no_read(self, memory: LongTermMemory) -> None:
        await memory.put(("n",), "k", "green tea")
        assert await memory.delete(("n",), "k")
        assert not await memory.delete(("n",), "k")
        assert (await memory.get(("n",), "k"), await memory.list(("n",))) == (None, [])
        assert (await memory.search(("n",), "tea"), await memory.search(())) == ([], [])

    async def test_a_list_has_one_namespace_in_the_order_of_keys_page_by_page(self, memory: LongTermMemory) -> None:
        keys = ["b", "a", "\N{SNOWMAN}", "Z", "\U0001f600", "a.1"]
        for key in keys:
            await memory.put(("n",), key, key)
        await memory.put(("n", "deeper"), "c", 0)
        await memory.put(("nn",), "c", 0)
        found: list[str] = []
        while page := await memory.list(("n",), after=found[-1] if found else None, limit=4):
            assert len(page) <= 4
            found += [item.key for item in page]
        assert found == sorted(keys, key=str.encode)

    async def test_what_has_expired_is_not_there(self, memory: LongTermMemory, clock: Hands) -> None:
        await memory.put(("n",), "short", "green tea", ttl=10)
        await memory.put(("n",), "long", "black tea", ttl=20)
        clock.time += 10
        assert await memory.get(("n",), "short") is None
        assert [item.key for item in await memory.list(("n",))] == ["long"]
        assert [item.key for item in await memory.search(("n",), "tea")] == ["long"]
        assert [item.expires_at for item in await memory.list(("n",))] == ["2027-01-15T08:00:20.000Z"]
        await memory.put(("n",), "long", "black tea")
        clock.time += 1_000
        assert [item.key for item in await memory.list(("n",))] == ["long"]

    async def test_another_owner_has_places_of_its_own(self, memory: LongTermMemory, backend: MemoryBackend, clock: Hands) -> None:
        other = LongTermMemory(backend, owner="bob", clock=clock)
        await memory.put(("n",), "k", "green tea")
        assert (await other.get(("n",), "k"), await other.list(("n",)), await other.search((), "tea")) == (None, [], [])
        assert not await other.delete(("n",), "k")
        await other.put(("n",), "k", "black tea")
        assert [await value_at(one, ("n",), "k") for one in (memory, other)] == ["green tea", "black tea"]

    async def test_writers_of_one_key_leave_one_item(self, memory: LongTermMemory) -> None:
        await asyncio.gather(*[memory.put(("n",), "k", f"tea {number}") for number in range(30)])
        (kept,) = await memory.list(("n",))
        assert [item.value for item in await memory.search((), "tea")] == [kept.value]

    async def test_what_was_put_outlives_the_process(self, case: MemoryCase, clock: Hands) -> None:
        if not case.durable:
            pytest.skip("this backend keeps nothing")
        async with case.connect() as backend:
            memory = LongTermMemory(backend, clock=clock)
            await memory.put(("n",), "kept", "green tea")
            await memory.put(("n",), "gone", "green tea")
            await memory.delete(("n",), "gone")
        async with case.connect() as backend:
            memory = LongTermMemory(backend, clock=clock)
            assert [item.key for item in await memory.list(("n",))] == [item.key for item in await memory.search((), "tea")] == ["kept"]

    @pytest.mark.parametrize(
        "namespace, key, value, options",
        [
            ("n", "k", 1, {}), ((), "k", 1, {}), (("",), "k", 1, {}), (("n", 1), "k", 1, {}), (("n",), "", 1, {}), (("n",), None, 1, {}),
            (("n",), "\ud800", 1, {}), (("n",), "k", float("nan"), {}), (("n",), "k", {1: 2}, {}), (("n",), "k", b"x", {}),
            (("n",), "k", 1, {"ttl": 0}), (("n",), "k", 1, {"ttl": -1}), (("n",), "k", 1, {"source": {"who": "x"}}),
            (("n",), "k", 1, {"text": 3}),
        ],
    )  # fmt: skip
    async def test_what_cannot_be_kept_is_refused(self, memory: LongTermMemory, namespace: Any, key: Any, value: Any, options: Any) -> None:
        with pytest.raises(Invalid):
            await memory.put(namespace, key, value, **options)
        assert await memory.search(()) == []

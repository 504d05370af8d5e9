"""Laws of lists and sessions: pages from a cursor on, either way; whose turn it is; what a session keeps for its caller."""

import asyncio
from typing import Any

import pytest

from causeline.errors import Missing, Misuse
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Progress, Run, Session
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import AT, LATER, OWNER, begin, everything, new_call, new_interrupt, queue, session_row, take

KINDS_WITH_CURSOR: dict[str, tuple[Any, dict[str, Any]]] = {
    "sessions": (Session, {}),
    "runs": (Run, {}),
    "runs of a session": (Run, {"session": "s1"}),
    "checkpoints": (Checkpoint, {}),
    "checkpoints of a session": (Checkpoint, {"session": "s1"}),
    "checkpoints of a run": (Checkpoint, {"run": "r1"}),
    "calls of a run": (CallRow, {"run": "r1"}),
    "interrupts": (Interrupt, {}),
}


def _name(row: Any) -> str:
    return row.call.call_id if isinstance(row, CallRow) else row.id


async def _filled(store: Store) -> None:
    """Three sessions: one with three runs of many steps, calls and interrupts, two small ones."""
    for number in range(1, 4):
        writer = await begin(store, f"r{number}", input=[])
        await writer.go(4)
        calls = [new_call(f"{letter}{number}") for letter in "dbca"]
        asked = [new_interrupt(writer.head or "", f"int_{number}_{place}", writer.run.id) for place in range(3)]
        await writer.write(writer.commit(calls=calls, interrupts=asked))
        await writer.end()
    for name in ("s0", "s2"):
        await (await begin(store, f"run-of-{name}", session=name)).go(2)


class PageLaws:
    """Rows can be read page by page, in either direction."""

    @pytest.mark.parametrize("which", KINDS_WITH_CURSOR)
    async def test_pages_give_every_row_once_in_order(self, store: Store, which: str) -> None:
        await _filled(store)
        await begin(store, "r1", owner="bob")
        kind, scope = KINDS_WITH_CURSOR[which]
        rows = list(await store.rows(kind, owner=OWNER, **scope))
        assert len(rows) >= 3
        assert await store.rows(kind, owner=OWNER, newest=True, **scope) == rows[::-1]
        for newest in (False, True):
            expected = rows[::-1] if newest else rows
            for limit in (1, 2, 100):
                pages: list[Any] = []
                while page := await store.rows(
                    kind, owner=OWNER, limit=limit, newest=newest, after=_name(pages[-1]) if pages else None, **scope
                ):
                    assert len(page) <= limit
                    pages.extend(page)
                assert pages == expected

    async def test_a_row_that_comes_between_two_pages_moves_none_of_them(self, store: Store) -> None:
        await _filled(store)
        first = await store.rows(Run, owner=OWNER, newest=True, limit=2)
        await begin(store, "later", session="s9")
        second = await store.rows(Run, owner=OWNER, newest=True, limit=2, after=first[-1].id)
        assert [run.id for run in (*first, *second)] == ["run-of-s2", "run-of-s0", "r3", "r2"]

    async def test_a_cursor_is_a_place_whatever_became_of_its_row(self, store: Store) -> None:
        for number in range(4):
            await queue(store, f"q{number}", session=f"s{number}")
        await store.cancel(OWNER, "q1", LATER)
        assert [run.id for run in await store.rows(Run, owner=OWNER, status=("queued",), after="q1")] == ["q2", "q3"]
        assert [run.id for run in await store.rows(Run, owner=OWNER, status=("queued",), after="q1", newest=True)] == ["q0"]

    async def test_a_cursor_that_names_no_row_there_is_missing(self, store: Store) -> None:
        await _filled(store)
        (elsewhere,) = await store.rows(Checkpoint, owner=OWNER, session="s0", limit=1)
        unknown: list[tuple[Any, dict[str, Any], str]] = [
            (Run, {}, "r9"),
            (Run, {"session": "s0"}, "r1"),
            (Session, {}, "s9"),
            (Checkpoint, {}, "nonsense"),
            (Checkpoint, {"session": "s1"}, elsewhere.id),
            (CallRow, {"run": "r1"}, "a2"),
        ]
        for kind, scope, after in unknown:
            with pytest.raises(Missing):
                await store.rows(kind, owner=OWNER, after=after, **scope)
        with pytest.raises(Missing):
            await store.rows(Run, owner="bob", after="r1")

    @pytest.mark.parametrize(
        "kind, given",
        [
            (Run, {"owner": None, "after": "r1"}), (CallRow, {"owner": OWNER, "after": "a1"}),
            (Progress, {"owner": OWNER, "run": "r1", "after": "x"}), (Session, {"owner": OWNER, "turn": True}),
            (Checkpoint, {"owner": OWNER, "parent": "r1"}),
        ],
    )  # fmt: skip
    async def test_a_cursor_that_may_name_several_rows_is_misuse(self, store: Store, kind: Any, given: dict[str, Any]) -> None:
        with pytest.raises(Misuse):
            await store.rows(kind, **given)

    async def test_runs_are_found_by_the_run_above_them(self, store: Store) -> None:
        await begin(store)
        await begin(store, "below", session="s2", parent_run="r1", parent_call="c")
        await begin(store, "beside", session="s3", parent_run="r2")
        await begin(store, "below", owner="bob", parent_run="r1")
        assert [run.id for run in await store.rows(Run, owner=OWNER, parent="r1")] == ["below"]
        assert [run.id for run in await store.rows(Run, owner=OWNER, parent="r1", status=("queued",))] == []
        assert await store.rows(Run, owner=OWNER, parent="r9") == []

    async def test_a_run_knows_the_number_of_its_last_event(self, store: Store) -> None:
        writer = await begin(store)
        assert writer.run.last_event == 0
        await writer.write(writer.next(events=3))
        await writer.write(writer.commit(events=[{"type": "t"}] * 2, first_event=4))
        assert [run.last_event for run in await store.rows(Run, owner=OWNER)] == [5]
        assert await store.events(OWNER, "r1", 5) == []


class TurnLaws:
    """Of each session one run has its turn."""

    async def _turns(self, store: Store, **scope: Any) -> list[str]:
        return [run.id for run in await store.rows(Run, owner=scope.pop("owner", None), turn=True, **scope)]

    async def test_the_running_run_has_its_turn_and_then_the_first_of_the_queue(self, store: Store) -> None:
        assert await self._turns(store) == []
        first = await begin(store, "a1", session="sa")
        waiting = [await queue(store, f"a{number}", session="sa") for number in (2, 3, 4)]
        await queue(store, "b1", session="sb", owner="bob")
        assert await self._turns(store) == ["a1", "b1"]
        assert await self._turns(store, session="sa") == ["a1"]
        assert await self._turns(store, status=("queued",)) == ["b1"]
        assert await self._turns(store, owner="bob") == ["b1"]
        assert await self._turns(store, owner=OWNER, session="sb") == []
        await first.end()
        assert await self._turns(store) == ["a2", "b1"]
        await store.cancel(OWNER, "a2", LATER)
        assert await self._turns(store) == await self._turns(store, limit=5) == ["a3", "b1"]
        assert await self._turns(store, limit=1) == ["a3"]
        assert await take(store, waiting[2]) is None
        assert await take(store, waiting[1]) is not None
        assert await self._turns(store, newest=True) == ["b1", "a3"]

    async def test_a_run_handed_back_keeps_its_turn(self, store: Store) -> None:
        first = await begin(store, "a1")
        await queue(store, "a2")
        await first.end("queued")
        assert await self._turns(store) == ["a1"]

    async def test_a_session_without_active_runs_has_no_turn(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            await (await begin(store, name, session=name)).end()
        assert await self._turns(store) == await self._turns(store, session="b") == []


class SessionLaws:
    """What a session keeps for its caller."""

    async def test_a_session_can_be_made_before_its_first_run(self, store: Store) -> None:
        made = await store.put_session(OWNER, "s1", AT, metadata={"who": ["Ada\x00", 1]})
        assert made == Session(id="s1", owner=OWNER, head=None, created_at=AT, updated_at=AT, metadata={"who": ["Ada\x00", 1]})
        assert await session_row(store) == made
        head = await (await begin(store)).go(at=LATER)
        row = await session_row(store)
        assert (row.head, row.metadata, row.created_at, row.updated_at) == (head, made.metadata, AT, LATER)

    async def test_each_is_set_by_itself_and_belongs_to_its_owner(self, store: Store) -> None:
        await begin(store)
        assert (await store.put_session(OWNER, "s1", AT, metadata={"a": 1})).next_context is None
        assert (await store.put_session(OWNER, "s1", AT, context={"c": None})).metadata == {"a": 1}
        again = await store.put_session(OWNER, "s1", LATER, metadata={})
        assert (again.metadata, again.next_context, again.updated_at) == ({}, {"c": None}, LATER)
        assert (await store.put_session(OWNER, "s1", LATER, context={})).next_context == {}
        assert (await store.put_session("bob", "s1", AT)).metadata == {}
        assert (await store.put_session(OWNER, "s1", AT)).next_context == {}

    async def test_a_context_is_taken_once_and_only_the_one_that_was_read(self, store: Store) -> None:
        context = {"k": [1, {"deep": None}], "b": "\x00"}
        await store.put_session(OWNER, "s1", AT, context=context)
        writer = await begin(store)
        asked = (await session_row(store)).next_context
        await writer.write(writer.next(took_context=asked))
        assert (await session_row(store)).next_context is None
        await store.put_session(OWNER, "s1", AT, context={"newer": 1})
        await writer.write(writer.next(took_context=asked))
        assert (await session_row(store)).next_context == {"newer": 1}

    async def test_a_refused_commit_takes_no_context(self, store: Store) -> None:
        await store.put_session(OWNER, "s1", AT, context={"k": 1})
        writer = await begin(store)
        before = await everything(store)
        ends = await asyncio.gather(
            store.commit(writer.next(took_context={"k": 1}, epoch=7)),
            store.commit(writer.commit(events=[{"type": "t"}], first_event=9, took_context={"k": 1})),
            return_exceptions=True,
        )
        assert all(isinstance(end, BaseException) for end in ends)
        assert await everything(store) == before

    async def test_metadata_goes_with_a_session_that_is_loaded(self, store: Store) -> None:
        row = Session(id="s1", owner=OWNER, head=None, created_at=AT, updated_at=LATER, metadata={"m": 1}, next_context={"c": 2})
        await store.load(row, [], [], [])
        assert await session_row(store) == row

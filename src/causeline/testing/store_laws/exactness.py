"""Laws of values: what was written is what is read, or it was refused; times order nothing."""

from collections.abc import AsyncIterator
from dataclasses import fields
from typing import Any

import pytest

from causeline.errors import Invalid
from causeline.run.ledger import Call
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Progress, Run, RunPatch
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import AT, OWNER, Writer, begin, everything, new_call, new_interrupt, new_run, queue, take


def _deep(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


EXACT: dict[str, Any] = {
    "nul": "a\x00b\x00",
    "beyond the BMP": "\U0001f9ff \U00010000 é \u2028 \ufeff \uffff",
    "keys": {"": 0, "a\x00": 1, "\U0001f9ff": 2, "z": None, "$ref": [], "\\u0000": "\\u0000"},
    "numbers": [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1, 2**64, 2**80, -(2**80), 0.1, 1e22, 1e300, 5e-324, 1.5],
    "kinds": [True, False, None, 1, 1.0, "1", "null", [], {}, "", [None], {"a": {}}],
    "depth": _deep(120),
}
LARGE = "0123456789abcdef\x00\U0001f9ff" * 500_000
"""Ten megabytes of text."""


def same(one: Any, two: Any) -> bool:
    """Equal, with the same types all the way down: 1, 1.0 and true are three values here."""
    return one == two and repr(one) == repr(two)


async def _write(store: Store, value: Any) -> None:
    """Put a value wherever a store takes one. The log's payloads have their own spelling of numbers, so they are tried apart."""
    message = {"role": "user", "content": value}
    started = await store.start(new_run(input=[message], manifest={"v": value}, context={"v": value}, tools=[{"v": value}]), "reject")
    writer = Writer(store, started.run)
    checkpoint = writer.checkpoint([], delta={}, facts={"v": value})
    asked = new_interrupt(checkpoint.id, arguments=value, question="q\x00", reason="r\x00", decision={"v": value}, state="answered")
    await writer.write(
        writer.commit(
            checkpoint=checkpoint,
            calls=[new_call("call\x00", arguments=value, result=value, reported={"v": value}, reason="why\x00", name="tool\x00")],
            interrupts=[asked],
            progress=[Progress(run="r1", step=9, path=["p\x00", 1], index=0, port="p", writes=value)],
            events=[{"type": "t", "v": value}, {"type": "t"}],
            first_event=1,
        )
    )
    await writer.end(answer=value, error={"v": value}, usage={"v": value})


async def _read(store: Store) -> AsyncIterator[Any]:
    (run,) = await store.rows(Run, owner=OWNER)
    assert run.manifest is not None
    assert run.context is not None
    assert run.error is not None
    assert run.usage is not None
    for part in (
        run.input[0]["content"],
        run.manifest["v"],
        run.context["v"],
        run.tools[0]["v"],
        run.answer,
        run.error["v"],
        run.usage["v"],
    ):
        yield part
    (checkpoint,) = await store.rows(Checkpoint, owner=OWNER)
    yield checkpoint.facts["v"]
    (row,) = await store.rows(CallRow, owner=OWNER)
    assert (row.call.call_id, row.call.reason, row.call.name) == ("call\x00", "why\x00", "tool\x00")
    yield row.call.arguments
    yield row.call.result
    assert row.call.reported is not None
    yield row.call.reported["v"]
    (interrupt,) = await store.rows(Interrupt, owner=OWNER)
    assert interrupt.decision is not None
    assert (interrupt.question, interrupt.reason) == ("q\x00", "r\x00")
    yield interrupt.arguments
    yield interrupt.decision["v"]
    (piece,) = await store.rows(Progress, owner=OWNER)
    assert list(piece.path) == ["p\x00", 1]
    yield piece.writes
    first, _ = await store.events(OWNER, "r1", 0)
    yield first["v"]


class ExactLaws:
    """No value is altered."""

    @pytest.mark.parametrize("name", EXACT)
    async def test_a_value_comes_back_as_it_was(self, store: Store, name: str) -> None:
        value = EXACT[name]
        await _write(store, value)
        parts = [part async for part in _read(store)]
        assert len(parts) == 15
        assert [part for part in parts if not same(part, value)] == []

    async def test_every_field_of_a_call_comes_back(self, store: Store) -> None:
        call = Call(
            call_id="c",
            name="n",
            arguments={"a": 1},
            args_hash="h",
            state="failed",
            index=3,
            step=4,
            client=True,
            ok=False,
            result="r",
            reason="w",
            attempts=5,
            reported={"context_patch": {"k": None}},
            opened_in="r0",
            idempotency_key="ik_1",
            decisions=[{"decision": "edit", "by": "ada", "args": {"a": 2}}],
        )
        assert [one.name for one in fields(Call) if getattr(call, one.name) in (one.default, None)] == []
        writer = await begin(store)
        await writer.write(writer.next(calls=[call]))
        (row,) = await store.rows(CallRow, owner=OWNER)
        assert row.call == call

    @pytest.mark.parametrize("name", EXACT)
    async def test_the_log_and_its_checkpoints_come_back_as_they_were(self, store: Store, name: str) -> None:
        value = EXACT[name]
        writer = await begin(store)
        state = {"value": value}
        node = writer.state.append("semantic", value, created_at=AT, resource_key="semantic:fact:\x00\U0001f9ff")
        checkpoint = writer.checkpoint(
            [node], delta={"a": state}, position=state, path=["p\x00", 3, "\U0001f9ff"], node="n\x00", port="p\x00", next=None
        )
        await writer.write(writer.commit(checkpoint=checkpoint, nodes=[node]))
        ((stored, nodes),) = [(link.checkpoint, link.nodes) for link in await store.branch(OWNER, "s1", checkpoint.id)]
        assert list(nodes) == [node]
        assert nodes[0].payload_bytes == node.payload_bytes
        assert same(stored.delta, {"a": state})
        assert same(stored.position, state)
        assert (list(stored.path), stored.node, stored.port, stored.next) == (["p\x00", 3, "\U0001f9ff"], "n\x00", "p\x00", None)
        assert await store.node(OWNER, node.id) == [("s1", node)]

    async def test_ten_megabytes_come_back_whole(self, store: Store) -> None:
        writer = await begin(store)
        commit = await writer.write(writer.next([LARGE], calls=[new_call(state="succeeded", result=LARGE)]))
        assert commit.checkpoint is not None
        (link,) = await store.branch(OWNER, "s1", commit.checkpoint.id)
        assert link.nodes[0].payload_bytes == commit.nodes[0].payload_bytes
        (row,) = await store.rows(CallRow, owner=OWNER)
        assert row.call.result == LARGE

    @pytest.mark.parametrize("value", ["\ud83d", {"\udc00": 1}, [float("nan")], float("inf"), {"k": [1, float("-inf")]}], ids=ascii)
    async def test_what_is_no_json_is_refused_whole_or_kept_exactly(self, store: Store, value: Any) -> None:
        writer = await begin(store)
        before = await everything(store)
        try:
            await store.commit(writer.commit(events=[{"type": "t"}, {"v": value, "w": None}], first_event=1, patch=RunPatch(answer=value)))
        except Invalid:
            assert await everything(store) == before
        else:
            assert repr((await store.events(OWNER, "r1", 1))[0]["v"]) == repr(value)
            assert repr((await store.rows(Run, owner=OWNER))[0].answer) == repr(value)


class ClockLaws:
    """Times are text that orders nothing."""

    async def test_equal_times_and_clocks_that_go_backwards_change_no_order(self, store: Store) -> None:
        hours = [7, 3, 3, 9, 1, 0]
        writer = await begin(store, created_at="2026-11-30T23:00:00.000Z")
        for hour in hours:
            await writer.write(writer.next([f"{hour} {writer.step}"], events=1, at=f"2026-11-30T{hour:02}:00:00.000Z"))
        links = await store.branch(OWNER, "s1", writer.head)
        assert [link.checkpoint.step for link in links] == list(range(6))
        assert [link.checkpoint.created_at[11:13] for link in links] == [f"{hour:02}" for hour in hours]
        assert [row.step for row in await store.rows(Checkpoint, owner=OWNER)] == list(range(6))
        assert [event["seq"] for event in await store.events(OWNER, "r1", 0)] == [1, 2, 3, 4, 5, 6]
        for place, created in enumerate(("2026-11-30T05:00:00.000Z", "2026-11-30T01:00:00.000Z", "2026-11-30T01:00:00.000Z")):
            await queue(store, f"q{place}", created_at=created)
        await writer.end()
        for place in range(3):
            rows = await store.rows(Run, owner=OWNER, status=("queued",))
            assert rows[0].id == f"q{place}"
            taken = await take(store, rows[0], at="1999-01-01T00:00:00.000Z")
            assert taken is not None
            await Writer(store, taken).end()
        assert [run.id for run in await store.rows(Run, owner=OWNER)] == ["r1", "q0", "q1", "q2"]

    async def test_times_are_kept_as_given(self, store: Store) -> None:
        writer = await begin(store, created_at="0001-01-01T00:00:00.000Z", started_at="9999-12-31T23:59:59.999Z")
        await writer.write(writer.next(at="1969-12-31T23:59:59.999Z"))
        (run,) = await store.rows(Run, owner=OWNER)
        assert (run.created_at, run.started_at) == ("0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z")
        ((checkpoint, nodes),) = [(link.checkpoint, link.nodes) for link in await store.branch(OWNER, "s1", writer.head)]
        assert {checkpoint.created_at, nodes[0].created_at} == {"1969-12-31T23:59:59.999Z"}

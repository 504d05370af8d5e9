"""Answers of every kind, in any order and at once: a gated call runs at most once, and only when its own question was approved."""

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

import causeline
from causeline import approve, deny, edit
from causeline.errors import Conflict, Invalid, Missing
from causeline.models.scripted_model import ScriptedModel
from causeline.runtime.records import CallRow, Interrupt, Run
from causeline.tools.tool import ToolContext
from tests.runtime.scenes import GRAPHS, asks, beside, runtime, store_at

CALLS = ("a", "b", "c")
SCRIPT = [asks(*(("pay", {"n": number}, name) for number, name in enumerate(CALLS))), {"text": "done"}]
names = st.sampled_from(CALLS)


class Approvals(RuleBasedStateMachine):
    """One session on one store; the runtime over it is closed and opened again now and then."""

    kind = "memory"
    graph = "react"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.store = store_at(self.kind, Path(self.folder.name))
        self.ran: list[tuple[str, str, int]] = []
        self.allowed: dict[tuple[str, str], Any] = {}
        self.rt: Any = None
        self.seen: dict[str, Interrupt] = {}

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 20))

    def agent(self) -> causeline.Agent:
        @causeline.tool(approval="ask")
        async def pay(n: int, context: ToolContext) -> str:
            """Pays."""
            self.ran.append((context.run_id, context.call_id, n))
            await asyncio.sleep(0)
            return f"paid {n}"

        return causeline.Agent(ScriptedModel(SCRIPT), tools=[pay], graph=self.graph)

    @initialize()
    def begin(self) -> None:
        self.do(self._open())
        self.do(self._begin())

    async def _open(self) -> None:
        self.rt = runtime(self.store, self.agent())
        await self.rt.__aenter__()

    async def _begin(self) -> None:
        await (await self.rt.start(self.agent(), "go", session="s")).result()
        await self._look()

    async def _look(self) -> None:
        for one in await self.store.rows(Interrupt, owner="default", session="s"):
            self.seen[one.id] = one

    def questions(self, name: str, state: str | None = None) -> list[Interrupt]:
        return [one for one in self.seen.values() if one.tool_call_id == name and state in (None, one.state)]

    async def _answer(self, decisions: dict[str, Any], **more: Any) -> bool:
        """Give an answer; True if it was taken."""
        asked = {name: self.seen.get(name) for name in decisions}
        run_id = next((one.run for one in asked.values() if one is not None), "run_none")
        try:
            run = await self.rt.answer(run_id, decisions, **more)
        except (Conflict, Invalid, Missing):
            return False
        row = await self.rt.run(run.id)
        for name, decision in decisions.items():
            question = asked[name]
            assert question is not None, "an answer to a question that was never asked was taken"
            if decision["decision"] in ("approve", "edit"):
                self.allowed[row.id, question.tool_call_id] = decision.get("value") or question.arguments
        await run.result()
        return True

    @rule(chosen=st.dictionaries(names, st.sampled_from([approve(), deny("no"), edit({"n": 7})]), min_size=1), newest=st.booleans())
    def some_are_answered(self, chosen: dict[str, Any], newest: bool) -> None:
        decisions = {}
        for name, decision in chosen.items():
            found = self.questions(name, "open") or self.questions(name)
            if found:
                decisions[found[-1 if newest else 0].id] = decision
        if decisions:
            self.do(self._answer(decisions))
            self.do(self._look())

    @rule(
        name=names,
        times=st.integers(2, 4),
        decision=st.sampled_from([approve(), edit({"n": 9})]),
        busy=st.sampled_from(["reject", "enqueue"]),
    )
    def one_is_answered_several_times_at_once(self, name: str, times: int, decision: Any, busy: str) -> None:
        found = self.questions(name, "open")
        if not found:
            return

        async def all_at_once() -> list[bool]:
            return await asyncio.gather(*(self._answer({found[-1].id: decision}, on_busy=busy) for _ in range(times)))

        assert sum(self.do(all_at_once())) <= 1
        self.do(self._look())

    @rule(order=st.permutations(CALLS), busy=st.sampled_from(["reject", "enqueue"]))
    def different_ones_are_answered_at_once(self, order: list[str], busy: str) -> None:
        found = [self.questions(name, "open")[-1] for name in order if self.questions(name, "open")]

        async def all_at_once() -> None:
            await asyncio.gather(*(self._answer({one.id: approve()}, on_busy=busy) for one in found))

        self.do(all_at_once())
        self.do(self._look())

    @rule(forged=st.one_of(st.from_regex(r"int_[0-9a-f]{24}", fullmatch=True), st.sampled_from(["", "a", "call_a", "int_"])))
    def a_forged_one_is_refused(self, forged: str) -> None:
        if forged not in self.seen:
            assert not self.do(self._answer({forged: approve()}))

    @rule(
        name=names,
        wrong=st.sampled_from(
            [
                {"decision": "answer", "value": 1},
                {"decision": "retry"},
                {"decision": "record", "value": 1},
                {"decision": "APPROVE"},
                {"approved": True},
                {"decision": "edit", "value": {"n": "x"}},
                {"decision": "edit", "value": {}},
                {"decision": "approve", "args_hash": "0" * 64},
            ]
        ),
    )
    def one_that_does_not_fit_is_refused_and_leaves_the_question_as_it_was(self, name: str, wrong: Any) -> None:
        for question in self.questions(name):
            assert not self.do(self._answer({question.id: wrong}))
            (row,) = self.do(self.store.rows(Interrupt, owner="default", session="s", id=question.id))
            assert row.state == question.state

    @rule(name=names)
    def another_owner_is_refused(self, name: str) -> None:
        async def ask() -> None:
            async with beside(self.store, self.agent(), owner="mallory") as stranger:
                for question in self.questions(name):
                    with pytest.raises(Missing):
                        await stranger.answer(question.run, {question.id: approve()})

        self.do(ask())

    @rule()
    def a_run_without_a_word_approves_nothing(self) -> None:
        async def look_again() -> None:
            await (await self.rt.start(self.agent(), session="s")).result()

        before = list(self.ran)
        self.do(look_again())
        assert self.ran == before
        self.do(self._look())

    @rule(text=st.sampled_from(["approve a", "go on", '{"decision": "approve"}']))
    def a_word_closes_the_questions_and_approves_nothing(self, text: str) -> None:
        async def speak() -> None:
            await (await self.rt.start(self.agent(), text, session="s", context={"a": "approve"})).result()

        before = list(self.ran)
        self.do(speak())
        assert self.ran == before
        self.do(self._look())

    @precondition(lambda self: self.kind == "sqlite")
    @rule()
    def the_process_is_another_one(self) -> None:
        self.do(self.rt.__aexit__())
        self.do(self._open())

    @invariant()
    def a_gated_call_runs_once_and_only_when_allowed(self) -> None:
        for (run, call), times in Counter((run, call) for run, call, _ in self.ran).items():
            assert times == 1, f"{call} ran {times} times in {run}"
            assert (run, call) in self.allowed, f"{call} ran in {run} without an approval of its own"
        for run, call, n in self.ran:
            assert self.allowed[run, call] == {"n": n}
        approvals = Counter(
            one.tool_call_id
            for one in self.seen.values()
            if one.state == "answered" and (one.decision or {}).get("decision") in ("approve", "edit")
        )
        for call, times in Counter(call for _, call, _ in self.ran).items():
            assert times <= approvals[call]

    @invariant()
    def nothing_is_left_under_way(self) -> None:
        if self.rt is None:
            return
        assert not self.do(self.store.rows(Run, owner="default", status=("queued", "running")))
        assert not self.do(self.store.rows(CallRow, owner="default", session="s", status=("started", "unknown")))

    def teardown(self) -> None:
        if self.rt is not None:
            self.do(self.rt.__aexit__())
        self.loop.close()
        self.folder.cleanup()


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_gated_call_runs_at_most_once_and_only_when_its_own_question_was_approved(kind: str, graph: str) -> None:
    machine = type("Machine", (Approvals,), {"kind": kind, "graph": graph})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25 if kind == "memory" else 8,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

"""The laws themselves. Each test is one promise."""

import asyncio
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from causeline.graph import Context, Dispatcher, Graph, Node, Outcome, Result
from causeline.graph.engine.plain_values import plain
from causeline.graph.node import PARKED


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """A node and a state it can be visited with.

    `item` is set for the body of a scatter. `answer` is what a person would say where the visit asks. `slow` says that the visit waits for
    something at least once; `repeatable` that equal visits have equal outcomes; `unstored` names channels whose writes need
    not be plain JSON.
    """

    node: Node
    state: Mapping[str, Any]
    item: Any = None
    answer: Any = None
    services: Mapping[type, object] = field(default_factory=dict[type, object])
    slow: bool = False
    repeatable: bool = True
    unstored: tuple[str, ...] = ()


async def visit(case: NodeCase, state: Mapping[str, Any], *, answer: Any = None) -> Outcome:
    """One visit, as the engine makes it."""
    ctx = Context(
        MappingProxyType(dict(state)),
        placement="case",
        path=("case",),
        item=case.item,
        index=None if case.item is None else 0,
        answer=answer,
        services=case.services,
    )
    found: Any = case.node.fn(ctx)
    if hasattr(found, "__await__"):
        found = await found
    return found if isinstance(found, Outcome) else Outcome(found)


async def execute(case: NodeCase, state: Mapping[str, Any], *, answer: Any = None) -> Result:
    """The node in a document of its own."""
    graph = Graph("urn:causeline:laws:node")
    ports = [port for port in case.node.ports if port != PARKED]
    if case.item is None:
        graph.node("case", case.node, dict.fromkeys(ports, "end"))
    else:
        graph.scatter("case", "items", dict.fromkeys(("all-success", "partial", "all-error", "empty"), "end"), node=case.node)
    dispatcher = Dispatcher()
    dispatcher.register(graph.terminal("end").build(), graph.nodes)
    values = dict(state) if case.item is None else {**state, "items": [case.item]}
    result = await dispatcher.execute(graph.iri, values, services=case.services)
    if result.status == "interrupted" and answer is not None:
        answers = {pause.key: answer for pause in result.pauses}
        result = await dispatcher.resume(graph.iri, result.saved(), answers=answers, services=case.services)
    return result


class NodeLaws:
    """What every node promises. Subclass it with a fixture `case` that gives a NodeCase."""

    async def test_it_leaves_by_a_port_it_declares(self, case: NodeCase) -> None:
        outcome = await visit(case, case.state)
        assert outcome.port in {*case.node.ports, PARKED}

    async def test_it_only_reads_the_state(self, case: NodeCase) -> None:
        """Everything a node wants to change it says in its outcome; the engine counts, stores and replays only that."""
        state = deepcopy(dict(case.state))
        await visit(case, state)
        assert state == dict(case.state)

    async def test_what_it_writes_can_be_stored(self, case: NodeCase) -> None:
        outcome = await visit(case, case.state)
        for channel, value in outcome.writes.items():
            assert isinstance(channel, str)
            if channel not in case.unstored:
                assert plain(value, channel) == value

    async def test_it_writes_only_the_channels_it_names(self, case: NodeCase) -> None:
        if not case.node.writes:
            pytest.skip("the node names no channels")
        outcome = await visit(case, case.state)
        assert set(outcome.writes) <= set(case.node.writes)

    async def test_a_visit_made_again_comes_to_the_same(self, case: NodeCase) -> None:
        """After a crash the visit that was under way is made again."""
        if not case.repeatable:
            pytest.skip("this node's outcomes vary")
        assert await visit(case, deepcopy(case.state)) == await visit(case, deepcopy(case.state))

    async def test_its_writes_are_its_own(self, case: NodeCase) -> None:
        """Changing what one visit wrote does not reach into another's."""
        if not case.repeatable or case.unstored:
            pytest.skip("this node's outcomes cannot be compared")
        first = await visit(case, case.state)
        before = deepcopy(dict(first.writes))
        for value in first.writes.values():
            if isinstance(value, list | dict):
                value.clear()
        assert dict((await visit(case, case.state)).writes) == before

    async def test_it_leaves_no_task_behind(self, case: NodeCase) -> None:
        before = asyncio.all_tasks()
        await visit(case, case.state)
        assert asyncio.all_tasks() <= before

    async def test_being_cancelled_ends_it(self, case: NodeCase) -> None:
        if not case.slow:
            pytest.skip("the visit never waits")
        before = asyncio.all_tasks()
        visiting = asyncio.create_task(_wrapped(case))
        await asyncio.sleep(0)
        assert not visiting.done(), "the case says slow, but the visit did not wait"
        visiting.cancel()
        await asyncio.wait({visiting})
        assert visiting.cancelled()
        assert asyncio.all_tasks() <= before

    async def test_a_question_can_be_stored_and_an_answer_leads_on(self, case: NodeCase) -> None:
        outcome = await visit(case, case.state)
        if outcome.port != PARKED:
            pytest.skip("the visit asks nothing")
        assert plain(outcome.question, "question") == outcome.question
        assert case.answer is not None, "give NodeCase(answer=...)"
        answered = await visit(case, {**case.state, **outcome.writes}, answer=case.answer)
        assert answered.port != PARKED

    async def test_it_runs_in_a_document(self, case: NodeCase) -> None:
        result = await execute(case, case.state, answer=case.answer)
        assert result.status == "completed", result.error


async def _wrapped(case: NodeCase) -> Outcome:
    return await visit(case, case.state)

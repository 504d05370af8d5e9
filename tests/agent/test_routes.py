"""Which step follows which: the document, the routing of an entered run, one checkpoint a step."""

from importlib import resources

import pytest

from causeline import graph, tool
from causeline.agent.definition import REACT, AgentDefinition
from causeline.agent.react.loop import call_model, call_tools, entrypoint, leave
from causeline.errors import Missing
from causeline.models.messages import Message
from tests.agent.stage import calls, stage


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


CLIENT = {"name": "pick", "description": "Picks.", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}


def document():
    return graph.load(resources.files("causeline.agent.react").joinpath("react.jsonld").read_bytes())


def test_the_react_document_has_no_findings_even_with_its_own_nodes_only():
    loaded = document()
    assert loaded.id == REACT
    assert graph.check(loaded) == []
    assert graph.check(loaded, [entrypoint, call_model, call_tools, leave]) == []


def test_the_react_document_routes_as_the_table_says():
    plain = document().to_json()
    routes = {
        one["name"]: {port: target.rsplit("/", 1)[1] for port, target in one["outputs"].items()}
        for one in plain["nodes"]
        if "outputs" in one
    }
    assert routes == {
        "entrypoint": {"model": "call_model", "tools": "call_tools", "exit": "exit"},
        "call_model": {"tools": "call_tools", "exit": "exit", "retry": "call_model"},
        "call_tools": {"model": "call_model", "exit": "exit"},
        "exit": {"done": "end", "failed": "end-failed"},
    }


def trail(checkpoints):
    return [(one.step, one.node, one.port, one.next) for one in checkpoints]


async def test_one_checkpoint_a_step_with_its_node_and_none_after_the_exit():
    async with stage([calls(("look", {"n": 1})), {"text": "seen"}], [look]) as s:
        ran = await s.run("go")
        steps = await s.steps()
    assert ran.status == "succeeded"
    assert trail(steps) == [
        (0, "entrypoint", "model", "call_model"),
        (1, "call_model", "tools", "call_tools"),
        (2, "call_tools", "model", "call_model"),
        (3, "call_model", "exit", "exit"),
        (4, "exit", "done", None),
    ]
    assert [one.parent for one in steps] == [None, *(one.id for one in steps[:-1])]
    assert ran.head == steps[-1].id
    assert all(one.path == [] for one in steps)


async def test_a_user_message_goes_to_the_model_even_over_open_calls():
    async with stage([calls(("pick", {"n": 1}))], [look]) as s:
        first = await s.run("go", tools=[CLIENT])
        assert first.stop_reason == "client_tools"
        second = await s.run("never mind")
        steps = await s.steps(second.run_id)
    assert trail(steps)[0] == (0, "entrypoint", "model", "call_model")


async def test_open_calls_go_to_the_tools_although_the_tail_is_a_tool_result():
    """Rule 2 is asked before rule 3."""
    async with stage([calls(("pick", {"n": 1}, "a"), ("pick", {"n": 2}, "b"))], [look]) as s:
        await s.run("go", tools=[CLIENT])
        second = await s.run([Message("tool", "one", tool_call_id="a")])
        steps = await s.steps(second.run_id)
    assert trail(steps) == [(0, "entrypoint", "tools", "call_tools"), (1, "call_tools", "exit", "exit"), (2, "exit", "done", None)]
    assert second.pending_tool_call_ids == ["b"]
    assert len(s.model.requests) == 1


async def test_a_tail_of_results_goes_to_the_model():
    async with stage([calls(("pick", {"n": 1}, "a")), {"text": "got it"}], [look]) as s:
        await s.run("go", tools=[CLIENT])
        second = await s.run([Message("tool", "one", tool_call_id="a")])
        steps = await s.steps(second.run_id)
    assert trail(steps)[0] == (0, "entrypoint", "model", "call_model")
    assert second.answer == "got it"


async def test_anything_else_goes_out_with_the_answer_that_is_there():
    async with stage([{"text": "the answer"}], [look]) as s:
        await s.run("go")
        again = await s.run()
        steps = await s.steps(again.run_id)
        fresh = await s.run(session="empty")
    assert trail(steps) == [(0, "entrypoint", "exit", "exit"), (1, "exit", "done", None)]
    assert (again.status, again.stop_reason, again.answer) == ("succeeded", "answered", "the answer")
    assert (fresh.status, fresh.answer) == ("succeeded", "")
    assert len(s.model.requests) == 1


async def test_a_fork_starts_at_the_entrypoint_whatever_step_it_forks_from():
    async with stage([calls(("look", {"n": 1})), {"text": "seen"}], [look]) as s:
        await s.run("go", run_id="first")
        before = [(one.id, one.appended) for one in await s.steps("first")]
        said = await s.said()
        for place, checkpoint in enumerate(await s.steps("first")):
            forked = await s.run("another way", at=checkpoint.id, run_id=f"fork-{place}")
            steps = await s.steps(forked.run_id)
            assert forked.status == "succeeded"
            assert steps[0].node == "entrypoint"
            assert steps[0].parent == checkpoint.id
        assert [(one.id, one.appended) for one in await s.steps("first")] == before
        assert [(one.role, one.text) for one in await s.runtime.messages("s", before[-1][0])] == said


async def test_a_fork_of_a_checkpoint_of_another_session_is_refused():
    async with stage([{"text": "one"}]) as s:
        ran = await s.run("go")
        with pytest.raises(Missing):
            await s.run("go", session="other", at=ran.head)


async def test_messages_are_read_with_no_active_run():
    async with stage([calls(("look", {"n": 1})), {"text": "seen"}], [look]) as s:
        await s.run("go")
        messages = await s.runtime.messages("s")
    assert [(one.role, one.text, one.tool_call_id) for one in messages] == [
        ("user", "go", None),
        ("assistant", "", None),
        ("tool", "saw 1", "c0"),
        ("assistant", "seen", None),
    ]
    assert len({one.id for one in messages}) == 4
    assert all(one.id.startswith("msg_") for one in messages)


def test_both_documents_can_be_chosen_by_name():
    from tests.agent.stage import Heard, agent_of

    assert agent_of(Heard([]), graph="react").document.name == "react"
    assert isinstance(agent_of(Heard([]), graph="react-flat"), AgentDefinition)

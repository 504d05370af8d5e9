"""What a run leaves in the causal log: which nodes, with which causes, and that neither time nor timing changes an id."""

import asyncio

import pytest

from causeline import ToolResult, tool
from causeline.causal import verify_export
from causeline.tools.tool import Resource
from tests.agent.stage import Moving, calls, stage


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


@tool
async def save(path: str) -> ToolResult:
    """Saves."""
    resource = Resource(path, "save", content_hash="0" * 64, bytes=3)
    return ToolResult("saved", resources=(resource,), verification={"method": "read_back"})


def cause(log, node):
    return [log.node(parent).kind for parent in node.parents]


async def test_a_turn_is_exactly_these_nodes_with_these_causes():
    script = [calls(("look", {"n": 1}, "a"), ("save", {"path": "f"}, "b"), text="Let me see."), {"text": "All done."}]
    async with stage(script, [look, save], system="Be good.") as s:
        await s.run("go")
        log = await s.log()
    assert [node.kind for node in log.nodes] == [
        "system",
        "goal",
        "inference",
        "tool_call",
        "tool_call",
        "tool_result",
        "tool_result",
        "verification",
        "resource",
        "inference",
        "answer",
    ]
    system, goal, asked, look_call, save_call, looked, saved, verified, resource, said, answer = log.nodes
    assert (system.payload, system.parents) == ("Be good.", ())
    assert (goal.payload, goal.parents) == ({"text": "go"}, (system.id,))
    assert asked.parents == (goal.id,)
    assert asked.payload == {
        "text": "Let me see.",
        "finish": "tool_calls",
        "calls": [{"id": "a", "name": "look", "arguments": {"n": 1}}, {"id": "b", "name": "save", "arguments": {"path": "f"}}],
    }
    assert look_call.payload == {"call_id": "a", "name": "look", "args": {"n": 1}}
    assert look_call.parents == save_call.parents == (asked.id,)
    assert looked.payload == {"call_id": "a", "tool": "look", "result": "saw 1", "ok": True}
    assert (looked.parents, saved.parents) == ((look_call.id,), (save_call.id,))
    assert (verified.payload, verified.parents) == ({"tool": "save", "method": "read_back"}, (saved.id,))
    assert resource.payload == {"path": "f", "operation": "save", "succeeded": True, "contentHash": "0" * 64, "bytes": 3}
    assert (resource.resource_key, resource.parents) == ("resource:file:f", (saved.id,))
    assert said.parents == tuple(sorted((looked.id, verified.id, resource.id)))
    assert said.payload == {"text": "All done.", "calls": [], "finish": "stop"}
    assert (answer.payload, answer.parents) == ("All done.", (said.id,))
    assert log.frontier == [answer.id]
    assert {node.id for node in log.why(resource.id)} == {asked.id, goal.id}


async def test_a_later_turn_rests_on_the_system_prompt_and_the_heads_of_the_log():
    async with stage([{"text": "one"}], system="Be good.") as s:
        await s.run("first")
        await s.run("second")
        log = await s.log()
    system, _, _, answer, goal, inference, _ = log.nodes
    assert goal.parents == tuple(sorted((system.id, answer.id)))
    assert inference.parents == (goal.id,)


async def test_a_changed_system_prompt_is_a_new_node_on_the_heads_of_the_log():
    async with (
        stage([{"text": "one"}], system="Be good.") as s,
        stage([{"text": "two"}], system="Be bad.") as other,
        stage([{"text": "three"}]) as silent,
    ):
        await s.run("first")
        await s.run("second", agent=other.agent)
        await s.run("third", agent=silent.agent)
        await s.run("fourth", agent=silent.agent)
        log = await s.log()
    systems = [node for node in log.nodes if node.kind == "system"]
    goals = [node for node in log.nodes if node.kind == "goal"]
    answers = [node for node in log.nodes if node.kind == "answer"]
    assert [node.payload for node in systems] == ["Be good.", "Be bad.", ""]
    assert systems[1].parents == (answers[0].id,)
    assert goals[1].parents == (systems[1].id,)
    assert systems[2].parents == (answers[1].id,)
    assert goals[3].parents == tuple(sorted((systems[2].id, answers[2].id)))
    assert [other.model.last.system, silent.model.last.system] == ["Be bad.", None]


async def test_a_prompt_that_first_comes_in_a_later_turn_is_among_what_the_reply_read():
    async with stage([{"text": "one"}]) as s, stage([{"text": "two"}], system="Be good.") as other:
        await s.run("first")
        await s.run("second", agent=other.agent)
        log = await s.log()
    system = next(node for node in log.nodes if node.kind == "system")
    assert system.id in log.ancestors(log.nodes[-1].id)


async def test_so_it_is_where_that_turn_brings_results_and_no_words():
    pick = {"name": "pick", "parameters": {"type": "object"}}
    async with stage([calls(("pick", {}, "a"))]) as s, stage([calls(("pick", {}, "a")), {"text": "two"}], system="Be good.") as other:
        await s.run("first", tools=[pick])
        await s.run([{"role": "tool", "tool_call_id": "a", "content": "picked"}], agent=other.agent)
        log = await s.log()
    system, reply = next(node for node in log.nodes if node.kind == "system"), log.nodes[-2]
    assert (reply.kind, reply.parents) == ("inference", (system.id,))
    assert [log.node(parent).kind for parent in system.parents] == ["tool_result"]


async def test_two_goals_in_one_input_follow_each_other():
    async with stage([{"text": "one"}], system="Be good.") as s:
        await s.run([{"role": "user", "content": "first"}, {"role": "user", "content": [{"type": "text", "text": "second"}]}])
        log = await s.log()
    system, first, second, inference, _ = log.nodes
    assert (first.parents, second.parents) == ((system.id,), tuple(sorted((system.id, first.id))))
    assert second.payload == {"parts": [{"type": "text", "text": "second"}]}
    assert inference.parents == (second.id,)


def slow(delays):
    @tool(effects=False)
    async def wait(n: int) -> str:
        """Waits."""
        await asyncio.sleep(delays[n])
        return f"waited {n}"

    @tool
    async def write(n: int) -> ToolResult:
        """Writes, after a while."""
        await asyncio.sleep(delays[n])
        return ToolResult(f"wrote {n}", resources=(Resource("same", "write", value=n),), context_patch={"last": n})

    return [wait, write]


PARALLEL = [
    calls(("wait", {"n": 0}), ("write", {"n": 1}), ("write", {"n": 2}), ("wait", {"n": 3})),
    calls(("write", {"n": 2}), ("wait", {"n": 0})),
    {"text": "done"},
]


async def test_neither_the_order_in_which_tools_finish_nor_the_time_changes_an_id():
    """One run id, two stores, opposite timing, the same start: equal heads."""
    heads, logs = [], []
    for delays, jump in (((0.03, 0.02, 0.01, 0.0), 0.0), ((0.0, 0.01, 0.02, 0.03), 0.25)):
        async with stage(PARALLEL, slow(delays), clock=Moving(jump=jump), system="Be good.") as s:
            ran = await s.run("go", run_id="same")
            heads.append(ran.head)
            logs.append(await s.log())
            assert (await s.runtime.branch("s")).channels["context"] == {"last": 2}
    assert heads[0] == heads[1]
    assert [node.id for node in logs[0].nodes] == [node.id for node in logs[1].nodes]
    assert [node.payload["value"] for node in logs[0].versions("resource:file:same")] == [1, 2, 2]


async def test_a_prompt_that_names_the_time_differs_only_by_the_run_s_start():
    heads = []
    for start in (1_800_000_000.0, 1_800_000_000.0, 1_800_000_060.0):
        async with stage(PARALLEL, slow((0,) * 4), clock=Moving(start, jump=0.0), system="It is {{ now }}.") as s:
            heads.append((await s.run("go", run_id="same")).head)
    assert heads[0] == heads[1] != heads[2]


async def test_golden_ids_of_a_run():
    """These ids may change only with a decision: every stored session rests on them."""
    async with stage([calls(("look", {"n": 1}, "a")), {"text": "seen"}], [look], system="Be good.") as s:
        ran = await s.run("go", run_id="run-1", session="s")
        log = await s.log()
    assert [node.id for node in log.nodes] == [
        "cw_4c9332894c8c4ac8b56530ed",
        "cw_445e5b68d567fa87d43ec55f",
        "cw_834bf9e571090d3aefd7b41e",
        "cw_da720e0f28c78c0a8e6f5dba",
        "cw_fc78e5f5bffeeb23106e6ccb",
        "cw_5f97d9f7f29e4a5ce05fd816",
        "cw_fe7d13988459d93dce883245",
    ]
    assert ran.head == "ck_f7006cc77f28ca49e132b180"


async def test_the_export_of_a_run_verifies():
    async with stage(PARALLEL, slow((0,) * 4), system="Be good.") as s:
        ran = await s.run("go")
        data = await s.runtime.export("s")
    assert verify_export(data).head == ran.head


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_both_documents_write_the_same_nodes(graph):
    async with stage([*PARALLEL[:1], {"text": "done"}], slow((0,) * 4), graph=graph, system="Be good.") as s:
        await s.run("go", run_id="same")
        ids = [node.id for node in (await s.log()).nodes]
    async with stage([*PARALLEL[:1], {"text": "done"}], slow((0,) * 4), system="Be good.") as s:
        await s.run("go", run_id="same")
        assert [node.id for node in (await s.log()).nodes] == ids

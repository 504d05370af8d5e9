"""An answer may have to be backed by what was done: off unless asked for, and never the end of a run."""

import pytest

import causeline
from causeline import ToolResult, tool
from causeline.agent.react.completion import keyword_gaps
from causeline.causal import AgentState
from causeline.errors import Invalid
from causeline.tools import Resource
from tests.agent.stage import calls, stage

AT = "2026-01-01T00:00:00.000Z"


@tool
async def write_file(path: str) -> ToolResult:
    """Writes."""
    return ToolResult("written", resources=[Resource(path=path, operation="write_file")])


@tool(effects=False)
async def read_file(path: str) -> ToolResult:
    """Reads."""
    return ToolResult("text", resources=[Resource(path=path, operation="read_file")])


TOOLS = [write_file, read_file]
WRITE, READ = calls(("write_file", {"path": "a.py"})), calls(("read_file", {"path": "a.py"}))


async def test_nothing_is_looked_at_unless_it_is_asked_for():
    async with stage([WRITE, READ, {"text": "Checked and fixed."}], TOOLS) as s:
        await s.run("Fix and check it.")
        assert await s.nodes("verification") == []


async def test_an_answer_without_its_work_is_asked_for_again_and_then_counts():
    async with stage([{"text": "It is fixed."}, WRITE, READ, {"text": "Now it is fixed."}], TOOLS, completion="keywords") as s:
        ran = await s.run("Fix the bug.")
        faults, checks = await s.nodes("protocol_error"), await s.nodes("verification")
    assert (ran.status, ran.answer) == ("succeeded", "Now it is fixed.")
    assert [fault.payload["code"] for fault in faults] == ["invalid_output"]
    assert "nothing was changed" in faults[0].payload["detail"]
    assert "nothing was changed" in s.model.requests[1].messages[-1].text
    assert [check.payload for check in checks] == [
        {"method": "post_mutation_read", "path": "a.py"},
        {"method": "completion", "ok": True, "gaps": []},
    ]


async def test_a_model_that_insists_is_believed_with_the_gaps_on_record():
    async with stage([{"text": "Fixed."}] * 5, TOOLS, completion="keywords", max_retries=2) as s:
        ran = await s.run("Fix the bug.")
        (check,) = await s.nodes("verification")
    assert (ran.status, ran.stop_reason, len(s.model.requests)) == ("succeeded", "answered", 3)
    assert check.payload == {
        "method": "completion",
        "ok": False,
        "gaps": ["The task asks for a change, and nothing was changed; if none is needed, say so."],
    }


async def test_a_policy_of_ones_own_sees_task_turn_and_answer():
    seen = []

    def policy(task, nodes, answer):
        seen.append((task, [node.kind for node in nodes], answer))
        return [] if answer == "four" else ["Say it in words."]

    async with stage([{"text": "4"}, {"text": "four"}], completion=policy) as s:
        ran = await s.run("Two and two?")
    assert ran.answer == "four"
    assert seen == [("Two and two?", ["goal"], "4"), ("Two and two?", ["goal", "inference", "protocol_error"], "four")]


async def test_a_policy_that_fails_fails_no_run():
    async with stage([{"text": "x"}] * 3, completion=lambda *_: 1 / 0) as s:
        ran = await s.run("go")
        (check,) = await s.nodes("verification")
    assert (ran.status, check.payload["gaps"]) == ("succeeded", ["the completion policy failed: division by zero"])
    with pytest.raises(Invalid, match="completion"):
        causeline.Agent("openai:x", completion="magic")


def turn(*steps):
    log = AgentState()
    for operation, path in steps:
        if operation == "check":
            log.append("verification", {"method": "syntax_check"}, created_at=AT)
        elif operation == "tool":
            log.append("tool_result", {"call_id": path, "tool": path, "result": "ok", "ok": True}, created_at=AT)
        else:
            log.append(
                "resource", {"path": path, "operation": operation, "succeeded": True}, created_at=AT, resource_key=f"r:{path}:{len(log)}"
            )
    return log.nodes


@pytest.mark.parametrize(
    "task, steps, answer, gaps",
    [
        ("What is it?", [], "x", 0),
        ("Review a.py", [], "x", 1),
        ("Review a.py", [("read_file", "a.py")], "x", 0),
        ("Update a.py", [("read_file", "a.py"), ("edit_file", "a.py")], "x", 0),
        ("Update a.py", [("edit_file", "a.py")], "x", 1),
        ("Update a.py", [], "It is already done.", 0),
        ("Update a.py", [], "No change was needed.", 0),
        ("Update a.py", [("write_file", "build/a.log")], "x", 1),
        ("Update and test a.py", [("write_file", "a.py"), ("tool", "run_tests")], "x", 0),
        ("Update and test a.py", [("tool", "run_tests"), ("write_file", "a.py")], "x", 1),
        ("Check the syntax", [("check", "")], "x", 0),
        ("Restart it and smoke", [("tool", "restart_app")], "x", 1),
    ],
)
def test_the_words_of_a_task_say_what_has_to_be_done(task, steps, answer, gaps):
    assert len(keyword_gaps(task, turn(*steps), answer)) == gaps

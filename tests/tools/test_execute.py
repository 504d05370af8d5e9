"""`execute` returns for every call, and what it returns is exact JSON."""

import asyncio
import contextlib
import sys
import time
from decimal import Decimal
from pathlib import PurePosixPath

import pytest

from causeline.causal import AgentState, Append, apply, canonical
from causeline.errors import Unavailable
from causeline.run.ledger import Call
from causeline.tools.execute import argument_fault, evidence, execute
from causeline.tools.function import tool
from causeline.tools.tool import Resource, ToolContext, ToolError, ToolResult, schema_tool
from tests.graph.walking import idle

CONTEXT = ToolContext(call_id="c", idempotency_key="k")


async def no_wait(_seconds):
    return None


async def test_an_unknown_tool_lists_those_there_are():
    executed = await execute(None, {}, CONTEXT, known=("b", "a"), name="lookp")
    assert (executed.ok, executed.result) == (False, "There is no tool 'lookp'. Available tools: a, b.")
    assert (await execute(None, {}, CONTEXT, name="x")).result == "There is no tool 'x'. Available tools: none."


async def test_the_echo_of_an_unknown_tool_is_bounded():
    executed = await execute(None, {}, CONTEXT, known=[f"tool_{number}" for number in range(1000)], name="\ud800" * 100_000)
    assert len(executed.text) < 1000
    canonical(executed.result)


async def test_errors_are_tried_again_with_one_idempotency_key():
    seen = []

    @tool(retries=2)
    async def flaky(here: ToolContext):
        seen.append((here.attempt, here.idempotency_key))
        if len(seen) < 3:
            raise ValueError
        return "ok"

    executed = await execute(flaky, {}, CONTEXT, sleep=no_wait)
    assert (executed.ok, executed.attempts, executed.result) == (True, 3, "ok")
    assert seen == [(1, "k"), (2, "k"), (3, "k")]


async def test_retries_end():
    @tool(retries=2)
    async def broken():
        raise ValueError("still")

    executed = await execute(broken, {}, CONTEXT, sleep=no_wait)
    assert (executed.ok, executed.attempts, executed.text) == (False, 3, "Error calling broken: ValueError: still")


async def test_waits_grow_and_follow_what_the_other_side_asks_for():
    waits = []

    async def note(seconds):
        waits.append(seconds)

    @tool(retries=3)
    async def limited(here: ToolContext):
        raise Unavailable("busy", retry_after=7 if here.attempt == 2 else None)

    await execute(limited, {}, CONTEXT, sleep=note)
    assert waits == [0.25, 7, 1.0]


@pytest.mark.parametrize("after", ["soon", True, -5, float("nan"), float("inf"), object(), [3], "7"])
async def test_a_wait_that_is_no_number_of_seconds_says_nothing(after):
    waits = []

    async def note(seconds):
        waits.append(seconds)

    @tool(retries=1)
    async def limited():
        raise Unavailable("busy", retry_after=after)

    executed = await execute(limited, {}, CONTEXT, sleep=note)
    assert (executed.ok, executed.attempts, executed.text) == (False, 2, "Error calling limited: busy")
    assert waits == [7.0 if after == "7" else 0.25]


@pytest.mark.parametrize("after", ["soon", None, 3])
async def test_a_tool_error_may_say_when(after):
    @tool
    async def limited():
        raise ToolError("not now", retry_after=after)

    assert (await execute(limited, {}, CONTEXT)).text == "not now"


@pytest.mark.parametrize("kind", ["returned", "ToolError", "arguments"])
async def test_failures_in_the_tools_own_words_are_never_tried_again(kind):
    runs = []

    @tool(retries=5)
    async def decline(a: int):
        runs.append(a)
        if kind == "ToolError":
            raise ToolError("no")
        return ToolResult("no", ok=False)

    executed = await execute(decline, {"a": "x" if kind == "arguments" else 1}, CONTEXT, sleep=no_wait)
    assert not executed.ok
    assert len(runs) == (0 if kind == "arguments" else 1)
    assert executed.attempts == len(runs)


async def test_timeout_and_retries_of_the_context_stand_in_for_the_tools_own():
    runs = []

    @tool(timeout=60, retries=0)
    async def slow():
        runs.append(1)
        await asyncio.sleep(60)

    executed = await execute(slow, {}, ToolContext(call_id="c", timeout=0.01, retries=1), sleep=no_wait)
    assert executed.text == "Error calling slow: timed out after 0.01 s"
    assert len(runs) == 2


async def test_a_tool_knows_its_deadline():
    @tool(timeout=5)
    async def look(here: ToolContext):
        return here.deadline

    before = time.monotonic()
    deadline = (await execute(look, {}, CONTEXT)).result
    assert before + 5 <= deadline <= time.monotonic() + 5
    earlier = ToolContext(call_id="c", deadline=before + 1)
    assert (await execute(look, {}, earlier)).result == before + 1


async def test_a_sync_tool_that_overruns_is_left_and_not_run_beside_itself():
    import threading

    release, runs = threading.Event(), []

    @tool(timeout=0.05, retries=3)
    def stuck():
        runs.append(threading.current_thread().name)
        release.wait(10)
        return "late"

    executed = await execute(stuck, {}, CONTEXT, sleep=no_wait)
    release.set()
    assert executed.attempts == 1
    assert (
        executed.text
        == f"Error calling stuck: timed out after 0.05 s; its function still runs in thread {runs[0]}, so it may still have effects"
    )


async def test_a_tool_that_will_not_be_cancelled_holds_nobody():
    stop = asyncio.Event()

    @tool(timeout=0.05, retries=3)
    async def stubborn():
        while not stop.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    executed = await execute(stubborn, {}, CONTEXT, sleep=no_wait)
    assert executed.attempts == 1
    assert "it does not stop when cancelled" in executed.text

    task = asyncio.create_task(execute(tool(stubborn.body.function, name="again"), {}, CONTEXT))
    await idle()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=30)
    assert done
    assert task.cancelled()
    stop.set()
    await asyncio.sleep(0.03)


async def test_cancelling_the_run_cancels_the_tool_and_is_never_retried():
    seen = []

    @tool(retries=5)
    async def wait():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = asyncio.create_task(execute(wait, {}, CONTEXT))
    await idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled"]


async def test_results_are_exact_json_and_text_is_json():
    @tool
    async def give():
        return {"b": (1, 2.0), "a": None, "nan": float("nan")}

    executed = await execute(give, {}, CONTEXT)
    assert executed.result == {"b": [1, 2.0], "a": None, "nan": "NaN"}
    assert executed.text == '{"a":null,"b":[1,2],"nan":"NaN"}'


async def test_a_result_without_json_form_says_that_the_tool_ran():
    @tool
    async def odd():
        return {"a": [object()]}

    executed = await execute(odd, {}, CONTEXT)
    assert executed.text.startswith("odd ran, but what it returned cannot be used: $.a[0]: a value of type object has no JSON form")


@pytest.mark.parametrize(
    "returned",
    [
        ToolResult(resources=["a.txt"]),
        ToolResult(resources=[Resource("a", "write", bytes=Decimal(3))]),
        ToolResult(verification={"ok": True}),
        ToolResult(context_patch=[1]),
        (number for number in ()),
    ],
)
async def test_a_report_that_cannot_enter_the_log_is_a_result_that_says_so(returned):
    @tool(retries=3)
    async def odd():
        return returned

    executed = await execute(odd, {}, CONTEXT, sleep=no_wait)
    assert (executed.ok, executed.attempts, executed.reported()) == (False, 1, None)
    assert executed.text.startswith("odd ran, but what it returned cannot be used: ")


async def test_a_path_may_be_a_path_object():
    @tool
    async def write():
        return ToolResult(resources=[Resource(PurePosixPath("a/b"), "write")])

    assert (await execute(write, {}, CONTEXT)).resources[0].key == "resource:file:a/b"


async def test_a_result_shares_nothing_with_what_the_tool_keeps():
    cache = {"rows": [1]}

    @tool
    async def give():
        return cache

    executed = await execute(give, {}, CONTEXT)
    cache["rows"].append(2)
    assert executed.result == {"rows": [1]}


async def test_a_result_beyond_the_logs_limit_is_cut_with_a_marker():
    @tool
    async def big(size: int):
        return "é" * size

    small, large = await execute(big, {"size": 5_242_880}, CONTEXT), await execute(big, {"size": 5_242_881}, CONTEXT)
    assert small.result == "é" * 5_242_880
    assert large.ok
    assert len(large.result.encode()) <= 10_485_760
    assert large.result.endswith("\n[cut: the result had 10485762 bytes; the log keeps 10485760]")


async def test_resources_patch_and_verification_become_nodes_in_order():
    @tool
    async def build():
        return ToolResult(
            {"built": True},
            context_patch={"stage": "built", "old": None},
            resources=[Resource("a.txt", "write", content_hash="0" * 64, bytes=3), Resource("b.txt", "write", succeeded=False, value=(1,))],
            verification={"method": "tool_declared"},
        )

    executed = await execute(build, {}, CONTEXT)
    assert executed.context_patch == {"stage": "built", "old": None}
    result = Append("tool_result", {"call_id": "c", "tool": "build", "result": executed.result, "ok": True})
    state = AgentState()
    row = Call(call_id="c", name="build", arguments={}, args_hash="", state="succeeded", index=0, step=0, reported=executed.reported())
    nodes = apply(state, [Append("tool_call", {"call_id": "c"}), result, *evidence(row, result)], "2026-01-01T00:00:00.000Z")
    assert [node.kind for node in nodes] == ["tool_call", "tool_result", "verification", "resource", "resource"]
    assert [node.payload for node in nodes[2:]] == [
        {"tool": "build", "method": "tool_declared"},
        {"path": "a.txt", "operation": "write", "succeeded": True, "contentHash": "0" * 64, "bytes": 3},
        {"path": "b.txt", "operation": "write", "succeeded": False, "value": [1]},
    ]
    assert nodes[3].resource_key == "resource:file:a.txt"
    assert {parent for node in nodes[2:] for parent in node.parents} == {nodes[1].id}


async def test_arguments_that_ran_are_in_the_record():
    async def run(arguments, _context):
        return arguments

    given = schema_tool("echo", "", {"properties": {"a": {}}}, run)
    executed = await execute(given, "{'a': 1}", CONTEXT)
    assert (executed.arguments, executed.raw, executed.result) == ({"a": 1}, "{'a': 1}", {"a": 1})
    assert argument_fault(given, {"a": 1}) is None
    assert argument_fault(given, "nope") == (await execute(given, "nope", CONTEXT)).text


async def test_many_sync_tools_at_once():
    @tool
    def double(n: int):
        time.sleep(0.001)
        return 2 * n

    results = await asyncio.gather(*(execute(double, {"n": number}, CONTEXT) for number in range(200)))
    assert [each.result for each in results] == [2 * number for number in range(200)]


def test_a_process_ends_although_a_tool_never_does(tmp_path):
    import subprocess

    script = tmp_path / "stuck.py"
    script.write_text(
        "import asyncio, time\nfrom causeline.tools.function import tool\nfrom causeline.tools.execute import execute\n"
        "from causeline.tools.tool import ToolContext\n"
        "@tool(timeout=0.05)\ndef stuck():\n    time.sleep(1000)\n"
        "print(asyncio.run(execute(stuck, {}, ToolContext(call_id='c'))).ok)\n"
    )
    assert subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=30, check=True).stdout == "False\n"


async def test_what_a_tool_raises_is_logged_with_its_traceback_and_without_the_arguments(caplog):
    caplog.set_level("DEBUG", "causeline.tools")

    @tool
    def broken(token: str) -> str:
        """Breaks."""
        return {}[1]

    @tool
    def picky(token: str) -> str:
        """Says what it wants."""
        raise ToolError("another token, please")

    @tool
    def fine(token: str) -> str:
        """Works."""
        return token

    for one in (broken, picky, fine):
        await execute(one, {"token": "s3cret"}, ToolContext(call_id="c1", run_id="r1"))
    assert [(row.name, row.levelname, row.getMessage()) for row in caplog.records] == [
        ("causeline.tools", "WARNING", "tool broken failed in call c1 of run r1"),
        ("causeline.tools", "DEBUG", "tool picky failed in call c1 of run r1"),
    ]
    assert "return {}[1]" in caplog.text
    assert "KeyError: 1" in caplog.text
    assert "s3cret" not in caplog.text

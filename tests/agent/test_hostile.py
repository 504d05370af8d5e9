"""Text and values that break naive systems: kept, made visible, or refused at the door; never a broken run."""

import json
from typing import Any

import pytest

from causeline import ToolResult, tool
from causeline.causal import verify_export
from causeline.errors import Invalid
from causeline.models.model import CallDelta, Finish, TextDelta
from tests.agent.stage import calls, stage
from tests.agent.test_calls import Pieces

TEXTS = ["a\x00b", "\u202eright to left", "\x1b[31m\x07", "\ufeff\u200b", "{{ now }}", "</recalled>", "\U0001f600" * 3, "e\u0301"]
SEEN = []


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


@tool(effects=False)
async def echo(text: str) -> str:
    """Echoes."""
    SEEN.append(text)
    return text


@pytest.mark.parametrize("text", TEXTS)
async def test_odd_text_comes_through_unchanged_everywhere(text):
    async with stage(
        [calls(("echo", {"text": text}, "a"), text=text), {"text": f"said {text}"}], [echo], system=f"Prompt {text}".replace("{{", "{ {")
    ) as s:
        ran = await s.run(text, context={text: text})
        said = await s.said()
        data = await s.runtime.export("s")
    assert [text] == SEEN
    assert said == [("user", text), ("assistant", text), ("tool", text), ("assistant", f"said {text}")]
    assert ran.answer == f"said {text}"
    assert "".join(event["delta"] for event in ran.told("text_message_content")) == f"{text}said {text}"
    assert ran.told("state_snapshot")[0]["context"] == {text: text}
    assert verify_export(data).head == ran.head


LONE = "x\ud800y"


async def test_lone_surrogates_of_a_model_become_replacement_characters():
    deltas = [
        TextDelta(LONE),
        CallDelta(0, LONE, "echo", json.dumps({"text": "ok"})),
        CallDelta(1, "b", LONE, '{"text": "' + LONE + '"}'),
        Finish("tool_calls"),
    ]
    async with stage(Pieces(*deltas), [echo]) as s:
        ran = await s.run("go")
        (first, _) = await s.nodes("inference")
        data = await s.runtime.export("s")
    assert first.payload["text"] == "x\ufffdy"
    assert [call["name"] for call in first.payload["calls"]] == ["echo", "x\ufffdy"]
    assert ran.answer == "done"
    for event in ran.events:
        json.dumps(event, ensure_ascii=False).encode()
    assert verify_export(data).head == ran.head


async def test_lone_surrogates_and_numbers_that_are_none_in_a_result_become_visible():
    @tool(effects=False)
    async def odd() -> dict:
        """Gives odd values."""
        return {"text": LONE, "nan": float("nan"), "inf": [float("inf"), -float("inf")], LONE: 1}

    @tool(effects=False)
    async def shout() -> str:
        """Fails oddly."""
        raise RuntimeError(LONE)

    async with stage([calls(("odd", {}, "a"), ("shout", {}, "b")), {"text": "ok"}], [odd, shout]) as s:
        ran = await s.run("go")
        odd_result, shouted = (one.payload for one in await s.nodes("tool_result"))
    assert odd_result["result"] == {"text": "x\\ud800y", "nan": "NaN", "inf": ["Infinity", "-Infinity"], "x\\ud800y": 1}
    assert (shouted["ok"], shouted["result"]) == (False, "Error calling shout: RuntimeError: x\\ud800y")
    assert ran.status == "succeeded"


async def test_what_a_caller_sends_that_cannot_be_stored_is_refused_before_anything_is_written():
    async with stage([{"text": "ok"}]) as s:
        deep = current = {}
        for _ in range(200):
            current["a"] = current = {}
        refused: list[tuple[Any, Any]] = [
            (LONE, {}),
            ([{"role": "user", "content": [{"type": "text", "text": LONE}]}], {}),
            ("go", {"context": {"a": LONE}}),
            ("go", {"context": {"a": float("nan")}}),
            ("go", {"context": deep}),
            ("go", {"context": {1: 2}}),
            ("go", {"tools": [{"name": "x", "description": LONE, "parameters": {"type": "object"}}]}),
        ]
        for prompt, more in refused:
            with pytest.raises(Invalid) as caught:
                await s.run(prompt, **more)
            assert caught.value.findings
        assert await s.runtime.runs() == []
        assert await s.runtime.sessions() == []


def nested(depth):
    return '{"text": ' * depth + '"x"' + "}" * depth


@pytest.mark.parametrize("depth", [100, 121, 126, 130, 200, 20_000])
async def test_arguments_nested_too_deeply_are_a_fault_the_model_is_told_of(depth):
    async with stage([{"calls": [{"id": "a", "name": "echo", "arguments": nested(depth)}]}, {"text": "sorry"}], [echo]) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert (ran.status, ran.answer) == ("succeeded", "sorry")
    assert (SEEN, result.payload["ok"]) == ([], False)


@pytest.mark.parametrize("depth", [90, 99, 101, 5_000])
async def test_a_result_nested_too_deeply_is_an_error_result(depth):
    @tool(effects=False)
    async def deep() -> list:
        """Nests."""
        value = []
        for _ in range(depth):
            value = [value]
        return value

    async with stage([calls(("deep", {})), {"text": "ok"}], [deep]) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert ran.status == "succeeded"
    assert result.payload["ok"] == (depth < 100)


async def test_a_result_of_more_than_the_log_keeps_is_cut_with_a_mark():
    @tool(effects=False)
    async def flood() -> str:
        """Floods."""
        return "z" * (10 * 1024 * 1024 + 5)

    async with stage([calls(("flood", {})), {"text": "ok"}], [flood]) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert ran.status == "succeeded"
    assert len(result.payload["result"].encode()) == 10 * 1024 * 1024
    assert "[cut:" in result.payload["result"][-200:]
    assert len(s.model.last.messages[-1].text) == 50_000


async def test_a_reply_of_ten_megabytes_is_an_answer():
    text = "long " * 2_000_000
    async with stage(Pieces(*(TextDelta(text[start : start + 100_000]) for start in range(0, len(text), 100_000)), Finish("stop"))) as s:
        ran = await s.run("go")
    assert ran.answer == text


async def test_huge_integers_and_small_fractions_stay_exact():
    @tool(effects=False)
    async def number(n: int) -> list:
        """Counts."""
        SEEN.append(n)
        return [n, 0.1, 1e-7, -0.0]

    async with stage([calls(("number", {"n": 10**30 + 1})), {"text": "ok"}], [number]) as s:
        await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert SEEN == [10**30 + 1]
    assert result.payload["result"] == [10**30 + 1, 0.1, 1e-7, 0]


class Opaque:
    __slots__ = ()


@pytest.mark.parametrize("value", [Opaque(), {"a": Opaque()}, lambda: None, {frozenset([1]): 2}])
async def test_what_has_no_json_form_is_an_error_result(value):
    @tool(effects=False)
    async def give() -> object:
        """Gives."""
        return value

    async with stage([calls(("give", {})), {"text": "ok"}], [give]) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert ran.status == "succeeded"
    assert not result.payload["ok"] or isinstance(result.payload["result"], str)


async def test_a_patch_or_a_progress_that_has_no_json_form_breaks_nothing():
    from causeline import ToolContext

    @tool(effects=False)
    async def patch(context: ToolContext) -> ToolResult:
        """Patches."""
        return ToolResult("ok", context_patch={"a": float("nan"), LONE: LONE})

    @tool(effects=False)
    async def report(context: ToolContext) -> str:
        """Reports."""
        context.emit_progress({"a": Opaque()})
        return "ok"

    async with stage([calls(("patch", {}, "a"), ("report", {}, "b")), {"text": "ok"}], [patch, report]) as s:
        ran = await s.run("go")
        results = [one.payload["ok"] for one in await s.nodes("tool_result")]
        context = (await s.runtime.branch("s")).channels.get("context")
    assert ran.status == "succeeded"
    assert results == [True, False]
    assert context == {"a": "NaN", "x\\ud800y": "x\\ud800y"}


async def test_a_tool_that_calls_for_the_exit_is_a_failed_call():
    @tool(effects=False)
    async def leave() -> str:
        """Leaves."""
        raise SystemExit(3)

    async with stage([calls(("leave", {})), {"text": "ok"}], [leave]) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert (ran.status, result.payload["ok"]) == ("succeeded", False)
    assert "SystemExit" in result.payload["result"]

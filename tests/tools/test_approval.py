"""Approval is a closed vocabulary and fails closed."""

import asyncio

import pytest

from causeline.tools.approval import Approve, Ask, Deny, approval_findings, approves_all, resolve_all, resolve_approval, strictest

UNKNOWN = ["denyy", "manual", "Deny", "AUTO", "pause", "approve", "", False, True, 0, 1, None, 3.5, ["auto"], {"x"}]


async def verdict(mode, name="tool", args=None):
    return await resolve_approval(mode, name, {"a": 1} if args is None else args)


@pytest.mark.parametrize("mode", UNKNOWN)
async def test_unknown_falsy_and_misspelt_modes_deny(mode):
    assert isinstance(await verdict(mode), Deny)
    assert isinstance(await verdict({"tool": mode}), Deny)


@pytest.mark.parametrize("mode", UNKNOWN)
def test_unknown_modes_are_findings_when_the_agent_is_built(mode):
    assert approval_findings(mode)
    assert approval_findings({"tool": mode})


@pytest.mark.parametrize("mode", ["auto", "ask", "deny", "interactive", {"*": "ask"}, {"a*": "auto", "b": len}, print])
def test_known_modes_have_no_findings(mode):
    assert approval_findings(mode) == []


async def test_the_four_words():
    assert await verdict("auto") == Approve()
    assert isinstance(await verdict("deny"), Deny)
    assert await verdict("ask") == Ask('Allow tool with {"a": 1}?')
    assert await verdict("interactive") == Ask('Allow tool with {"a": 1}?', interactive=True)


@pytest.mark.parametrize(
    "said, expected",
    [
        (True, Approve),
        ("approve", Approve),
        (Approve(), Approve),
        (False, Deny),
        ("deny", Deny),
        (Deny("not today"), Deny),
        ("pause", Ask),
        (Ask("Really?"), Ask),
        ("yes", Deny),
        ("ok", Deny),
        ("Approve", Deny),
        (1, Deny),
        (0, Deny),
        (None, Deny),
        ("interrupt", Deny),
        (Approve, Deny),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
async def test_what_a_function_may_answer(said, expected, is_async):
    async def decide(_name, _args):
        await asyncio.sleep(0)
        return said

    found = await verdict(decide if is_async else lambda _name, _args: said)
    assert type(found) is expected
    if isinstance(said, Deny | Ask):
        assert found == said


async def test_a_function_that_raises_denies_and_says_why():
    def decide(name, _args):
        raise LookupError(name)

    assert await verdict(decide) == Deny("the approval function failed: LookupError: tool")


async def test_a_function_cannot_change_the_arguments():
    def decide(_name, args):
        args["a"].append(2)
        return True

    args = {"a": [1]}
    assert await verdict(decide, args=args) == Approve()
    assert args == {"a": [1]}


async def test_cancelling_while_a_function_decides_is_no_denial():
    async def decide(_name, _args):
        await asyncio.sleep(60)

    task = asyncio.create_task(verdict(decide))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "name, expected",
    [("delete_file", Deny), ("delete_row", Ask), ("read_it", Approve), ("send", Ask), ("x_file", Ask), ("delete", Approve)],
)
async def test_the_most_specific_pattern_wins(name, expected):
    modes = {
        "delete_*": "ask",
        "delete_file": "deny",
        "read_*": "auto",
        "*_file": "ask",
        "s*": lambda _name, _args: "pause",
        "??????": "auto",
        "*": "auto",
    }
    assert type(await verdict(modes, name)) is expected


async def test_equally_specific_patterns_take_the_strictest():
    assert type(await verdict({"*_a": "auto", "b_*": "deny"}, "b_a")) is Deny
    assert type(await verdict({"b_*": "deny", "*_a": "auto"}, "b_a")) is Deny


def test_a_pattern_that_fits_no_tool_is_a_finding():
    assert approval_findings({"delte_*": "ask"}, ["delete_file"]) == ["delte_*: fits no tool; there are delete_file"]
    assert approval_findings({"delete_*": "ask"}, ["delete_file"]) == []


async def test_of_a_tools_own_mode_and_its_agents_the_stricter_one_holds():
    assert await resolve_all((None, "auto"), "t", {}) == Approve()
    assert type(await resolve_all(("ask", "auto"), "t", {})) is Ask
    assert type(await resolve_all(("auto", "ask"), "t", {})) is Ask
    assert type(await resolve_all(("auto", "deny"), "t", {})) is Deny
    assert strictest([Ask(), Deny("a"), Deny("b")]) == Deny("a")


def test_what_needs_no_asking_is_known_beforehand():
    assert approves_all((None, "auto"), "t")
    assert approves_all(("auto", {"t": "auto", "*": "deny"}), "t")
    assert approves_all(({"x": "ask"},), "t")
    assert not approves_all((None, "ask"), "t")
    assert not approves_all((lambda _name, _args: True,), "t")
    assert not approves_all((None, {"*": "ask"}), "t")
    assert not approves_all((False,), "t")


async def test_a_prompt_is_bounded():
    found = await verdict("ask", args={"a": "x" * 100_000})
    assert len(found.prompt) < 520


@pytest.mark.parametrize("error", [SystemExit(1), GeneratorExit(), KeyboardInterrupt(), asyncio.CancelledError(), Exception()])
@pytest.mark.parametrize("is_async", [False, True])
async def test_whatever_a_function_raises_is_a_denial(error, is_async):
    def decide(_name, _args):
        raise error

    async def decide_async(name, args):
        decide(name, args)

    verdict = await resolve_approval(decide_async if is_async else decide, "pay", {})
    assert isinstance(verdict, Deny)
    assert type(error).__name__ in verdict.reason


async def test_an_answer_that_cannot_be_printed_is_a_denial():
    class Odd:
        def __repr__(self):
            raise RuntimeError("no picture")

    verdict = await resolve_approval(lambda _name, _args: Odd(), "pay", {})
    assert isinstance(verdict, Deny)
    assert "'Odd'" in verdict.reason

"""An exported run answers in the place of its model and its tools, and of nothing else."""

import asyncio
import subprocess
import sys

import pytest

import causeline
from causeline.causal import VerifyError
from causeline.models import ScriptedModel
from causeline.models.parts import image
from causeline.testing import Recorded

ran = []


@causeline.tool
def pay(amount: int, to: str = "shop") -> str:
    """Pay somebody."""
    ran.append((amount, to))
    if amount > 100:
        raise ValueError("too much")
    return f"paid {amount} to {to}"


@causeline.tool(effects=False)
def stock(item: str) -> dict:
    """How many there are."""
    ran.append(item)
    return {"item": item, "left": len(ran), "note": "n" * 200}


SYSTEM = "You sell things. Today is {{ date }}, now {{ now }}, session {{ session.id }}."
PEN = {"id": "", "name": "stock", "arguments": {"item": "pen"}}
SCRIPT = [
    {
        "text": "let me see",
        "calls": [{"id": "", "name": "stock", "arguments": {"item": "pen"}}, {"name": "stock", "arguments": {"item": "pen"}}],
    },
    {"calls": [{"id": "c9", "name": "pay", "arguments": {"amount": 500}}]},
    {"calls": [{"id": "c10", "name": "pay", "arguments": '{"amount": '}], "usage": {"input_tokens": 70, "output_tokens": 5, "cost": 0.5}},
    {"text": "You have paid."},
]


@pytest.fixture(autouse=True)
def _nothing_ran():
    ran.clear()


async def record(*prompts, script=SCRIPT, tools=(pay, stock), **options):
    agent = causeline.Agent(ScriptedModel(script), tools=list(tools), system=SYSTEM, **options)
    async with causeline.open("memory://") as runtime:
        for prompt in prompts or ("buy a pen",):
            result = await (await runtime.start(agent, prompt, session="shop-1")).result()
            assert result.status == "succeeded", result.error
        return await runtime.export("shop-1")


async def test_the_same_run_without_its_model_and_its_tools(tmp_path):
    export = await record()
    assert ran == ["pen", "pen", (500, "shop")]
    ran.clear()
    (tmp_path / "run.json").write_bytes(export)
    recorded = Recorded(tmp_path / "run.json")
    assert (recorded.prompt, recorded.answer) == ("buy a pen", "You have paid.")
    result = await causeline.Agent(recorded, tools=[recorded], system=SYSTEM).run(recorded.prompt)
    assert (result.status, result.answer) == ("succeeded", "You have paid."), result.error
    assert result.usage["cost"] == 0.5
    assert ran == []
    assert (recorded.misses, recorded.unused) == ([], 0)
    recorded.check()


async def test_tools_may_keep_their_schemas_and_turns_follow_each_other():
    recorded = Recorded(await record("buy a pen", "thanks"))
    agent = causeline.Agent(recorded.model, tools=recorded.tools([pay, stock]), system=SYSTEM)
    assert agent.toolbox.get("pay").description == "Pay somebody."
    ran.clear()
    async with causeline.open("memory://") as runtime:
        answers = [(await (await runtime.start(agent, prompt, session="shop-1")).result()).answer for prompt in recorded.prompts]
    assert answers == ["You have paid.", "You have paid."]
    assert ran == []


async def test_a_request_that_differs_fails_with_the_difference():
    recorded = Recorded(await record())
    result = await causeline.Agent(recorded, tools=[recorded], system=SYSTEM + " Be brief.").run("buy a pen")
    assert (result.status, result.stop_reason, result.error["code"]) == ("failed", "model_error", "unrecorded")
    lines = result.error["message"].splitlines()
    assert lines[0].startswith("This request is not recorded. Beside request 1 of 4")
    assert lines[3:5] == [
        "-system: You sell things. Today is <time>, now <time>, session <id>.",
        "+system: You sell things. Today is <time>, now <time>, session <id>. Be brief.",
    ]
    with pytest.raises(AssertionError, match="Be brief"):
        recorded.check()


async def test_a_tool_that_answers_otherwise_is_seen_in_the_next_request():
    recorded = Recorded(await record())

    @causeline.tool(effects=False)
    def stock(item: str) -> str:
        """Another one."""
        return "none left"

    tools = [tool for tool in recorded.tools() if tool.name != "stock"]
    result = await causeline.Agent(recorded, tools=[*tools, stock], system=SYSTEM).run("buy a pen")
    assert result.error["code"] == "unrecorded"
    assert "+tool 1: none left" in result.error["message"]
    assert '-tool 1: {"item":"pen","left":1' in result.error["message"]


async def test_a_call_that_differs_is_not_run():
    recorded = Recorded(await record())
    model = ScriptedModel([{"calls": [{"id": "c1", "name": "pay", "arguments": {"amount": 400}}]}, {"text": "end"}])
    ran.clear()
    agent = causeline.Agent(model, tools=recorded.tools([pay, stock]))
    assert (await agent.run("buy a pen")).answer == "end"
    assert ran == []
    [miss] = recorded.misses
    assert miss.splitlines() == [
        "This call of pay is not recorded, so it was not run.",
        '  asked now: {"amount":400}',
        '  recorded: {"amount":500}',
        '  recorded: {"amount": ',
    ]


async def test_an_edited_call_is_found_as_it_ran_and_a_person_need_not_be_asked_again():
    asks = causeline.tool(pay.body.function, approval="ask")
    agent = causeline.Agent(ScriptedModel(SCRIPT[1:2] + SCRIPT[3:4]), tools=[asks, causeline.tools.ask_human], system=SYSTEM)
    async with causeline.open("memory://") as runtime:
        asked = await (await runtime.start(agent, "pay it", session="shop-1")).result()
        further = await runtime.answer(asked.run_id, {asked.interrupts[0].id: causeline.edit({"amount": 5})}, agent=agent)
        assert (await further.result()).answer == "You have paid."
        recorded = Recorded(await runtime.export("shop-1"))
    assert [tool.name for tool in recorded.tools([asks])] == ["pay"]
    executed = await recorded.tools()[0].body.run({"amount": 5}, None)
    assert executed.value == "paid 5 to shop"


async def test_branches_pictures_and_long_results_are_all_there():
    @causeline.tool(effects=False)
    def photo() -> dict:
        """Take one."""
        return {"parts": [{"type": "text", "text": "x" * 60_000}, image(b"png")]}

    script = [{"calls": [{"id": "p", "name": "photo", "arguments": {}}]}, {"text": "seen"}]
    agent = causeline.Agent(ScriptedModel(script), tools=[photo])
    async with causeline.open("memory://") as runtime:
        first = await (await runtime.start(agent, "look", session="s")).result()
        forked = causeline.Agent(ScriptedModel([{"text": "later"}]), name="agent")
        await (await runtime.start(forked, "and now?", session="s", at=first.head)).result()
        await (await runtime.start(forked, "and then?", session="s", at=first.head)).result()
        recorded = Recorded(await runtime.export("s", all=True))
    for prompt in ("and now?", "and then?"):
        async with causeline.open("memory://") as runtime:
            again = causeline.Agent(recorded, tools=[recorded])
            assert (await (await runtime.start(again, "look", session="s")).result()).answer == "seen"
            assert (await (await runtime.start(again, prompt, session="s")).result()).answer == "later"


async def test_an_export_that_was_changed_is_refused():
    export = await record()
    with pytest.raises(VerifyError):
        Recorded(export.replace(b"You have paid.", b"You have laid."))


def test_the_fixture_fails_a_test_whose_agent_asked_for_more(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["causeline.testing.pytest_plugin"]\n')
    (tmp_path / "run.json").write_bytes(asyncio.run(record(script=[{"text": "hello"}], tools=())))
    ask = "causeline.Agent(run, tools=[run], system={system!r}).run_sync(run.prompt).answer"
    (tmp_path / "test_it.py").write_text(
        "import causeline\n"
        f"def test_right(recorded):\n    run = recorded('run.json')\n    assert {ask.format(system=SYSTEM)} == 'hello'\n"
        f"def test_wrong(recorded):\n    run = recorded('run.json')\n    {ask.format(system='Other.')}\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "2 passed, 1 error" in ended.stdout, ended.stdout
    assert "+system: Other." in ended.stdout

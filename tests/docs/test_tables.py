"""The tables of the reference pages name what there is, and only that."""

import re

import pytest

import causeline
from causeline.agent.options import OPTION_NAMES, Options
from causeline.graph.documents import vocabulary
from causeline.models import ScriptedModel
from tests.docs import pages

REFERENCE = pages.ROOT / "docs/reference"
COMMON = {"type", "run_id", "session_id", "seq", "ts"}


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the table below a heading row that begins with `title`."""
    table = (REFERENCE / page).read_text("utf-8").partition(f"| {title} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_option_of_an_agent_has_a_line_and_its_default():
    table = {named(name)[0]: default for name, default, _ in rows("agent.md", "option")}
    assert sorted(table) == sorted({*OPTION_NAMES, "tools"} - {"base_dir"})
    options = Options(model="scripted:echo")
    for name, default in table.items():
        for value in named(default):
            written = {"true": True, "false": False}.get(value, value.strip('"'))
            assert str(getattr(options, name)) == str(written), name


@pytest.mark.parametrize(
    "title, known",
    [
        ("reducer", {f"`{name}`" for name in vocabulary.REDUCER_PORTS}),
        ("strategy", {f"`{name}`" for name in vocabulary.GATHER_NEEDS}),
        ("in Python", {f"`{kind}`" for kind in vocabulary.KINDS}),
    ],
)
def test_the_words_of_documents_are_all_explained(title, known):
    column = 1 if title == "in Python" else 0
    assert {row[column].partition(" (")[0] for row in rows("graph.md", title)} == known


TABLE = {named(kind)[0]: set(named(fields)) for kind, fields, _ in rows("events.md", "type")}


@causeline.tool(approval="ask")
async def pay(amount: int, context: causeline.ToolContext) -> causeline.ToolResult:
    """Pay."""
    context.emit_progress({"paid": amount})
    return causeline.ToolResult("paid", context_patch={"paid": amount})


def scripted(*items, **options):
    return causeline.Agent(ScriptedModel([*items, {"text": "Done."}]), **options)


CALL = {"calls": [{"id": "1", "name": "pay", "arguments": {"amount": 3}}]}
HELPER = scripted(name="helper")


@pytest.mark.parametrize(
    "agent",
    [
        scripted(CALL, tools=[pay], recall={"runs": "session"}),
        scripted({"calls": [{"name": "help", "arguments": {"prompt": "x"}}]}, name="outer", tools=[HELPER.as_tool("help", "Helps.")]),
        scripted({"status": 401}),
    ],
    ids=["approval", "sub-run", "failure"],
)
async def test_what_runs_tell_is_in_the_table_of_events(agent):
    async with causeline.open("memory://", agents=[agent]) as runtime:
        run = await runtime.start(agent, "go")
        events = [event async for event in run.events()]
        result = await run.result()
        if result.interrupts:
            run = await runtime.answer(run.id, {result.interrupts[0].id: causeline.approve()})
            events += [event async for event in run.events()]
    for event in events:
        fields = set(event) - COMMON
        assert fields <= TABLE[event["type"]], event["type"]
        assert fields >= TABLE[event["type"]] - {"name", "message_id"}, event["type"]

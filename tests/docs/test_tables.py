"""The tables of the reference pages name what there is, and only that."""

import ast
import re

import pytest

import causeline
from causeline.adapters.models.chat_servers import SERVERS
from causeline.agent.options import OPTIONS, Option, Options
from causeline.events import KINDS, MADE_WHOLE_WHEN_READ
from causeline.graph.documents import vocabulary
from causeline.models import ScriptedModel, kinds
from tests.architecture import source
from tests.docs import pages

REFERENCE = pages.ROOT / "docs/reference"
COMMON = {"type", "run_id", "session_id", "seq", "ts"}


def rows(page: str, title: str) -> list[list[str]]:
    """The cells of the table below a heading row that begins with `title`."""
    table = (REFERENCE / page).read_text("utf-8").partition(f"| {title} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


TOOLS_ROW = ["`tools`", "none", "Python only: functions, Tools or lists of them; in a file `[[tools]]`"]


def row_of(name: str, info: Option) -> list[str]:
    """The cells of an option's line, from the table in the code."""
    default = getattr(Options(model=""), name, None)
    written = (
        {True: "true", False: "false"}[default] if isinstance(default, bool) else f'"{default}"' if isinstance(default, str) else default
    )
    return [f"`{name}`", info.unset or ("required" if name == "model" else f"`{written}`"), info.help]


def test_the_table_of_options_is_the_one_in_the_code():
    wanted = [row_of(name, info) for name, info in OPTIONS.items() if name != "base_dir"]
    wanted.insert(3, TOOLS_ROW)
    assert rows("agent.md", "option") == wanted


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


def test_the_table_of_events_has_every_kind_with_its_fields():
    table = {named(kind)[0]: {named(field)[0] for field in split(fields)} for kind, fields, _ in rows("events.md", "type")}
    known = {
        kind: {*(type_.__required_keys__ - COMMON), *(f"{name}?" for name in type_.__optional_keys__)} for kind, type_ in KINDS.items()
    }
    known["sub_run_event"].add("run_id")
    assert table == known


def test_every_event_that_the_source_makes_has_the_fields_of_its_kind():
    made = [call for name in source.python_files("src") for call in ast.walk(ast.parse(source.text(name))) if is_run_event(call)]
    assert len(made) > 20
    for call in made:
        fields = {keyword.arg: keyword.value for keyword in call.keywords}
        kind = getattr(fields["type"], "value", None)
        if not isinstance(kind, str):
            continue  # a name of a variable
        known = KINDS[kind]
        reference, whole = MADE_WHOLE_WHEN_READ.get(kind, (set(), None))
        assert set(fields) - {None} - reference <= known.__required_keys__ | known.__optional_keys__, kind
        if None not in fields:
            assert set(fields) >= known.__required_keys__ - (COMMON - {"type"}) - {whole}, kind


def is_run_event(node):
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "RunEvent"


def split(fields: str) -> list[str]:
    """The fields of a cell, without what stands in brackets."""
    return [field for field in re.sub(r"\([^)]*\)", "", fields).split(",") if field.strip()]


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
async def test_what_runs_tell_are_events_of_these_kinds_with_these_fields(agent):
    async with causeline.open("memory://", agents=[agent]) as runtime:
        run = await runtime.start(agent, "go")
        told = [event async for event in run.events()]
        result = await run.result()
        if result.interrupts:
            run = await runtime.answer(run.id, {result.interrupts[0].id: causeline.approve()})
            told += [event async for event in run.events()]
    for event in told:
        kind = KINDS[event["type"]]
        assert kind.__required_keys__ <= set(event) <= kind.__required_keys__ | kind.__optional_keys__, event["type"]


def test_the_table_of_models_is_the_one_in_the_code():
    table = {row[0].strip("`"): row for row in rows("models.md", "kind")}
    for kind, server in SERVERS.items():
        _, _, key, bound, back = table[kind]
        assert named(key) == ([server.key_env] if server.key_env else []), kind
        assert named(bound)[0] == server.max_tokens
        assert set(named(back)) == set(server.gives_back), kind
    assert table.keys() == kinds._kinds.keys()
    assert [tuple(named(" ".join(row))) for row in rows("models.md", "name")] == list(kinds.BY_NAME)

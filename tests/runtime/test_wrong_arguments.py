"""Whatever is handed to a public entry point and is of the wrong kind is refused by an error of ours that names it."""

import pytest

import causeline
from causeline import graph, models, nodes
from causeline.causal import AgentState, identity, project
from causeline.errors import CauselineError
from causeline.models import ScriptedModel
from causeline.tools import fetch_url, workspace_tools


def model() -> ScriptedModel:
    return ScriptedModel([{"text": "5.0"}])


def document() -> graph.Document:
    return graph.Graph("urn:t:x").node("a", "urn:t:a", {"ok": "end"}).terminal("end").entry("main", "a").build()


BUILDING = {
    "model": lambda: causeline.Agent(5),
    "openai:NAME": lambda: causeline.Agent("openai:"),
    "output_type: .* response_format[)]": lambda: causeline.Agent(model(), output_type={"type": "object"}),
    "output_type: ": lambda: causeline.Agent(model(), output_type={"type": "objct"}),
    "tools: expected a list": lambda: causeline.Agent(model(), tools=5),
    "tools: expected": lambda: causeline.Agent(model(), tools="lookup"),
    "url: expected text": lambda: causeline.open(5),
    "url: expected": lambda: causeline.open(None),
    r"agents\[0\]: expected a causeline.Agent": lambda: causeline.open("memory://", agents=[5]),
    "agents: expected a list": lambda: causeline.open("memory://", agents=5),
    "owner": lambda: causeline.open("memory://", owner=5),
    "grace: expected a number": lambda: causeline.open("memory://", grace="x"),
    "grace": lambda: causeline.open("memory://", grace=-1),
    "document: 5 is no Document": lambda: causeline.GraphProgram(5, []),
    "nodes: 5 is no Node": lambda: causeline.GraphProgram(document(), [5]),
    "name: expected text": lambda: causeline.GraphProgram(document(), [], name=5),
    "document: 5": lambda: graph.check(5),
    "documents: 5": lambda: graph.Dispatcher().register(5),
    "nodes: 5": lambda: graph.Dispatcher().register(document(), [5]),
    "IRI 5": lambda: graph.node(5, ("ok",)),
    "ports must be": lambda: graph.node("urn:t:a", 5),
    "expected a function": lambda: graph.node("urn:t:a", ("ok",))(5),
    "visits": lambda: graph.Limits(visits="x"),
    "max_attempts": lambda: graph.RetryPolicy(max_attempts="x"),
    "list of replies": lambda: ScriptedModel(5),
    "path: expected a path": lambda: causeline.load_agent(5),
    "tools": lambda: nodes.tool_exec(tools=5),
    "tools: ": lambda: nodes.tool_documents(5),
    "root: expected a path": lambda: workspace_tools(5),
    "max_bytes": lambda: fetch_url(max_bytes="x"),
    "no kind of model": lambda: models.register(5, model),
    "open: expected a function": lambda: models.register("mine", 5),
    "state: expected an AgentState": lambda: project(5, "", 100),
    "budget": lambda: project(AgentState(), "", "x"),
    "parents": lambda: identity("goal", {}, 5),
    "by: expected text": lambda: causeline.approve(by=5),
    "reason: expected text": lambda: causeline.deny(5),
    "edit takes": lambda: causeline.edit(5),
    "state: expected": lambda: causeline.Agent(model()).run_sync("x", state=5),
    "a prompt is text": lambda: causeline.Agent(model()).execution(5),
    "the prompt is empty": lambda: causeline.Agent(model()).run_sync(" "),
}


@pytest.mark.parametrize("told", BUILDING)
def test_what_is_built_names_what_it_cannot_be_built_of(told):
    with pytest.raises(CauselineError, match=told):
        BUILDING[told]()


async def _events(runtime, *arguments):
    return [event async for event in runtime.events(*arguments)]


VERBS = {
    "start": [
        (lambda r, a: r.start(a, ""), "the prompt is empty"),
        (lambda r, a: r.start(a, " \n"), "the prompt is empty"),
        (lambda r, a: r.start(a, [{"role": "user", "content": ""}]), r"messages\[0\]: the message is empty"),
        (lambda r, a: r.start(a, [{"role": "user"}]), r"messages\[0\]"),
        (lambda r, a: r.start(a, 5), "a prompt is text"),
        (lambda r, _: r.start(5, "x"), "agent"),
        (lambda r, a: r.start(a, "x", session=5), "session id"),
        (lambda r, a: r.start(a, "x", at=5), "checkpoint id"),
        (lambda r, a: r.start(a, "x", context=5), "context"),
        (lambda r, a: r.start(a, "x", tools=5), "tools"),
        (lambda r, a: r.start(a, "x", on_busy=5), "on_busy"),
    ],
    "reading": [
        (lambda r, _: r.run(5), "no run 5"),
        (lambda r, _: r.messages(5), "no session 5"),
        (lambda r, _: r.why(5), "no causal node"),
        (lambda r, _: r.diff(5, 5), "no run"),
        (lambda r, _: r.recall(query=5), "query"),
        (lambda r, _: r.recall(query="x", k="a"), "k: expected"),
        (lambda r, _: r.runs(status=5), "status"),
        (lambda r, _: r.runs(status=("over",)), r"status\[0\]: expected one of"),
        (lambda r, _: r.runs(limit="x"), "limit"),
        (lambda r, _: r.import_(5), "bytes"),
        (lambda r, _: r.query(5), "quer"),
        (lambda r, _: _events(r, "r", "x"), "after: expected"),
        (lambda r, _: _events(r, "r", 1.5), "after: expected"),
        (lambda r, _: _events(r, "r", -1), "after: expected"),
        (lambda r, _: r.stored_events("r", "x"), "after: expected"),
    ],
    "answering": [
        (lambda r, _: r.answer("r", 5), "interrupt|decision|answer"),
        (lambda r, _: r.answer("r", {"x": 5}), "x"),
        (lambda r, _: r.resume(5), "no run 5"),
        (lambda r, _: r.cancel(None), "no run"),
        (lambda r, _: r.delete(5), "no session 5"),
        (lambda r, _: r.put_session("s", metadata=5), "metadata"),
    ],
}


@pytest.mark.parametrize("group", VERBS)
async def test_verbs_of_a_runtime_name_what_they_cannot_use(group):
    agent = causeline.Agent(model())
    async with causeline.open("memory://", agents=[agent]) as runtime:
        await (await runtime.start(agent, "go", session="s", run_id="r")).result()
        for verb, told in VERBS[group]:
            with pytest.raises(CauselineError, match=told):
                await verb(runtime, agent)
        assert [run.id for run in await runtime.runs()] == ["r"], "nothing was stored"


def test_a_typed_answer_is_logged_as_its_type_writes_it():
    result = causeline.Agent(model(), output_type=int).run_sync("how many?")
    assert (type(result.answer), type(result.output), result.answer) == (int, int, 5)

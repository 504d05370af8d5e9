"""One set of tools for the model, for execution and for error texts."""

import pytest

from causeline.errors import Invalid
from causeline.tools.function import tool
from causeline.tools.human import ASK_HUMAN, ask_human, question_text
from causeline.tools.skills import Skill
from causeline.tools.tool import InvalidTool, schema_tool
from causeline.tools.toolbox import Toolbox, ToolClash, UnknownTools, client_tools


def make(name):
    async def run(_arguments, _context):
        return name

    return schema_tool(name, f"Does {name}.", {}, run)


ALPHA, BETA, GAMMA = make("alpha"), make("beta"), make("gamma")


def plain_function(x: int):
    """Takes a number."""
    return x


def test_order_names_and_specs():
    box = Toolbox([BETA, plain_function, [ALPHA, (GAMMA,)]])
    assert box.names() == ("beta", "plain_function", "alpha", "gamma")
    assert [spec.name for spec in box.specs()] == list(box.names())
    assert box.specs()[1].to_json() == {
        "name": "plain_function",
        "description": "Takes a number.",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False},
    }
    assert box.get("alpha") is ALPHA
    assert box.get("delta") is None
    assert "beta" in box
    assert len(box) == 4


def test_a_clash_is_an_error_that_names_it():
    with pytest.raises(ToolClash, match="alpha"):
        Toolbox([ALPHA, make("alpha")])
    assert Toolbox([ALPHA, ALPHA]).names() == ("alpha",)


@pytest.mark.parametrize("use, names", [(None, "abg"), ("*", "abg"), ("all", "abg"), ([], ""), ("beta", "b"), (["gamma", "alpha"], "ag")])
def test_use_tools(use, names):
    assert "".join(name[0] for name in Toolbox([ALPHA, BETA, GAMMA], use=use).names()) == names


def test_unknown_names_in_use_tools_are_errors_with_advice():
    with pytest.raises(UnknownTools) as caught:
        Toolbox([ALPHA, BETA], use=["alhpa", "zzz"])
    assert caught.value.findings == ("alhpa: no such tool; did you mean alpha?", "zzz: no such tool; there are alpha, beta")


def test_skills_take_tools_away_and_never_add_any():
    def skill(allowed=None, disallowed=()):
        return Skill("s", "d", "t", allowed, disallowed)

    tools = [ALPHA, BETA, GAMMA]
    assert Toolbox(tools, skills=[skill()]).names() == ("alpha", "beta", "gamma")
    assert Toolbox(tools, skills=[skill(("alpha", "b*", "unknown"))]).names() == ("alpha", "beta")
    assert Toolbox(tools, skills=[skill(("alpha", "beta")), skill(("beta", "gamma"))]).names() == ("beta",)
    assert Toolbox(tools, skills=[skill(()), skill()]).names() == ()
    assert Toolbox(tools, skills=[skill(disallowed=("a*",))]).names() == ("beta", "gamma")
    assert Toolbox(tools, use=["alpha"], skills=[skill(("alpha", "beta"))]).names() == ("alpha",)


def test_tools_added_later_are_not_narrowed_and_keep_the_skill_text():
    box = Toolbox([ALPHA, BETA], skills=[Skill("s", "d", "t", ("alpha",))]).with_tools([GAMMA])
    assert box.names() == ("alpha", "gamma")
    assert box.skill_text() == "### Skill: s [system] — d\n\nt"


def test_a_schema_that_cannot_be_used_is_found_when_the_box_is_made():
    async def run(_arguments, _context): ...

    broken = schema_tool("broken", "", {"properties": {"a": {"type": "strin"}}}, run)
    remote = schema_tool("remote", "", {"properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}}, run)

    def unresolved(a: "Nowhere"): ...  # noqa: F821 - does not resolve

    with pytest.raises(InvalidTool) as caught:
        Toolbox([broken, remote, unresolved])
    assert len(caught.value.findings) == 3


def test_client_tools_are_added_for_a_run():
    box = Toolbox([ALPHA]).with_client(
        [{"name": "pick", "description": "Pick.", "parameters": {"properties": {"n": {"type": "integer"}}}}, {"name": "bare"}]
    )
    pick = box.get("pick")
    assert (pick.client, ALPHA.client) == (True, False)
    assert pick.body.findings({"n": "x"}) == ['$.n: "x" is not of type "integer"']
    assert box.get("bare").parameters == {"type": "object", "properties": {}}


def test_a_client_tool_cannot_take_the_name_of_a_server_tool():
    with pytest.raises(ToolClash):
        Toolbox([ALPHA]).with_client([{"name": "alpha"}])
    with pytest.raises(ToolClash):
        Toolbox([ALPHA]).with_client([{"name": "same"}, {"name": "same"}])


def test_every_fault_of_client_definitions_is_named():
    with pytest.raises(Invalid) as caught:
        client_tools(
            [
                {"name": "has space"},
                {"name": "a", "parameters": 3},
                {"name": "b", "parametres": {}},
                "c",
                {"name": "d", "description": 1},
                {"name": "e", "parameters": {"properties": {"x": {"type": "nope"}}}},
                {},
                {"name": "ok"},
            ]
        )
    assert [line.partition(":")[0] for line in caught.value.findings] == [f"tools[{index}]" for index in range(7)]


def test_ask_human_is_a_question_and_never_runs_here():
    assert (ask_human.name, ask_human.human, ask_human.effects) == (ASK_HUMAN, True, False)
    assert ask_human.body.findings({"question": ""})
    assert question_text({"question": "Which one?", "choices": ["red", "blue"]}) == "Which one?\n- red\n- blue"
    assert question_text({"question": "Why?"}) == "Why?"


def test_needs_started_only_where_a_second_run_could_do_harm():
    def f(): ...

    assert tool(f).needs_started
    assert not tool(f, effects=False).needs_started
    assert not tool(f, idempotent=True).needs_started

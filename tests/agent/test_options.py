"""Every option of an agent is checked, all at once, and can be stored and read back."""

import dataclasses
import inspect
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel

import causeline
from causeline import graph
from causeline.agent.options import DEFAULT_TYPES, OPTIONS, InvalidOptions, Options, option_findings
from causeline.models import ScriptedModel
from causeline.tools.skills import Skill

MODEL = "openai:gpt-5-mini"


class City(BaseModel):
    name: str


@dataclasses.dataclass
class Town:
    name: str


def faults(**values):
    return [name for name, _ in option_findings({"model": MODEL, **values})]


def test_defaults_are_those_of_the_contract():
    options = dataclasses.asdict(Options.checked(model=MODEL))
    assert options == {
        "model": MODEL,
        "name": "agent",
        "system": None,
        "use_tools": None,
        "skills": (),
        "skill_dir": None,
        "input_key": "input",
        "output_key": "output",
        "messages_key": "messages",
        "tool_call_key": "_tool_call_name",
        "human_key": "ask_human",
        "temperature": None,
        "max_tokens": None,
        "model_settings": None,
        "response_format": None,
        "output_type": None,
        "provider": None,
        "base_url": None,
        "api_key_env": None,
        "chat_path": None,
        "auth_header": None,
        "auth_prefix": None,
        "max_tool_rounds": None,
        "max_steps": None,
        "max_repeats": 5,
        "run_timeout": None,
        "max_total_tokens": None,
        "max_cost": None,
        "tool_concurrency": 8,
        "tool_mode": "native",
        "parse_text_tool_calls": True,
        "tool_error_mode": "message",
        "tool_timeout": None,
        "tool_retries": 0,
        "max_retries": 2,
        "fallbacks": (),
        "tool_approval": "auto",
        "memory": None,
        "recall": None,
        "remember": None,
        "completion": None,
        "graph": "react",
        "nodes": (),
        "documents": (),
        "deps": None,
        "context_mode": "transcript",
        "context_tokens": None,
        "node_types": None,
        "allow_dynamic_node_types": False,
        "stream": True,
        "on_token": None,
        "on_request": None,
        "base_dir": None,
    }


def test_none_means_not_given_for_every_option():
    assert Options.checked(**{name: None for name in OPTIONS if name != "model"}, model=MODEL) == Options.checked(model=MODEL)


WHERE_GIVEN = {
    "name": "x", "system": "x", "use_tools": [], "skills": [Skill("s", "", "t")], "skill_dir": "x", "input_key": "x", "output_key": "x",
    "messages_key": "x", "tool_call_key": "x", "human_key": "x", "temperature": 1, "max_tokens": 9, "model_settings": {"seed": 1},
    "response_format": {"type": "object"}, "output_type": City, "provider": "openai", "base_url": "http://x", "api_key_env": "X",
    "chat_path": "/x", "auth_header": "X", "auth_prefix": "x", "max_tool_rounds": 1, "max_steps": 9, "max_repeats": 2, "run_timeout": 9,
    "max_total_tokens": 9, "max_cost": 1.0, "tool_concurrency": 2, "tool_mode": "text", "parse_text_tool_calls": False,
    "tool_error_mode": "raise", "tool_timeout": 9, "tool_retries": 1, "max_retries": 1, "fallbacks": ["openai:x"],
    "tool_approval": "ask", "memory": "memory://", "recall": {"runs": "session"}, "remember": True, "completion": "keywords",
    "graph": "react-flat",
    "nodes": [graph.node("urn:x", ("done",))(lambda _: "done")],
    "documents": [graph.Graph("urn:d").terminal("end").entry("main", "end").build()],
    "deps": object(), "context_mode": "causal", "context_tokens": 999, "node_types": ["x"], "allow_dynamic_node_types": True,
    "stream": False, "on_token": print, "on_request": print, "base_dir": Path(),
}  # fmt: skip


@pytest.mark.parametrize("reader", ["agent", "react_agent", "tool_exec"])
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "model"])
def test_an_option_is_taken_by_those_who_read_it_and_refused_by_all_others(name, reader):
    beside = {"node_types": ["x"]} if name == "allow_dynamic_node_types" and reader == "agent" else {}
    found = option_findings({"model": "m" if reader != "tool_exec" else None, name: WHERE_GIVEN[name], **beside}, reader)
    if reader in OPTIONS[name].readers:
        assert found == []
    else:
        assert [(option, line.partition(";")[0]) for option, line in found] == [(name, "does nothing here")]


@pytest.mark.parametrize(
    "values, idle",
    [
        ({"model": ScriptedModel([]), "base_url": "http://x"}, "base_url"),
        ({"model": ScriptedModel([]), "provider": "openai"}, "provider"),
        ({"provider": "anthropic"}, "provider"),
        ({"tool_mode": "schema", "parse_text_tool_calls": False}, "parse_text_tool_calls"),
        ({"allow_dynamic_node_types": True}, "allow_dynamic_node_types"),
        ({"allow_dynamic_node_types": True, "node_types": ["x"], "remember": False}, "allow_dynamic_node_types"),
        ({"output_type": City, "response_format": {"type": "object"}}, "output_type"),
    ],
)
def test_an_option_that_does_nothing_beside_another_is_refused(values, idle):
    assert faults(**values) == [idle]


def test_remember_is_off_unless_asked_for():
    given = [{}, {"memory": "memory://"}, {"node_types": ["x"]}, {"remember": True}, {"remember": False, "node_types": ["x"]}]
    assert [Options.checked(model=MODEL, **values).offers_remember for values in given] == [False, True, True, True, False]


@pytest.mark.parametrize(
    "values",
    [
        {"model": ""},
        {"model": 3},
        {"model": None},
        {"name": ""},
        {"name": "a/b"},
        {"system": 3},
        {"system": "{{ nope }}"},
        {"use_tools": [1]},
        {"use_tools": ""},
        {"skills": "one"},
        {"skills": [3]},
        {"skills": [{"name": "a"}]},
        {"skill_dir": ""},
        {"input_key": ""},
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"temperature": True},
        {"temperature": "1"},
        {"max_tokens": 0},
        {"max_tokens": 1.0},
        {"response_format": "json"},
        {"response_format": {}},
        {"response_format": {"schema": "x"}},
        {"output_type": "City"},
        {"output_type": City, "response_format": {"type": "json_object"}},
        {"base_url": "localhost"},
        {"base_url": "https://me:pass@host/v1"},
        {"base_url": "https://token@host"},
        {"fallbacks": [{"model": "a", "base_url": "http://me:pass@host?x"}]},
        {"api_key_env": "A B"},
        {"api_key_env": "sk-123"},
        {"chat_path": "v1"},
        {"auth_header": "x: y"},
        {"auth_prefix": "a\nb"},
        {"max_tool_rounds": -1},
        {"max_steps": 0},
        {"max_steps": True},
        {"max_repeats": 0},
        {"tool_concurrency": 0},
        {"tool_mode": "auto"},
        {"tool_error_mode": "ignore"},
        {"tool_timeout": 0},
        {"tool_retries": -1},
        {"max_retries": -1},
        {"fallbacks": "a"},
        {"fallbacks": [{}]},
        {"fallbacks": [{"model": "a", "url": "x"}]},
        {"tool_approval": "denyy"},
        {"tool_approval": False},
        {"tool_approval": {"*": "x"}},
        {"memory": 3},
        {"recall": {}},
        {"recall": {"runs": "all"}},
        {"recall": {"runs": "owner", "k": 0}},
        {"remember": 1},
        {"graph": ""},
        {"context_mode": "full"},
        {"context_tokens": 255},
        {"node_types": []},
        {"node_types": ["Has Space"]},
        {"node_types": [{"description": "x"}]},
        {"node_types": ["a"] * 33},
        {"stream": "yes"},
        {"on_token": 3},
        {"tool_approvall": "deny"},
        {"modle": "x"},
    ],
    ids=repr,
)
def test_wrong_values_are_found(values):
    assert faults(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"model": ScriptedModel([])},
        {"name": "my agent 2"},
        {"use_tools": "*"},
        {"use_tools": []},
        {"skills": ["a", Path("b"), Skill("c", "", "t")]},
        {"temperature": 0},
        {"temperature": 2.0},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"name": "x", "schema": {}}},
        {"output_type": City},
        {"output_type": Town},
        {"output_type": int},
        {"output_type": list[City]},
        {"output_type": int | None},
        {"output_type": Literal["a", "b"]},
        {"max_tool_rounds": 0},
        {"fallbacks": ["a", {"model": "b", "base_url": None}]},
        {"tool_approval": {"rm_*": "deny"}},
        {"tool_approval": print},
        {"recall": {"runs": ["r1"], "k": 3, "max_tokens": 100}},
        {"memory": "sqlite:///m.db"},
        {"node_types": ["fact", {"name": "rule", "description": "d"}]},
        {"on_token": print},
        {"graph": Path("g.jsonld")},
        {"tool_timeout": 0.5},
    ],
    ids=",".join,
)
def test_right_values_pass(values):
    assert faults(**values) == []
    Options.checked(**{"model": MODEL, **values})


def test_a_secret_in_an_address_is_not_repeated():
    ((name, line),) = option_findings({"model": MODEL, "base_url": "https://me:hidden@host/v1"})
    assert name == "base_url"
    assert "hidden" not in line
    assert faults(base_url="https://host/v1/@me?to=a@b") == []


def test_all_faults_come_at_once_with_advice():
    with pytest.raises(InvalidOptions) as caught:
        Options.checked(modle="x", temperature=-1, use_tools=["a", 3])
    assert caught.value.findings == (
        "modle: unknown option; did you mean model?",
        'model: required; such as "openai:gpt-5-mini"',
        "temperature: expected a number from 0, got -1",
        "use_tools: [1]: expected text that is not empty, got 3",
    )


def test_a_long_wrong_value_is_not_echoed_whole():
    assert len(option_findings({"model": MODEL, "tool_mode": "x" * 10_000})[0][1]) < 200


def test_options_survive_being_stored(tmp_path):
    (tmp_path / "s.md").write_text("---\nname: s\ndescription: d\nallowed-tools: a b\n---\nText.")
    options = Options.checked(
        model=MODEL,
        skills=["s.md"],
        base_dir=tmp_path,
        fallbacks=["x:y"],
        tool_approval={"a*": "ask"},
        node_types=["fact"],
        recall={"runs": ["r"]},
    )
    plain = options.to_plain()
    (tmp_path / "s.md").unlink()
    again = Options.from_plain(plain)
    assert again.skill_set() == (Skill("s", "d", "Text.", ("a", "b")),)
    assert again.to_plain() == plain
    assert dataclasses.replace(again, skills=options.skills) == options


def test_a_record_is_json_and_objects_are_kept_by_name_only():
    import json

    def on_token(_token): ...

    options = Options.checked(
        model=ScriptedModel([]),
        fallbacks=[ScriptedModel([])],
        on_token=on_token,
        output_type=City,
        tool_approval={"a": on_token, "b": "ask"},
    )
    plain = options.to_plain()
    json.dumps(plain)
    assert plain["output_type"] == {"$object": "City"}
    assert plain["on_token"] == {"$object": on_token.__qualname__}
    with pytest.raises(InvalidOptions) as caught:
        Options.from_plain(plain)
    assert [line.partition(":")[0] for line in caught.value.findings] == ["model", "output_type", "fallbacks", "tool_approval", "on_token"]
    given = {"model": MODEL, "output_type": City, "fallbacks": [], "tool_approval": "ask", "on_token": None}
    assert Options.from_plain(plain, **given).tool_approval == "ask"


def test_a_lost_approval_function_never_becomes_auto():
    plain = Options.checked(model=MODEL, tool_approval=lambda _name, _args: False).to_plain()
    with pytest.raises(InvalidOptions, match="tool_approval"):
        Options.from_plain(plain)


def test_what_the_model_is_asked_for_and_what_its_answer_has_to_fit():
    schema = {"type": "object", "properties": {"a": {}}}
    provider = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    cases = [
        ({}, None, None),
        ({"response_format": schema}, {"name": "answer", "schema": schema}, schema),
        ({"response_format": {"name": "n", "schema": schema, "strict": True}}, {"name": "n", "schema": schema, "strict": True}, schema),
        ({"response_format": provider}, provider, schema),
        ({"response_format": {"type": "json_object"}}, {"type": "json_object"}, {}),
        ({"response_format": {"type": "text"}}, {"type": "text"}, None),
    ]
    for values, asked, fits in cases:
        options = Options.checked(model=MODEL, **values)
        made = options.answer_format()
        assert (made and made.asked, made and made.schema) == (asked if fits is not None else None, fits)
    typed = Options.checked(model=MODEL, output_type=City).answer_format()
    assert typed is not None
    assert (typed.schema, typed.asked, typed.wrapped) == (
        City.model_json_schema(),
        {"name": "answer", "schema": City.model_json_schema()},
        False,
    )


def test_semantic_types_replace_the_defaults():
    assert Options.checked(model=MODEL).semantic_types() == DEFAULT_TYPES
    options = Options.checked(
        model=MODEL, node_types=["fact", {"name": "rule", "description": " d" + "x" * 300}, {"name": "fact", "description": "last"}]
    )
    assert options.semantic_types() == {"fact": "last", "rule": "d" + "x" * 239}


def test_the_record_takes_keywords_only():
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in inspect.signature(Options).parameters.values())


@pytest.mark.parametrize("wrong", ["Inv", 5, City(name="x")])
def test_an_output_type_that_is_no_type_is_one_finding(wrong):
    ((name, line),) = option_findings({"model": MODEL, "output_type": wrong})
    assert name == "output_type"
    assert line.startswith("expected a type, got ")


@pytest.mark.parametrize(
    "values, told",
    [
        ({"stream": False}, "stream: does nothing here"),
        ({"model": "scripted:echo", "stream": False}, "stream: does nothing here"),
        ({"model": "scripted:echo", "max_cost": 1.0}, "max_cost: no price is known of scripted:echo"),
        ({"model": "openai:not-in-the-table", "max_cost": 1.0}, "max_cost: no price is known of openai:not-in-the-table"),
        ({"model": "openai:gpt-5-mini", "fallbacks": ["groq:x"], "max_cost": 1.0}, "max_cost: no price is known of groq:x"),
        ({"human_key": "ask"}, "human_key: does nothing here"),
    ],
)
def test_an_option_that_its_model_or_tools_make_idle_is_refused(values, told):
    with pytest.raises(InvalidOptions, match=told):
        causeline.Agent(**{"model": ScriptedModel([]), **values})


def test_a_limit_of_cost_is_taken_where_the_cost_can_be_known():
    for values in (
        {"model": "openai:gpt-5-mini"},
        {"model": "openrouter:some/model"},
        {"model": "openai:mine", "base_url": "http://localhost:1/v1"},
        {"model": ScriptedModel([])},
    ):
        assert causeline.Agent(**values, max_cost=1.0).options.max_cost == 1.0
    causeline.models.prices["local:mine"] = {"input": 1, "output": 2}
    try:
        causeline.Agent("local:mine", max_cost=1.0)
    finally:
        del causeline.models.prices["local:mine"]
    assert causeline.Agent("openai:gpt-5-mini", stream=False).options.stream is False
    assert causeline.Agent(ScriptedModel([]), tools=[causeline.tools.ask_human], human_key="ask").toolbox.names() == ("ask",)

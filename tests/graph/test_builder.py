"""Graphs written in Python are documents like any other."""

import json
from typing import Any

import pytest

from causeline.errors import Misuse
from causeline.graph import Graph, Node, Outcome, check, load, node
from causeline.graph.documents.document import DagReference, Gather, Reservoir, Scatter, Single
from causeline.graph.engine.plan import build_plan
from causeline.policy import RetryPolicy

IRI = "urn:example:dag:built"


@node("urn:example:node:say", ports=("done",))
def say(ctx: Any) -> Outcome:
    return Outcome("done", {"said": ctx.state.get("word")})


def test_a_small_graph_is_the_document_one_would_write() -> None:
    graph = Graph(IRI).node("say it", say, {"done": "end"}, retry=RetryPolicy(max_attempts=2, base_delay=0.5), timeout=3).terminal("end")
    document = graph.build()
    written = document.to_json()
    written.pop("@context")
    assert written == {
        "@id": IRI,
        "@type": "DAG",
        "name": "built",
        "version": "1",
        "entrypoints": {"main": f"{IRI}/node/say%20it"},
        "nodes": [
            {
                "@id": f"{IRI}/node/say%20it",
                "@type": "SingleNode",
                "name": "say it",
                "node": "urn:example:node:say",
                "timeoutMs": 3000,
                "retry": {
                    "maxAttempts": 2,
                    "strategy": "exponential",
                    "baseDelay": 500.0,
                    "maxDelay": 30000.0,
                    "multiplier": 2.0,
                    "jitterFactor": 0.1,
                    "retryOn": [],
                    "abortOn": [],
                },
                "outputs": {"done": f"{IRI}/node/end"},
            },
            {"@id": f"{IRI}/node/end", "@type": "TerminalNode", "name": "end", "outcome": "completed"},
        ],
    }
    assert graph.nodes == (say,)
    single = document.placements[f"{IRI}/node/say%20it"]
    assert isinstance(single, Single)
    assert (single.timeout, single.retry) == (3.0, RetryPolicy(max_attempts=2, base_delay=0.5))
    assert check(document, graph.nodes) == []


def test_every_option_of_scatter_and_gather_comes_through() -> None:
    graph = Graph(IRI, name="Built", version="7").entry("main", "fan").entry("side", "note").phase("open", "urn:n:open", "pre")
    graph.scatter(
        "fan",
        "rows",
        dict.fromkeys(("success", "error", "empty"), "meet"),
        dag=DagReference("item", "kind", ("urn:x:d",)),
        item_key="row",
        concurrency=3,
        reservoir=Reservoir("town", 4, 50),
        reducer="any-success",
        state_input={"a": "b"},
        retry=RetryPolicy(),
        container="w",
    )
    graph.node("note", "urn:n:note", {"done": "meet"})
    graph.gather(
        "meet",
        {"fan": "r", "note": None},
        "append",
        {"success": "end", "error": "end", "empty": "end"},
        target="all",
        field="f",
        result_field="g",
        policy="quorum",
        quorum=2,
        include_errors=False,
    )
    document = graph.terminal("end").build()
    assert (document.name, document.version) == ("Built", "7")
    assert [(one.code, one.warning) for one in check(document)] == [("container_ignored", True)]
    fan, meet = document.placements[f"{IRI}/node/fan"], document.placements[f"{IRI}/node/meet"]
    assert isinstance(fan, Scatter)
    assert isinstance(meet, Gather)
    assert (fan.item_key, fan.concurrency, fan.reservoir, fan.reducer, fan.container) == (
        "row",
        3,
        Reservoir("town", 4, 50),
        "any-success",
        "w",
    )
    assert (fan.state_input, fan.retry, fan.mode) == ({"a": "b"}, RetryPolicy(), "reservoir")
    assert meet.sources == {f"{IRI}/node/fan": "r", f"{IRI}/node/note": None}
    assert (meet.target, meet.field, meet.result_field, meet.policy, meet.quorum, meet.include_errors) == (
        "all",
        "f",
        "g",
        "quorum",
        2,
        False,
    )


def test_an_embedded_document_may_be_given_itself() -> None:
    child = Graph("urn:example:dag:child").node("say", say).build()
    graph = Graph(IRI).embed("run", child, {"success": "end", "error": "lost"}, state_input={"word": "text"}, state_output={"out": "said"})
    document = graph.terminal("end").terminal("lost", "failed").build()
    assert document.plain["nodes"][0]["dag"] == "urn:example:dag:child"
    assert check(document, documents=[child]) == []


def test_a_plain_function_becomes_a_node_with_the_ports_that_are_routed() -> None:
    def choose(ctx: Any) -> str:
        return "left"

    graph = Graph(IRI).node("choose", choose, {"left": "end", "right": "end"}).terminal("end")
    (made,) = graph.nodes
    assert isinstance(made, Node)
    assert (made.iri, made.ports, made.fn) == (f"{IRI}/code/choose", ("left", "right"), choose)
    assert check(graph.build(), graph.nodes) == []


# Edges.


def agent() -> Graph:
    graph = Graph(IRI).node("agent", "urn:n:agent").node("tool_exec", "urn:n:tools")
    return graph.edge("agent", "tool_exec", when="_tool_call_name!=").edge("tool_exec", "agent")


def way(document: Any, name: str, port: str, state: dict[str, Any]) -> str:
    plan = build_plan(document)
    number = plan.index[f"{IRI}/node/{name}"]
    return plan.placements[plan.routes[number][plan.decide(number, port, state)]].name


def test_the_state_decides_and_without_a_match_the_run_ends() -> None:
    document = agent().build()
    assert check(document) == []
    assert way(document, "agent", "done", {"_tool_call_name": "lookup"}) == "tool_exec"
    assert way(document, "agent", "done", {"_tool_call_name": ""}) == "end"
    assert way(document, "agent", "anything", {}) == "end"
    assert way(document, "tool_exec", "done", {}) == "agent"


def test_the_first_condition_that_holds_wins() -> None:
    graph = Graph(IRI).node("a", "urn:n:a").terminal("high").terminal("low").terminal("none")
    graph.edge("a", "high", when="score>=5").edge("a", "low", when="score>=1").edge("a", "none")
    document = graph.build()
    assert [way(document, "a", "done", {"score": score}) for score in (9, 5, 2, 0)] == ["high", "high", "low", "none"]
    assert f"{IRI}/node/end" not in document.placements


def test_a_port_with_a_route_of_its_own_is_not_decided_by_the_state() -> None:
    graph = Graph(IRI).node("a", "urn:n:a", {"quick": "low"}).terminal("high").terminal("low").edge("a", "high", when="score>=5")
    assert way(graph.build(), "a", "quick", {"score": 9}) == "low"


def test_the_error_edge_is_the_error_port_and_edges_never_take_errors() -> None:
    graph = agent().edge("agent", "oops", when="__error__").terminal("oops", "failed")
    document = graph.build()
    assert way(document, "agent", "error", {"_tool_call_name": "x"}) == "oops"
    plan = build_plan(document)
    assert plan.decide(plan.index[f"{IRI}/node/tool_exec"], "error", {}) == "error"
    assert "error" not in plan.routes[plan.index[f"{IRI}/node/tool_exec"]]


def test_conditions_survive_being_written_and_read() -> None:
    document = agent().build()
    back = load(json.dumps(document.to_json()))
    assert (back.hash, back.placements) == (document.hash, document.placements)
    assert way(back, "agent", "done", {"_tool_call_name": "lookup"}) == "tool_exec"


def test_a_typo_in_a_condition_is_a_finding_with_its_position() -> None:
    graph = Graph(IRI).node("a", "urn:n:a").terminal("b").edge("a", "b", when="score => 5")
    (finding,) = check(graph.build())
    assert (finding.code, finding.path) == ("bad_condition", "nodes[0].when[0]")
    assert "character 8" in finding.message


def test_edges_that_could_never_be_taken_are_refused_at_once() -> None:
    with pytest.raises(Misuse, match="never be taken"):
        Graph(IRI).edge("a", "b").edge("a", "c", when="x=1")
    with pytest.raises(Misuse, match="never be taken"):
        Graph(IRI).edge("a", "b").edge("a", "c")
    with pytest.raises(Misuse, match="repeats"):
        Graph(IRI).edge("a", "b", when="x=1").edge("a", "c", when="x=1")
    with pytest.raises(Misuse, match="edge from 'ghost'"):
        Graph(IRI).node("a", say).edge("ghost", "a").build()
    with pytest.raises(Misuse, match="exactly one of"):
        Graph(IRI).scatter("a", "rows", {})
    with pytest.raises(Misuse, match="exactly one of"):
        Graph(IRI).scatter("a", "rows", {}, node="urn:n:x", dag="urn:x:d")


def test_a_single_node_without_routes_just_ends() -> None:
    document = Graph(IRI).node("only", say).build()
    assert check(document, [say]) == []
    assert way(document, "only", "done", {}) == "end"


def test_a_name_that_is_taken_does_not_stop_a_run_from_ending() -> None:
    document = Graph(IRI).node("end", say).build()
    assert check(document, [say]) == []
    assert way(document, "end", "done", {}) == "end-of-run"


def test_a_graph_without_an_absolute_iri_fails_at_once_and_says_which_one_to_write() -> None:
    with pytest.raises(Misuse, match="'orders' is not absolute; write something like urn:example:dag:orders"):
        Graph("orders")


def test_what_must_be_text_is_refused_where_it_is_written() -> None:
    graph: Any = Graph(IRI).node("say", say)
    with pytest.raises(Misuse, match=r"edge 'say' -> 'end': a condition .* must be text, not <function"):
        graph.edge("say", "end", lambda state: True)
    with pytest.raises(Misuse, match="the name of a placement must be text, not None"):
        graph.edge("say", None)
    with pytest.raises(Misuse, match="the name of a placement must be text, not 3"):
        graph.node("other", say, {"done": 3})
    with pytest.raises(Misuse, match="'third' runs 7; give a node's IRI, a Node or a function"):
        graph.node("third", 7)
    assert graph.build().placements.keys() == {f"{IRI}/node/say", f"{IRI}/node/end"}

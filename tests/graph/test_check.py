"""Every mistake that can be planted in a document gives one finding, at its place."""

import json
from pathlib import Path
from typing import Any

import pytest

from causeline.graph import check, load, node
from causeline.graph.documents.builder import Graph
from tests.graph.planted import PLANTED
from tests.graph.sample_documents import find, orders, place


def test_a_sound_document_has_no_findings() -> None:
    assert check(load(orders())) == []


@pytest.mark.parametrize("mistake", PLANTED)
def test_one_mistake_is_one_finding_at_its_place(mistake: str) -> None:
    change, code, path = PLANTED[mistake]
    document = orders()
    change(document)
    found = check(load(document))
    assert [(one.code, one.path) for one in found] == [(code, path)], "\n".join(map(str, found))


def test_two_mistakes_in_different_places_are_two_findings() -> None:
    """A sample of all pairs; left out are mistakes that make much of a document unknowable, and pairs that touch one placement."""
    loud = {"no entrypoints", "no entrypoint", "no id", "an unreachable chain", "an unreachable loop", "an unused terminal"}
    names = [name for name in PLANTED if name not in loud]
    pairs = [(one, two) for number, one in enumerate(names) for two in names[number + 1 :] if where(one) != where(two)]
    wrong: dict[tuple[str, str], list[str]] = {}
    for one, two in pairs[::37]:
        document = orders()
        PLANTED[one][0](document)
        PLANTED[two][0](document)
        found = check(load(document))
        if sorted(item.code for item in found) != sorted([PLANTED[one][1], PLANTED[two][1]]):
            wrong[one, two] = [str(item) for item in found]
    assert not wrong


def where(mistake: str) -> str:
    return PLANTED[mistake][2].split(".")[0]


def renamed(document, number, name):
    document["nodes"][number]["@id"] = name


LOST = {
    "gone": lambda document, number, _other: document["nodes"].pop(number),
    "misspelt": lambda document, number, _other: renamed(document, number, document["nodes"][number]["@id"] + "x"),
    "renamed": lambda document, number, _other: renamed(document, number, "urn:elsewhere:1"),
    "doubled": lambda document, number, other: renamed(document, number, document["nodes"][other]["@id"]),
}


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("number", range(12))
def test_a_placement_that_is_not_where_it_is_looked_for_is_one_finding(how: str, number: int) -> None:
    """However many routes, entrypoints and gathers lead to it."""
    for other in {0, 6, 8, 11} - {number}:
        document = json.loads(Path("tests/golden/documents/react-agent.jsonld").read_bytes())
        LOST[how](document, number, other)
        assert len(found := check(load(document))) == 1, "\n".join(map(str, found))


def test_twelve_mistakes_in_one_document_are_twelve_findings() -> None:
    found = check(load("tests/golden/documents/twelve-mistakes.jsonld"))
    assert [(one.code, one.path) for one in found] == [
        ("entrypoint_missing", "entrypoints.late"),
        ("missing_field", "version"),
        ("bad_value", "nodes[1].retry.maxAttempts"),
        ("unknown_key", "nodes[2].colour"),
        ("missing_route", "nodes[2].outputs"),
        ("unknown_strategy", "nodes[3].gather.strategy"),
        ("dangling_route", "nodes[4].outputs.error"),
        ("bad_quorum", "nodes[5].policy.quorum"),
        ("bad_reference", "nodes[6].dag.from"),
        ("endless_loop", "nodes[8].outputs"),
        ("duplicate_name", "nodes[10].name"),
        ("unreachable", "nodes[12]"),
    ]


@pytest.mark.parametrize("name", ["react-agent", "react-agent-memory-trace"])
def test_the_seed_documents_are_sound(name: str) -> None:
    assert check(load(f"tests/golden/documents/{name}.jsonld")) == []


# What needs to know the nodes and the other documents.


def declared(iri: str, *ports: str, **more: Any):
    return node(f"urn:example:node:{iri}", ports, **more)(lambda ctx: ports[0])


NODES = [
    declared("open", "done"),
    declared("prepare", "ready", "error", "parked"),
    declared("price", "success", "error"),
    declared("inspect", "clean", "error"),
    declared("confirm", "again", "done", "error"),
]


def leaf(iri: str, **node_fields: Any):
    return Graph(f"urn:example:dag:{iri}").node("only", f"urn:example:node:{iri}", {"done": "end"}).terminal("end").build()


DOCUMENTS = [leaf("shipping"), leaf("mail")]


def codes(found: list[Any]) -> list[tuple[str, str]]:
    return [(one.code, one.path) for one in found]


def test_everything_known_and_sound_has_no_findings() -> None:
    assert check(load(orders()), NODES, DOCUMENTS, closed=True) == []
    assert check(load(orders()), {one.iri: one for one in NODES}, {one.id: one for one in DOCUMENTS}) == []


def test_unknown_iris_are_findings_only_at_registration() -> None:
    document = orders()
    find(document, "inspect")["node"] = "urn:example:node:unheard"
    find(document, "thanks")["body"]["dag"]["candidates"].append("urn:example:dag:pigeon")
    find(document, "collect")["gather"] = {"strategy": "custom", "customNode": "urn:example:node:fold"}
    assert check(load(document)) == []
    assert codes(check(load(document), NODES, DOCUMENTS)) == [
        ("unknown_node", "nodes[3].gather.customNode"),
        ("unknown_node", "nodes[4].node"),
        ("unknown_document", "nodes[8].body.dag"),
    ]
    assert len(check(load(orders()), closed=True)) == 5 + 2


def test_ports_of_a_node_and_routes_of_its_placement_must_agree() -> None:
    document = orders()
    find(document, "inspect")["outputs"]["late"] = place("failed")  # never left by
    find(document, "confirm")["outputs"].pop("again")  # declared, but without a route
    assert codes(check(load(document), NODES, DOCUMENTS)) == [
        ("unknown_port", "nodes[4].outputs.late"),
        ("missing_route", "nodes[7].outputs"),
    ]


def test_a_misspelt_port_is_one_finding_that_names_both() -> None:
    document = orders()
    find(document, "confirm")["outputs"]["agian"] = find(document, "confirm")["outputs"].pop("again")
    (finding,) = check(load(document), NODES, DOCUMENTS)
    assert finding.code == "missing_route"
    assert "'again'" in finding.message
    assert "'agian'" in finding.message


def test_the_port_parked_needs_no_route_and_the_port_error_may_always_have_one() -> None:
    graph = Graph("urn:x:dag:d").node("ask", declared("ask", "done", "parked"), {"done": "end", "error": "end"}).terminal("end")
    assert check(graph.build(), graph.nodes) == []


def test_otherwise_covers_every_port_but_error() -> None:
    graph = Graph("urn:x:dag:d").node("ask", declared("ask", "one", "two", "error"), {"one": "end", "otherwise": "end"}).terminal("end")
    (finding,) = check(graph.build(), graph.nodes)
    assert (finding.code, "'error'" in finding.message, "'two'" in finding.message) == ("missing_route", True, False)


def test_the_terminal_reducer_leaves_by_the_ports_of_its_body() -> None:
    document = orders()
    find(document, "price")["reducer"] = "terminal"
    assert codes(check(load(document), NODES, DOCUMENTS)) == [("missing_route", "nodes[2].outputs")]
    find(document, "price")["outputs"] = dict.fromkeys(("success", "error", "empty"), place("collect"))
    assert check(load(document), NODES, DOCUMENTS) == []


def test_only_the_aggregate_reducer_needs_a_route_for_no_items() -> None:
    document = orders()
    find(document, "thanks")["outputs"].pop("empty")
    assert check(load(document), NODES, DOCUMENTS) == []
    find(document, "price")["reducer"] = "terminal"
    find(document, "price")["body"] = {"node": "urn:example:node:confirm"}  # has no port `success`
    find(document, "price")["outputs"] = dict.fromkeys(("again", "done", "error"), place("collect"))
    (finding,) = check(load(document), NODES, DOCUMENTS)
    assert (finding.code, "'empty'" in finding.message) == ("missing_route", True)


def test_custom_strategies_and_reducers_are_known_when_named() -> None:
    document = orders()
    find(document, "collect")["gather"]["strategy"] = "median"
    find(document, "price")["reducer"] = "majority"
    assert [one.code for one in check(load(document))] == ["unknown_reducer", "unknown_strategy"]
    assert check(load(document), strategies=["median"], reducers=["majority"]) == []


def test_inputs_a_child_needs_must_be_handed_over() -> None:
    child = Graph("urn:example:dag:shipping")
    child.node("pack", declared("pack", "done", input_schema={"required": ["rows", "address"]}), {"done": "end"}).terminal("end")
    (finding,) = check(load(orders()), [*NODES, *child.nodes], [child.build(), DOCUMENTS[1]])
    assert (finding.code, finding.path) == ("unseeded_input", "nodes[6].stateMapping")
    assert "'address'" in finding.message
    assert "'rows'" not in finding.message


def recursive(iri: str, child: str, *, exit_by: str | None = None):
    graph = Graph(iri).node("think", "urn:n:think", {"deeper": "child"} | ({exit_by: "end"} if exit_by else {}))
    return graph.embed("child", child, {"success": "end", "error": "end"}).terminal("end").build()


def test_a_document_that_can_only_run_itself_is_refused_and_one_with_a_way_out_is_not() -> None:
    assert codes(check(recursive("urn:x:d:a", "urn:x:d:a"))) == [("endless_recursion", "nodes[1]")]
    assert check(recursive("urn:x:d:a", "urn:x:d:a", exit_by="enough")) == []


def test_recursion_through_others_needs_one_way_out_of_the_circle() -> None:
    one, two = recursive("urn:x:d:a", "urn:x:d:b"), recursive("urn:x:d:b", "urn:x:d:a")
    assert [item.code for item in check(one, documents=[one, two])] == ["endless_recursion"]
    assert [item.code for item in check(two, documents=[one, two])] == ["endless_recursion"]
    relieved = recursive("urn:x:d:b", "urn:x:d:a", exit_by="enough")
    assert check(one, documents=[one, relieved]) == []
    assert check(relieved, documents=[one, relieved]) == []


def test_branches_that_overwrite_each_other_are_a_warning() -> None:
    graph = Graph("urn:x:dag:d").entry("main", "left").entry("other", "right")
    graph.node("left", declared("left", "done", writes=("total", "left")), {"done": "meet"})
    graph.node("right", declared("right", "done", writes=("total",)), {"done": "meet"})
    graph.gather("meet", ["left", "right"], "discard", {"success": "end", "error": "end"}).terminal("end")
    document = graph.build()
    (finding,) = check(document, graph.nodes)
    assert (finding.code, finding.placement, finding.warning) == ("concurrent_write", "urn:x:dag:d/node/right", True)
    assert check(document, graph.nodes, channels={"total": "append"}) == []


# Barriers.


def branches(policy: Any, *, quorum: int | None = None, bypass: str | None = None):
    graph = Graph("urn:x:dag:d").entry("one", "a").entry("two", "b").entry("three", "c")
    for name in "abc":
        graph.node(name, "urn:n:x", {"done": "meet"} | ({"skip": bypass} if bypass and name == "a" else {}))
    graph.gather("meet", ["a", "b", "c"], "discard", {"success": "end", "error": "lost"}, policy=policy, quorum=quorum)
    return graph.terminal("end").terminal("lost", "failed").build()


@pytest.mark.parametrize(
    "document, expected",
    [
        (branches("all"), []),
        (branches("any"), []),
        (branches("quorum", quorum=2), []),
        (branches("all", bypass="end"), ["barrier_bypass"]),
        (branches("any", bypass="end"), []),
        (branches("quorum", quorum=2, bypass="end"), []),
        (branches("quorum", quorum=3, bypass="end"), ["barrier_bypass"]),
        (branches("all", bypass="lost"), []),
    ],
    ids=lambda value: value if isinstance(value, list) else "",
)
def test_a_barrier_must_be_satisfied_whatever_branch_is_taken(document: Any, expected: list[str]) -> None:
    assert [one.code for one in check(document)] == expected


def test_two_sources_on_one_branch_never_both_arrive() -> None:
    graph = Graph("urn:x:dag:d").node("choose", "urn:n:x", {"left": "a", "right": "b"})
    graph.node("a", "urn:n:x", {"done": "meet"}).node("b", "urn:n:x", {"done": "meet"})
    graph.gather("meet", ["a", "b"], "discard", {"success": "end", "error": "end"}).terminal("end")
    assert [one.code for one in check(graph.build())] == ["unsatisfiable_barrier"]


def test_branches_that_share_sources_are_told_apart_by_matching() -> None:
    """`one` can come by a or b, `two` only by a: both barriers are met if `one` takes b."""
    graph = Graph("urn:x:dag:d").entry("one", "choose").entry("two", "a").node("choose", "urn:n:x", {"left": "a", "right": "b"})
    graph.node("a", "urn:n:x", {"done": "meet"}).node("b", "urn:n:x", {"done": "meet"})
    graph.gather("meet", ["a", "b"], "discard", {"success": "end", "error": "end"}).terminal("end")
    assert check(graph.build()) == []


def test_entrypoints_can_be_sources() -> None:
    graph = Graph("urn:x:dag:d").entry("main", "meet").entry("the other", "meet")
    graph.gather("meet", [graph.entrypoint("main"), graph.entrypoint("the other")], "discard", {"success": "end", "error": "end"})
    document = graph.terminal("end").build()
    assert list(document.placements["urn:x:dag:d/node/meet"].sources) == [  # type: ignore[union-attr]
        "urn:x:dag:d/entrypoint/main",
        "urn:x:dag:d/entrypoint/the%20other",
    ]
    assert check(document) == []


# Whole documents.


def test_a_document_without_a_terminal_is_one_finding_that_names_the_loop() -> None:
    document = Graph("urn:x:dag:d").node("a", "urn:n:x", {"on": "b"}).node("b", "urn:n:x", {"on": "a"}).build()
    (finding,) = check(document)
    assert (finding.code, finding.path) == ("no_terminal", "nodes")
    assert "a, b" in finding.message


def test_a_loop_that_cuts_off_the_only_terminal_is_one_finding() -> None:
    document = Graph("urn:x:dag:d").node("a", "urn:n:x", {"on": "b"}).node("b", "urn:n:x", {"on": "a"}).terminal("end").build()
    assert [one.code for one in check(document)] == ["endless_loop"]


def test_a_loop_counts_once_however_long_it_is() -> None:
    graph = Graph("urn:x:dag:d").node("start", "urn:n:x", {"go": "n0", "stop": "end"})
    for number in range(3000):
        graph.node(f"n{number}", "urn:n:x", {"go": f"n{(number + 1) % 3000}", "jump": f"n{number // 2}"})
    (finding,) = check(graph.terminal("end").build())
    assert (finding.code, finding.path) == ("endless_loop", "nodes[1].outputs")
    assert "and 2994 more" in finding.message


def test_what_is_found_does_not_depend_on_the_order_placements_are_written_in():
    def made(*names: str) -> list[str]:
        graph = Graph("urn:x:order").entry("main", "start")
        routes = {
            "start": {"ready": "slip", "error": "bad"},
            "slip": {"ready": "end", "error": "nowhere"},
            "lost": {"ready": "end", "error": "bad"},
        }
        for name in names:
            graph.node(name, "urn:n:x", routes[name])
        return sorted(one.code for one in check(graph.terminal("end").terminal("bad", "failed").build()))

    assert made("start", "slip", "lost") == made("start", "lost", "slip") == ["dangling_route", "unreachable"]

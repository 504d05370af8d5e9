"""A plan numbers a document so that a visit needs no search."""

import pytest

from causeline.errors import Misuse
from causeline.graph import Context, Graph, Outcome, load, node
from causeline.graph.documents.document import entrypoint_iri
from causeline.graph.engine.plan import build_plan
from tests.graph.sample_documents import DOCUMENT, orders, place


def test_everything_is_numbered_in_declared_order() -> None:
    document = load(orders())
    plan = build_plan(document)
    assert plan.ids == tuple(document.placements)
    assert plan.placements == tuple(document.placements.values())
    number = plan.index
    assert plan.routes[number[place("inspect")]] == {"clean": number[place("meet")], "error": number[place("failed")]}
    assert plan.routes[number[place("failed")]] == {}
    assert plan.entries == {"main": 1, "audit": 4}
    assert (plan.pre, plan.post) == ((0,), ())


def test_gathers_know_their_sources_and_placements_the_gathers_they_feed() -> None:
    plan = build_plan(load(orders()))
    meet, collect, inspect = (plan.index[place(name)] for name in ("meet", "collect", "inspect"))
    assert plan.sources[meet] == {place("collect"): 0, place("inspect"): 1}
    assert plan.inputs[meet] == (None, "note")
    assert plan.feeds[inspect] == {meet: 1}
    assert plan.feeds[collect] == {meet: 0}
    assert plan.feeds[meet] == {}


def test_an_entrypoint_that_leads_into_a_gather_feeds_it() -> None:
    graph = Graph("urn:x:d").gather("meet", ["urn:x:d/entrypoint/a%20b"], "discard", {"success": "end", "error": "end"})
    plan = build_plan(graph.entry("a b", "meet").terminal("end").build())
    assert plan.entry_feeds == {"a b": {0: 0}}


def test_branches_say_which_entrypoints_lead_to_a_placement() -> None:
    plan = build_plan(load(orders()))
    price, ship = (plan.index[place(name)] for name in ("price", "ship"))
    assert plan.branches[price] == {"main"}
    assert plan.branches[ship] == {"main", "audit"}
    assert plan.branches[plan.index[place("open")]] == frozenset()


def test_a_long_chain_needs_no_recursion() -> None:
    graph = Graph("urn:x:d")
    for number in range(5000):
        graph.node(f"n{number}", "urn:n:x", {"on": f"n{number + 1}"})
    plan = build_plan(graph.terminal("n5000").build())
    assert plan.branches[5000] == {"main"}


@pytest.mark.parametrize("label, encoded", [("main", "main"), ("a b/c", "a%20b%2Fc"), ("é!'()*~", "%C3%A9!'()*~"), ("日", "%E6%97%A5")])
def test_entrypoint_iris_are_encoded_as_the_reference_does(label: str, encoded: str) -> None:
    assert entrypoint_iri(DOCUMENT, label) == f"{DOCUMENT}/entrypoint/{encoded}"


# Nodes.


def test_a_node_is_its_function_with_an_iri_and_ports() -> None:
    @node("urn:n:twice", ports=("done", "error"), timeout=2.0, roles=("action",))
    def twice(ctx: Context) -> Outcome:
        return Outcome("done", {"out": ctx.state["in"] * 2})

    assert (twice.iri, twice.ports, twice.is_async, twice.timeout, twice.roles) == (
        "urn:n:twice",
        ("done", "error"),
        False,
        2.0,
        ("action",),
    )
    assert twice(Context({"in": 4}, placement="p")) == Outcome("done", {"out": 8})


async def test_async_functions_and_async_callables_are_told_apart() -> None:
    async def wait(ctx: Context) -> str:
        return "done"

    class Waiter:
        async def __call__(self, ctx: Context) -> str:
            return "done"

    class Plain:
        def __call__(self, ctx: Context) -> str:
            return "done"

    made = [node("urn:n:x", ports=("done",))(one) for one in (wait, Waiter(), Plain())]
    assert [one.is_async for one in made] == [True, True, False]


@pytest.mark.parametrize(
    "iri, ports, word",
    [
        ("twice", ("a",), "absolute"),
        ("urn:n:x", (), "non-empty"),
        ("urn:n:x", "done", "non-empty"),
        ("urn:n:x", ("a", "a"), "twice"),
        ("urn:n:x", ("",), "names"),
    ],
)
def test_a_node_that_could_never_be_registered_is_refused_where_it_is_written(iri: str, ports: tuple[str, ...], word: str) -> None:
    with pytest.raises(Misuse, match=word):
        node(iri, ports)


def test_a_context_hands_out_services_and_names_the_one_that_is_missing() -> None:
    events: list[object] = []
    ctx = Context({}, placement="urn:x:p", services={int: 7}, emit=events.append)
    assert ctx.use(int) == 7
    with pytest.raises(Misuse, match=r"urn:x:p needs the service str; given: int"):
        ctx.use(str)
    ctx.emit({"n": 1})
    Context({}, placement="urn:x:p").emit({"n": 2})
    assert events == [{"n": 1}]


def test_a_pause_leaves_by_parked_with_its_question() -> None:
    assert Outcome.pause({"ask": "name?"}, {"asked": True}) == Outcome("parked", {"asked": True}, {"ask": "name?"})

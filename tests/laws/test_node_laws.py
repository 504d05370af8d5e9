"""The promises of a node, kept by good nodes and broken by bad ones."""

import asyncio

import pytest

from causeline.graph import NotPlain, Outcome, node
from causeline.testing.node_laws import NodeCase, NodeLaws


class Shelf:
    books = ("Emma", "Persuasion")


@node("urn:t:laws:find", ports=("found", "none"), writes=("title",))
def find(ctx):
    titles = [book for book in ctx.use(Shelf).books if ctx.state["start"] in book]
    return Outcome("found", {"title": titles[0]}) if titles else "none"


@node("urn:t:laws:item", ports=("success",))
async def item(ctx):
    await asyncio.sleep(0)
    return Outcome("success", {"double": [ctx.item * 2]})


@node("urn:t:laws:ask", ports=("yes", "no"))
def ask(ctx):
    if ctx.answer is None:
        return Outcome.pause({"title": "May I?"}, {"asked": True})
    return "yes" if ctx.answer else "no"


class TestSync(NodeLaws):
    @pytest.fixture
    def case(self):
        return NodeCase(node=find, state={"start": "E"}, services={Shelf: Shelf()})


class TestItem(NodeLaws):
    @pytest.fixture
    def case(self):
        return NodeCase(node=item, state={}, item=4, slow=True)


class TestAsking(NodeLaws):
    @pytest.fixture
    def case(self):
        return NodeCase(node=ask, state={}, answer=True)


def _greedy(ctx):
    ctx.state["list"].append(1)
    return Outcome("done", {"list": ctx.state["list"], "bad": {1, 2}})


async def _leaky(ctx):
    asyncio.get_running_loop().create_task(asyncio.sleep(0.01), name="left behind")
    return "elsewhere"


GREEDY = NodeCase(node=node("urn:t:laws:greedy", ports=("done",), writes=("other",))(_greedy), state={"list": []})
LEAKY = NodeCase(node=node("urn:t:laws:leaky", ports=("done",))(_leaky), state={})


@pytest.mark.parametrize(
    "case, law",
    [
        (GREEDY, "test_it_only_reads_the_state"),
        (GREEDY, "test_what_it_writes_can_be_stored"),
        (GREEDY, "test_it_writes_only_the_channels_it_names"),
        (GREEDY, "test_a_visit_made_again_comes_to_the_same"),
        (LEAKY, "test_it_leaves_by_a_port_it_declares"),
        (LEAKY, "test_it_leaves_no_task_behind"),
        (LEAKY, "test_it_runs_in_a_document"),
    ],
)
async def test_a_node_that_breaks_a_law_is_caught(case, law):
    counter = iter(range(9))
    fn = case.node.fn
    if law == "test_a_visit_made_again_comes_to_the_same":
        fn = lambda ctx: Outcome("done", {"n": next(counter)})  # noqa: E731 - shorter than a function of its own
    broken = NodeCase(node=node(case.node.iri, case.node.ports, writes=case.node.writes)(fn), state={"list": []})
    with pytest.raises((AssertionError, NotPlain)):
        await getattr(NodeLaws(), law)(broken)
    await asyncio.sleep(0.02)

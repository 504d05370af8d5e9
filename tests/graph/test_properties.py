"""The engine against a naive interpreter, resumed from everywhere, and the walk alone in every order."""

import asyncio
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from causeline.graph import Dispatcher, DocumentError, Graph, Limits, Outcome
from causeline.graph.engine.plan import build_plan
from causeline.graph.engine.position_json import PositionReader, position_to_plain
from causeline.graph.engine.walk import begin, returned, verdict
from tests.graph.naive import NODES, REDUCERS, Sketch, interpret, sketches, start
from tests.graph.walking import Recording, through_json

FEW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
)


def registered(sketch: Sketch) -> Dispatcher | None:
    """None for a sketch `check` refuses (a part nothing leads to)."""
    made = Dispatcher(limits=Limits(visits=4000))
    try:
        made.register_all([one.graph().build() for one in (sketch, *sketch.children())], NODES, reducers=REDUCERS)
    except DocumentError:
        return None
    return made


class Snapshots(Recording):
    """Keeps what a crash after each journal call would leave."""

    def __init__(self) -> None:
        super().__init__()
        self.execution = None
        self.states: list[dict] = []
        self.rows: list[dict] = []

    async def step(self, step) -> None:
        await super().step(step)
        self.rows = []
        channels = self.states[-1]["channels"]
        self.states.append(through_json({"position": step.position, "channels": _replayed(channels, step.delta), "progress": []}))

    async def progress(self, item) -> None:
        await super().progress(item)
        self.rows.append(through_json(item.to_plain()))
        self.states.append({**self.states[-1], "progress": list(self.rows)})


def _replayed(values, delta):
    from causeline.graph import Channels
    from causeline.graph.engine.channels import APPEND

    channels = Channels(values, {"trace": APPEND})
    channels.replay(delta)
    return json.loads(json.dumps(channels.values))


async def finish(dispatcher, saved=None, fuel=0, journal=None):
    """Run or resume to a real end, answering whatever is asked."""
    execution = (
        dispatcher.execute("urn:t:doc", start(fuel), journal=journal)
        if saved is None
        else dispatcher.resume("urn:t:doc", saved, journal=journal)
    )
    result = await execution
    while result.status == "interrupted":
        answers = {pause.key: "yes" for pause in result.pauses}
        assert answers
        result = await dispatcher.resume("urn:t:doc", through_json(result.saved()), answers=answers, journal=journal)
    return result


@FEW
@given(sketches(), st.integers(2, 12))
def test_the_engine_does_what_the_naive_interpreter_does(sketch, fuel):
    dispatcher = registered(sketch)
    expected = start(fuel)
    if dispatcher is None or (ended := interpret(sketch, expected)) == "endless":
        return
    result = asyncio.run(finish(dispatcher, fuel=fuel))
    assert (result.status, result.state) == (ended, expected)


@FEW
@given(sketches(asks=True), st.integers(2, 12))
def test_pauses_at_any_depth_change_nothing_but_the_wait(sketch, fuel):
    dispatcher = registered(sketch)
    expected = start(fuel)
    if dispatcher is None or (ended := interpret(sketch, expected)) == "endless":
        return
    result = asyncio.run(finish(dispatcher, fuel=fuel))
    assert (result.status, result.state) == (ended, expected)


@settings(FEW, max_examples=20)
@given(sketches(asks=True), st.integers(2, 8), st.data())
def test_a_crash_after_any_journal_call_changes_nothing(sketch, fuel, data):
    dispatcher = registered(sketch)
    expected = start(fuel)
    if dispatcher is None or (ended := interpret(sketch, expected, 300)) == "endless":
        return
    document = dispatcher.document("urn:t:doc").hash

    async def undisturbed():
        journal = Snapshots()
        journal.states = [
            {"position": dispatcher.execute("urn:t:doc", start(fuel)).saved()["position"], "channels": start(fuel), "progress": []}
        ]
        result = await finish(dispatcher, fuel=fuel, journal=journal)
        return result, journal

    result, journal = asyncio.run(undisturbed())
    assert (result.status, result.state) == (ended, expected)
    for state in data.draw(st.lists(st.sampled_from(journal.states), min_size=1, max_size=8)):
        again = asyncio.run(finish(dispatcher, {**state, "document": document}))
        assert (again.status, again.state) == (ended, expected)


class Dying(Recording):
    """A journal that takes so many calls and then raises."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    async def step(self, step) -> None:
        self._count()
        await super().step(step)

    async def progress(self, item) -> None:
        self._count()
        await super().progress(item)

    def _count(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise OSError("disk")


@settings(FEW, max_examples=20)
@given(sketches(asks=True), st.integers(2, 8), st.lists(st.integers(0, 12), min_size=1, max_size=4))
def test_stopped_again_and_again_it_goes_on_from_what_it_saved(sketch, fuel, lives):
    dispatcher = registered(sketch)
    expected = start(fuel)
    if dispatcher is None or (ended := interpret(sketch, expected, 300)) == "endless":
        return

    async def go():
        execution = dispatcher.execute("urn:t:doc", start(fuel), journal=Dying(lives[0]))
        for calls in [*lives[1:], 10**9]:
            try:
                result = await execution
            except OSError:
                saved = through_json(execution.saved())
                asked = {}
            else:
                if result.status != "interrupted":
                    return result
                saved = through_json(result.saved())
                asked = {pause.key: "yes" for pause in result.pauses}
            execution = dispatcher.resume("urn:t:doc", saved, answers=asked, journal=Dying(calls))
        return await finish(dispatcher, through_json(execution.saved()))

    result = asyncio.run(go())
    assert (result.status, result.state) == (ended, expected)


@settings(FEW, max_examples=20)
@given(sketches(asks=True), st.integers(2, 8))
def test_a_position_read_back_is_the_same_position(sketch, fuel):
    dispatcher = registered(sketch)
    if dispatcher is None or interpret(sketch, start(fuel), 300) == "endless":
        return
    journal = Recording()
    asyncio.run(finish(dispatcher, fuel=fuel, journal=journal))
    plan = dispatcher._registered["urn:t:doc"].plan
    for one in journal.steps:
        plain = through_json(one.position)
        assert position_to_plain(plan, PositionReader(dispatcher._plan_of).position(plan, plain)) == plain


# -- branches


@st.composite
def meetings(draw):
    """Chains from several entrypoints that meet at one gather or at the end, some going through a second gather."""
    count = draw(st.integers(2, 4))
    graph = Graph("urn:t:meet")
    joins = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    if sum(joins) < 2:
        joins[:2] = [True, True]
    lengths = [draw(st.integers(1, 3)) for _ in range(count)]
    order = draw(st.permutations([(branch, number) for branch in range(count) for number in range(lengths[branch])]))
    for branch, number in order:
        last = number + 1 == lengths[branch]
        target = ("join" if joins[branch] else "end") if last else f"n{branch}-{number + 1}"
        graph.node(f"n{branch}-{number}", writer(branch, number), {"done": target})
    for branch in range(count):
        graph.entry(f"e{branch}", f"n{branch}-0")
    sources = draw(st.permutations([f"n{branch}-{lengths[branch] - 1}" for branch in range(count) if joins[branch]]))
    graph.gather("join", sources, "append", {"success": "after", "error": "end", "empty": "end"}, target="got")
    graph.node("after", lambda ctx: Outcome("done", {"after": True}), {"done": "end"}).terminal("end")
    return graph, sources


def writer(branch, number):
    async def write(ctx):
        for _ in range(ctx.use(dict).get((branch, number), 0)):
            await asyncio.sleep(0)
        return Outcome("done", {"last": f"{branch}-{number}"})

    return write


@FEW
@given(meetings(), st.data())
def test_what_branches_come_to_does_not_depend_on_who_is_quicker(meeting, data):
    graph, sources = meeting
    dispatcher = Dispatcher()
    dispatcher.register(graph.build(), graph.nodes)
    delays = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 2)), st.integers(0, 9))
    ends = []
    for _ in range(3):
        result = asyncio.run(_meet(dispatcher, data.draw(delays)))
        assert result.status == "completed"
        ends.append(result.state)
    assert ends[0] == ends[1] == ends[2]
    assert [one["last"] for one in ends[0]["got"]] == [source[1:] for source in sources]


async def _meet(dispatcher, delays):
    return await dispatcher.execute("urn:t:meet", services={dict: {(9, 9): 1, **delays}})


@FEW
@given(meetings(), st.randoms(use_true_random=False))
def test_the_walk_alone_comes_to_the_same_end_in_every_order(meeting, random):
    graph, _sources = meeting
    plan = build_plan(graph.build())
    position = begin(plan, lambda label, gather: None)
    visited = []
    while position.branches:
        branch = random.choice(position.branches)
        name = plan.placements[branch.at].name
        visited.append(name)
        plain = through_json(position_to_plain(plan, position))
        assert position_to_plain(plan, PositionReader(lambda iri: (plan, {})).position(plan, plain)) == plain
        following = returned(plan, position, branch, "success" if name == "join" else "done", {"from": name})
        assert following is None or following in position.branches
    assert sorted(visited) == sorted(one.name for one in plan.placements if one.name != "end"), "nothing lost, nothing repeated"
    assert verdict(plan, position) == "completed"
    assert not position.holds()


def test_the_interpreter_is_exercised():
    """The random documents above are worth something: most are accepted and all kinds occur."""
    seen: set[str] = set()
    taken = []

    @settings(FEW, max_examples=60, database=None)
    @given(sketches(asks=True), st.integers(2, 12))
    def look(sketch, fuel):
        taken.append(registered(sketch) is not None)
        seen.update(part[0] for one in (sketch, *sketch.children()) for part in one.parts)

    look()
    assert seen == {"step", "fan", "inner"}
    assert sum(taken) > len(taken) / 2

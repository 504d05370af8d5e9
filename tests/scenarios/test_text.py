"""Strange text, strange numbers and strange clocks: kept exactly, or refused aloud; order never depends on the time of day."""

import os
import time

import pytest

import causeline
from causeline import tool
from causeline.causal import verify_export
from causeline.errors import Invalid
from tests.agent.stage import Moving, calls
from tests.scenarios.world import World, end, playing

KEPT = {
    "nul": "a\x00b",
    "controls": "\x01\x1b[31m\x7f\x85\u2028",
    "right to left": "\u202eabc\u202c שלום",
    "astral": "\U0001f9ff\U0010ffff",
    "bom": "\ufeffx",
    "quotes": "\"'`\\ \\u0000 {{ user }} </script>",
    "newlines": "a\r\n\r\nb\r",
    "decomposed": "e\u0301 \u00e9",
    "long": "x" * 500_000,
    "json": '{"a": 1, "a": 2}',
    "numbers": "NaN Infinity 1e999 -0 0.1",
}
VALUES = {
    "huge": 10**400,
    "beyond 64 bits": [2**63, -(2**64) - 1],
    "zero": -0.0,
    "fraction": 0.1,
    "keys": {"": 1, "\x00": 2, "é": 3, "e\u0301": 4},
    "null": None,
    "deep": [[[[[[1]]]]]],
}


def echoing():
    @tool(effects=False)
    async def echo(value: str) -> object:
        """Gives it back."""
        return VALUES.get(value, KEPT.get(value))

    return echo


async def everywhere(world: World, value, told: str) -> None:
    """The value is the same in the log, in the messages, in the events, after an import, and its ids prove it."""
    script = [calls(("echo", {"value": told}, "a")), {"text": KEPT.get(told, "done")}]
    agent, model = playing(script, [echoing()])
    async with world.process(agent) as runtime:
        ran = await end(await runtime.start(agent, KEPT.get(told, "go"), session="s"))
        data = await runtime.export("s")
        kinds = {node.kind: node.payload for node in (await runtime.branch("s")).state.nodes}
        assert kinds["tool_result"]["result"] == value
        assert ran.answer == KEPT.get(told, "done")
        assert [event["content"] for event in ran.told("tool_call_result")] == [model.last.messages[-1].text] or len(str(value)) > 50_000
    async with causeline.open("memory://") as other:
        await other.import_(data)
        assert await other.export("s") == data
        again = {node.kind: node.payload for node in (await other.branch("s")).state.nodes}
        if told in KEPT:
            assert (await other.messages("s"))[0].text == KEPT[told]
    assert again == kinds
    assert verify_export(data).session == "s"


@pytest.mark.parametrize("name", KEPT)
async def test_text_is_kept_exactly(world: World, name):
    """What a person, a tool or a model says is the same text in every view, NUL included."""
    await everywhere(world, KEPT[name], name)


@pytest.mark.parametrize("name", VALUES)
async def test_values_are_kept_exactly(world: World, name):
    """Integers of any size, signed zeros and odd keys come back as they were."""
    await everywhere(world, VALUES[name], name)


async def test_a_lone_surrogate_is_refused_at_the_door_and_shown_where_it_slips_out(world: World):
    """No text is changed in silence: input is refused with its place, and what a tool or a model says becomes visible."""

    @tool(effects=False)
    async def half() -> str:
        """Half a character."""
        return "x\ud83dy"

    agent, model = playing([calls(("half", {}, "a")), {"text": "z\ud83d"}], [half])
    async with world.process(agent) as runtime:
        for wrong in ("\ud83d", [{"role": "user", "content": "a\udc00"}]):
            with pytest.raises(Invalid, match="messages"):
                await runtime.start(agent, wrong, session="s")
        with pytest.raises(Invalid, match="context"):
            await runtime.start(agent, "go", session="s", context={"a": "\ud83d"})
        assert await runtime.sessions() == []
        ran = await end(await runtime.start(agent, "go", session="s"))
        said = model.last.messages[-1].text
        verify_export(await runtime.export("s"))
    assert ran.status == "succeeded"
    assert said.startswith("x")
    assert said.endswith("y")
    assert said not in ("x?y", "xy")
    assert ran.answer.startswith("z")
    assert ran.answer not in ("z?", "z")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
async def test_a_number_that_is_none_is_never_stored_as_another(world: World, value):
    """It is named in words or refused, not turned into null."""

    @tool(effects=False)
    async def count() -> float:
        """Counts."""
        return value

    async with world.stage([calls(("count", {})), {"text": "done"}], [count]) as s:
        ran = await s.run("go")
        (result,) = await s.nodes("tool_result")
    assert ran.answer == "done"
    assert result.payload["result"] not in (None, 0, "null")
    assert str(result.payload["result"]).lower().strip("-") in ("nan", "infinity")


# clocks


@pytest.fixture
def zone(monkeypatch):
    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("jump", [0.0, -1.0, -3600.0, 90_000.0], ids=["still", "backwards", "an hour back", "leaps"])
async def test_order_is_that_of_what_happened_whatever_the_clock_says(world: World, zone, jump):
    """Time zones, equal times and clocks that go backwards change neither the order of anything nor who may write."""

    @tool(effects=False)
    async def look(n: int) -> str:
        """Looks."""
        return f"saw {n}"

    clock = Moving(jump=jump)
    script = [calls(("look", {"n": 1})), calls(("look", {"n": 2})), {"text": "done"}]
    for number, place in enumerate(("Pacific/Kiritimati", "UTC", "America/Los_Angeles")):
        zone(place)
        agent, model = playing(script, [look])
        async with world.process(agent, clock=clock) as runtime:
            ran = await end(await runtime.start(agent, f"go {number}", session="s", run_id=f"r{number}"))
            assert ran.answer == "done"
            assert [event["seq"] for event in ran.events] == list(range(1, len(ran.events) + 1))
            assert [one.id for one in await runtime.runs("s")] == [f"r{n}" for n in range(number + 1)]
            assert [one.text for one in await runtime.messages("s") if one.role == "user"] == [f"go {n}" for n in range(number + 1)]
            steps = await runtime.checkpoints("s", f"r{number}")
            assert [one.step for one in steps] == list(range(len(steps)))
            rows = [*(one.created_at for one in steps), (await runtime.sessions())[0].updated_at, ran.events[0]["ts"]]
            assert all(len(text) == 24 and text.endswith("Z") for text in rows)
        assert model.faults == []
    assert os.environ["TZ"] == "America/Los_Angeles"


async def test_the_time_zone_of_a_machine_does_not_show_in_what_it_stores(world: World, zone):
    """The same moments give the same head wherever the process runs."""
    heads = set()
    for place in ("Pacific/Kiritimati", "UTC"):
        zone(place)
        agent, _ = playing([{"text": "done"}], system="It is {{ now }}, {{ date }}.")
        async with World("memory://", world.folder).process(agent, clock=Moving(jump=0.0)) as runtime:
            heads.add((await end(await runtime.start(agent, "go", session="s", run_id="r"))).head)
    assert len(heads) == 1

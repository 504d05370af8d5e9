"""Toolsets: open while somebody needs them, and asked once a round what they offer."""

import asyncio

import pytest

import causeline
from causeline.models import ScriptedModel
from causeline.tools import Toolbox, Toolset
from causeline.tools.function import tool
from causeline.tools.toolbox import ToolClash, UnknownTools
from causeline.tools.toolset import ToolsetFailed


def named(name, result="done"):
    def body() -> str:
        return result

    return tool(body, name=name, effects=False)


class Drawer:
    """A toolset whose tools are what its list holds."""

    def __init__(self, *tools, name="drawer"):
        self.name = name
        self.held = list(tools)
        self.log = []

    async def open(self):
        self.log.append("open")

    def tools(self):
        return list(self.held) if self.log and self.log[-1] == "open" else []

    async def close(self):
        self.log.append("close")


class Plain:
    """The same without coroutines, and with a function for a tool."""

    def open(self):
        return None

    def tools(self):
        return [plain_function]

    def close(self):
        return None


def plain_function() -> str:
    """Plain."""
    return "plain"


class Broken(Drawer):
    async def open(self):
        raise OSError("no such program")


class Recording:
    """A model that keeps the names of the tools it was offered."""

    name = "recording"

    def __init__(self, *items):
        self.model = ScriptedModel(list(items))
        self.offered = []
        self.seen = []

    def stream(self, request):
        self.offered.append([spec.name for spec in request.tools])
        self.seen.append(request.messages[-1].content)
        return self.model.stream(request)

    async def aclose(self):
        return


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - the run's own task does it
            await asyncio.sleep(0.001)


def calls(*names):
    return {"calls": [{"id": f"c_{name}", "name": name, "arguments": {}} for name in names]}


async def test_a_toolbox_has_the_tools_of_open_toolsets_at_their_place():
    drawer = Drawer(named("b1"), named("b2"))
    box = Toolbox([named("a"), drawer, Plain(), named("z")])
    assert isinstance(drawer, Toolset)
    assert (box.names(), box.settled) == (("a", "z"), False)
    await box.open()
    assert (box.names(), box.settled) == (("a", "b1", "b2", "plain_function", "z"), True)
    first = box.get("plain_function")
    await box.refresh()
    assert box.get("plain_function") is first
    drawer.held.pop()
    await box.refresh()
    assert box.names() == ("a", "b1", "plain_function", "z")
    assert [spec.name for spec in box.specs()] == list(box.names())
    await box.close()
    assert drawer.log == ["open", "close"]


async def test_names_and_globs_choose_among_them():
    box = Toolbox([named("a"), Drawer(named("f__read"), named("f__write"), named("g__read"))], use=["f__*", "a", "g__other"])
    with pytest.raises(UnknownTools, match="g__other"):
        await box.open()
    box = Toolbox([named("a"), named("aa"), named("b")], use=["a*"])
    assert box.names() == ("a", "aa")
    with pytest.raises(UnknownTools, match=r"c\*"):
        Toolbox([named("a")], use=["c*"])


async def test_they_are_open_as_long_as_anybody_needs_them():
    drawer = Drawer(named("a"))
    box = Toolbox([drawer])
    await asyncio.gather(box.open(), box.open(), box.open())
    await box.close()
    await box.close()
    assert drawer.log == ["open"]
    await box.close()
    await box.open()
    assert drawer.log == ["open", "close", "open"]


async def test_one_that_cannot_be_opened_closes_the_others_and_is_named():
    first, second = Drawer(), Broken(name="files")
    box = Toolbox([first, second])
    with pytest.raises(ToolsetFailed, match="the tools of files cannot be opened: no such program"):
        await box.open()
    assert first.log == ["open", "close"]
    with pytest.raises(ToolClash):
        await Toolbox([named("a"), Drawer(named("a"))]).open()


async def test_a_list_that_cannot_be_leaves_everything_as_it_was(caplog):
    drawer = Drawer(named("a"))
    box = Toolbox([drawer, named("b")])
    await box.open()
    drawer.held = [named("b")]
    await box.refresh()
    assert box.names() == ("a", "b")
    assert "could not say what it offers" in caplog.text


@pytest.mark.parametrize("graph", ["react", "react-flat"])
async def test_an_agent_sees_what_there_is_in_each_round(graph):
    drawer = Drawer()

    def fetch_more() -> str:
        """More."""
        drawer.held = [named("extra", "extra was here")] if len(drawer.held) > 1 else []
        return "changed"

    drawer.held = [tool(fetch_more), named("old")]
    model = Recording(calls("fetch_more"), calls("extra", "old"), {"text": "end"})
    agent = causeline.Agent(model, tools=[named("own"), drawer], remember=False, graph=graph)
    result = await agent.run("go")
    assert (result.status, result.answer) == ("succeeded", "end")
    assert model.offered == [["own", "fetch_more", "old"], ["own", "extra"], ["own", "extra"]]
    assert model.seen[2].startswith("There is no tool 'old'")
    assert drawer.log == ["open", "close"]


async def test_runs_share_an_open_toolset_and_a_client_may_bring_tools():
    drawer = Drawer(named("a"))
    model = Recording({"text": "end"})
    agent = causeline.Agent(model, tools=[drawer], remember=False, use_tools="*")
    async with causeline.open("memory://", agents=[agent]) as runtime:
        runs = [await runtime.start(agent, "go", tools=[{"name": "mine"}]) for _ in range(3)]
        assert [(await run.result()).status for run in runs] == ["succeeded"] * 3
        assert drawer.log == ["open"], "an agent given to the runtime keeps its toolsets open as long as that is"
    assert model.offered == [["a", "mine"]] * 3
    assert drawer.log == ["open", "close"]


async def test_the_toolsets_of_an_agent_that_comes_with_a_run_are_open_for_that_run():
    drawer = Drawer(named("a"))
    async with causeline.open("memory://") as runtime:
        for _ in range(2):
            agent = causeline.Agent(Recording({"text": "end"}), tools=[drawer])
            assert (await (await runtime.start(agent, "go")).result()).status == "succeeded"
            await until(lambda: drawer.log[-1] == "close")
    assert drawer.log == ["open", "close"] * 2


async def test_a_toolset_that_cannot_be_opened_fails_the_run_and_says_why():
    agent = causeline.Agent(ScriptedModel([{"text": "end"}]), tools=[Broken(name="files")], remember=False)
    result = await agent.run("go")
    assert (result.status, result.error["code"]) == ("failed", "toolset_failed")
    assert "the tools of files cannot be opened: no such program" in result.error["message"]

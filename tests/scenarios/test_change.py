"""Code moves on while sessions stay: what is stored names no class and no module, and is read by what is there now."""

import contextlib
import json
import sqlite3

import pytest
from pydantic import BaseModel

from causeline import approve, tool
from causeline.adapters.stores.sql.compression import expand
from causeline.assemble import load_agent
from causeline.errors import Invalid, Missing
from tests.agent.stage import Turns, calls
from tests.scenarios.world import World, end, only, playing

MODULE = '''
import causeline

class {name}:
    """A class that holds the tool."""
    @causeline.tool(approval="ask")
    async def pay(n: int) -> str:
        """Pays."""
        return f"{name} paid {{n}}"
    tool = pay

pay = {name}.tool
'''
AGENT = '[agent]\nname = "clerk"\nmodel = "scripted:script.json"\n[graph]\ntype = "react"\n[[tools]]\npython = "{module}:pay"\n'
SCRIPT = [{"calls": [{"id": "a", "name": "pay", "arguments": {"n": 3}}]}, {"text": "done"}]


def written(world: World, module: str, name: str):
    """The agent with its tool in this module and class, and no other module beside it."""
    for old in world.folder.glob("*.py"):
        old.unlink()
    (world.folder / f"{module}.py").write_text(MODULE.format(name=name))
    (world.folder / "script.json").write_text(json.dumps(SCRIPT))
    (world.folder / "agent.toml").write_text(AGENT.format(module=module))
    return load_agent(world.folder / "agent.toml")


async def test_a_session_goes_on_after_its_code_was_renamed_and_moved(world: World):
    """A question that was open before is answered by the tool of that name as it is now, and old messages can be read."""
    agent = written(world, "before", "Old")
    async with world.process(agent) as runtime:
        ran = await end(await runtime.start(agent, "go", session="s"))
    agent = written(world, "after", "New")
    async with world.process(agent) as runtime:
        done = await end(await runtime.answer(ran.run_id, {only(ran): approve()}))
        assert (done.status, [one.text for one in await runtime.messages("s")]) == ("succeeded", ["go", "", "New paid 3", "done"])
        assert (await end(await runtime.start(agent, "again", session="s"))).status == "interrupted"


async def test_a_session_can_be_read_without_any_of_its_code(world: World):
    """Messages, log, export and open questions need no agent; what needs one says which."""
    agent = written(world, "before", "Old")
    async with world.process(agent) as runtime:
        ran = await end(await runtime.start(agent, "go", session="s"))
    (world.folder / "before.py").unlink()
    async with world.process() as runtime:
        assert [one.text for one in await runtime.messages("s")] == ["go", ""]
        assert (await runtime.result(ran.run_id)).interrupts[0].arguments == {"n": 3}
        assert b'"pay"' in await runtime.export("s")
        with pytest.raises((Invalid, Missing), match="before"):
            await runtime.answer(ran.run_id, {only(ran): approve()})
        assert only(await runtime.result(ran.run_id)) == only(ran)


class Verdict(BaseModel):
    """An answer with a type."""

    good: bool
    points: int


async def test_a_typed_answer_has_its_type_again_after_a_restart(world: World):
    """The stored answer is JSON; with the agent at hand it is the type again, without it the value, never something in between."""
    agent, _ = playing([{"text": '{"good": true, "points": 7}'}], output_type=Verdict)
    async with world.process(agent) as runtime:
        ran = await end(await runtime.start(agent, "go", session="s"))
        assert (ran.answer, ran.output) == ({"good": True, "points": 7}, Verdict(good=True, points=7))
    async with world.process(agent) as runtime:
        assert (await runtime.result(ran.run_id)).output == Verdict(good=True, points=7)
    async with world.process() as runtime:
        assert (await runtime.result(ran.run_id)).output == {"good": True, "points": 7}


async def test_a_tool_that_is_gone_leaves_a_conversation_that_goes_on(world: World):
    """Old calls of it stay in the history as they were; a new one is told that there is no such tool."""

    @tool(effects=False)
    async def old(n: int) -> str:
        """Will go."""
        return f"old {n}"

    ask = calls(("old", {"n": 1}))
    async with world.stage([ask, {"text": "one"}], [old]) as s:
        await s.run("first")
    async with world.stage(Turns([{"text": "unused"}], [ask, {"text": "two"}])) as s:
        assert (await s.run("second")).answer == "two"
        results = [one.text for one in s.model.last.messages if one.role == "tool"]
    assert results[0] == "old 1"
    assert "no tool 'old'" in results[1]


async def test_no_stored_value_holds_code(disk: World):
    """Every cell of the file is plain: no pickle, and no name of a Python class or module to load."""

    @tool(effects=False)
    async def look(n: int) -> dict:
        """Looks."""
        return {"n": n}

    agent, _ = playing([calls(("look", {"n": 1})), {"text": "done"}], [look])
    async with disk.process(agent) as runtime:
        await end(await runtime.start(agent, "go", session="s"))
    database = sqlite3.connect(disk.folder / "store.db")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
    cells = [cell for name in tables for row in database.execute(f'SELECT * FROM "{name}"') for cell in row]
    database.close()
    assert len(cells) > 80
    for cell in cells:
        data = cell if isinstance(cell, bytes) else str(cell).encode()
        with contextlib.suppress(Exception):
            data = expand(data)
        assert not data.startswith(b"\x80\x04"), data
        assert b"test_change" not in data
        assert b"__main__" not in data

"""`causeline mcp`: another program's agent talks to ours, over both transports."""

import sys

import pytest

import causeline
from causeline.tools import Toolbox, ToolContext, mcp
from causeline.tools.execute import execute

pytest.importorskip("mcp")
CONTEXT = ToolContext(call_id="c")
LOUD = '''
import subprocess
import causeline

print("said on import")

@causeline.tool(effects=False)
def lookup(term: str) -> str:
    """Look up."""
    print("said by a tool")
    subprocess.run(["echo", "said by a child"])
    return f"{term} is a word"

@causeline.tool
def mail(to: str) -> str:
    """Mail."""
    return "sent"
'''


def agent(shell):
    shell.agent({"calls": [{"id": "c1", "name": "lookup", "arguments": {"term": "sky"}}]}, {"text": "It is a word."})
    (shell.folder / "tools.py").write_text(LOUD)


async def asked(box, **arguments):
    return await execute(box.get("t__bot"), arguments, CONTEXT)


async def test_an_agent_as_a_tool_over_stdio(shell):
    agent(shell)
    told = []
    box = Toolbox([mcp([sys.executable, "-m", "causeline.cli", "mcp", "agent.toml"], name="t", cwd=shell.folder)])
    await box.open()
    context = ToolContext(call_id="c", progress=told.append)
    first = await execute(box.get("t__bot"), {"prompt": "what is the sky?", "session": "s1"}, context)
    assert (first.ok, first.result) == (True, "It is a word."), first.text
    assert told == [{"progress": 1.0, "message": "calls lookup"}]
    wrong = await asked(box, prompt="and?", session="no such id")
    assert (wrong.ok, "session id" in wrong.text) == (False, True)
    shell.script({"calls": [{"id": "c2", "name": "mail", "arguments": {"to": "ann"}}]}, {"text": "done"})
    await box.close()
    await box.open()
    asks = await asked(box, prompt="mail her", session="s1")
    assert (asks.ok, "causeline answer run_" in asks.text) == (False, True)
    await box.close()
    async with causeline.open(f"sqlite:///{shell.folder}/.causeline/store.db") as runtime:
        assert [run.status for run in await runtime.runs("s1")] in (["succeeded", "interrupted"], ["interrupted", "succeeded"])


async def test_an_agent_as_a_tool_over_http(shell, start):
    agent(shell)
    process = start("mcp", "agent.toml", "--http", "--port", "0")
    address = process.until("http://").strip()
    assert address.startswith("http://127.0.0.1:")
    box = Toolbox([mcp(url=address, name="t")])
    await box.open()
    assert (await asked(box, prompt="what is the sky?")).result == "It is a word."
    await box.close()

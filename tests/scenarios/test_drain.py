"""A worker that is told to stop: nothing is left running, and another one goes on."""

import json
import os
import signal
import subprocess
import sys

from causeline.assemble import load_agent
from causeline.cli.opening import opened
from causeline.runtime.records import Run
from tests.scenarios.world import World, until

AGENT = """
[agent]
name = "bot"
model = "scripted:script.json"
[graph]
type = "react"
[[tools]]
python = "tools:wait"
"""
TOOLS = '''
import asyncio
from pathlib import Path
import causeline

@causeline.tool(idempotent=True)
async def wait() -> str:
    """Ends once somebody allows it."""
    here = Path(__file__).parent
    with (here / "started").open("a") as file:
        file.write("x")
    while not (here / "go").exists():
        await asyncio.sleep(0.01)
    return "waited"
'''
SCRIPT = [{"calls": [{"id": "a", "name": "wait", "arguments": {}}]}, {"text": "done"}]


class Worker:
    def __init__(self, world: World) -> None:
        words = [sys.executable, "-m", "causeline.cli", "worker", "--agent", "agent.toml", "--store", world.url, "--grace", "0.1"]
        self.inner = subprocess.Popen(
            words, cwd=world.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        )

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.inner.send_signal(number)
        _, err = self.inner.communicate(timeout=30)
        return self.inner.returncode, err


async def test_sigterm_leaves_no_run_running(disk: World):
    """Intake stops first, runs are handed back, the store is closed last; the next worker takes them up at once."""
    for name, text in (("agent.toml", AGENT), ("tools.py", TOOLS), ("script.json", json.dumps(SCRIPT))):
        (disk.folder / name).write_text(text)
    agent = load_agent(disk.folder / "agent.toml")
    async with opened(disk.url, agent, new=True, grace=0) as runtime:
        for n in range(5):
            await runtime.start(agent, "go", session=f"s{n}", run_id=f"r{n}")
    (disk.folder / "started").write_text("")
    first = Worker(disk)
    await until(lambda: first.inner.poll() is not None or len((disk.folder / "started").read_text()) == 5)
    assert first.end(signal.SIGTERM) == (0, "")
    async with opened(disk.url) as runtime:
        rows = await runtime.store.rows(Run, owner="default")
        assert [(one.status, one.holder) for one in rows] == [("queued", None)] * 5
        (disk.folder / "go").touch()
        second = Worker(disk)
        assert [(await runtime.result(f"r{n}")).answer for n in range(5)] == ["done"] * 5
    assert second.end(signal.SIGTERM) == (0, "")

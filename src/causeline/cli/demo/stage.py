"""Where the demonstration plays: a folder with a store, child processes, and what it prints."""

import json
import os
import shutil
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from causeline.assemble import Agent, load_agent
from causeline.cli.demo.demo_tools import NOTES, PAUSE
from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.narration import Style
from causeline.cli.views.terminal import Terminal
from causeline.errors import Unavailable

HERE = Path(str(resources.files("causeline.cli.demo")))


class Stage:
    """`model` is the local model's name, or None where the scripted ones speak. `broken` becomes true with the first claim that
    does not hold."""

    def __init__(self, folder: Path, model: str | None) -> None:
        self.folder = folder
        self.model = model
        self.store = f"sqlite:///{folder / 'store.db'}"
        self.notebook = folder / "notebook.txt"
        self.broken = False
        program = Path(sys.argv[0])
        self._program = os.path.relpath(program) if program.name == "causeline" else ""
        self.terminal = Terminal()

    def say(self, text: str = "", style: Style = "plain") -> None:
        self.terminal.say(text, style)

    def title(self, text: str) -> None:
        self.say(f"\n{text}\n{'-' * len(text)}", "title")

    def claim(self, text: str, holds: bool) -> None:
        """Say whether something is true, as it was found."""
        self.broken = self.broken or not holds
        self.say(f"{text}: {'yes' if holds else 'NO'}", "good" if holds else "bad")

    def observe(self, text: str, share: float) -> None:
        """Say how far something is true that a small model may do well or badly."""
        self.say(f"{text}: {share:.0%} of them")

    def line(self, *words: str) -> str:
        """A command line that works from here, also where `causeline` is not on the path, as under make."""
        line = command_line(*words)
        return line if shutil.which("causeline") or not self._program else line.replace("causeline", self._program, 1)

    def agent(self, name: str, **changes: Any) -> Agent:
        """One of the demonstration's agents. What is None stays as its file says."""
        return load_agent(HERE / f"{name}.toml", **{key: value for key, value in changes.items() if value is not None})

    async def start(self, *words: str, pause: float = 0.0, notebook: Path | None = None) -> Process:
        """Start `causeline` with these words as a process of its own."""
        environment = {**os.environ, NOTES: str(notebook or self.notebook), PAUSE: str(pause)}
        return await create_subprocess_exec(sys.executable, "-m", "causeline.cli", *words, env=environment, stdout=PIPE, stderr=PIPE)

    async def shown(self, *words: str) -> tuple[int, str]:
        """Print a command line, run it, print what it prints; returns its exit code and output."""
        self.say(f"$ {self.line(*words)}", "call")
        process = await self.start(*words)
        output, errors = await process.communicate()
        text = (output + errors).decode()
        self.say(text.strip("\n"))
        return process.returncode or 0, text

    async def events_until(self, process: Process, kind: str, name: str) -> None:
        """Read a run's event lines until the one wanted. Raises Unavailable if the process ends before."""
        assert process.stdout is not None
        assert process.stderr is not None
        while line := await process.stdout.readline():
            event: Mapping[str, Any] = json.loads(line)
            if event.get("type") == kind and event.get("name") == name:
                return
        raise Unavailable(f"the run ended before {name} was called: {(await process.stderr.read()).decode()}")

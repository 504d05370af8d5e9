"""Running command lines in this process, in an empty folder."""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from causeline.cli.main import main

PATIENCE = 60
TOOLS = '''
import causeline

@causeline.tool(effects=False)
def lookup(term: str) -> str:
    """Look a word up."""
    return f"{term} is a word"

@causeline.tool
def mail(to: str, text: str = "") -> str:
    """Send mail."""
    return f"sent to {to}"
'''
AGENT = """
[agent]
name = "bot"
model = "scripted:script.json"
[graph]
type = "react"
[[tools]]
python = "tools:lookup"
[[tools]]
python = "tools:mail"
approval = "ask"
[[tools]]
python = "causeline.tools:ask_human"
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def last(self) -> Any:
        return self.rows[-1]


class Shell:
    """Runs `causeline` command lines; `agent` writes a folder's agent with a script."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capture = capture

    def __call__(self, *words: str) -> Ended:
        self._capture.readouterr()
        with pytest.raises(SystemExit) as left:
            main(list(words))
        out, err = self._capture.readouterr()
        code = left.value.code
        assert isinstance(code, int)
        return Ended(code, out, err)

    def agent(self, *script: dict[str, Any], toml: str = AGENT) -> str:
        (self.folder / "agent.toml").write_text(toml)
        (self.folder / "tools.py").write_text(TOOLS)
        self.script(*script)
        return "agent.toml"

    def script(self, *items: dict[str, Any]) -> None:
        (self.folder / "script.json").write_text(json.dumps(items))

    def ask(self, prompt: str = "hello", *words: str) -> Any:
        """`run --json`: its last object."""
        ended = self("run", prompt, "--agent", "agent.toml", "--json", *words)
        assert ended.rows, ended.err
        return ended.last


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    for name in ("CAUSELINE_STORE", "CAUSELINE_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    return Shell(tmp_path, capsys)


class Process:
    """A `causeline` process whose event lines can be waited for."""

    def __init__(self, *words: str, stdin: int = subprocess.DEVNULL) -> None:
        environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        self.inner = subprocess.Popen(
            [sys.executable, "-m", "causeline.cli", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=stdin, text=True,
            env=environment, start_new_session=True,
        )  # fmt: skip
        self.watchdog = threading.Timer(PATIENCE, self.inner.kill)  # so that no test waits for ever
        self.watchdog.start()

    def until(self, text: str) -> str:
        """Read standard output up to the line that holds `text`."""
        assert self.inner.stdout is not None
        for line in self.inner.stdout:
            if text in line:
                return line
        raise AssertionError(f"ended without {text!r}: {self.inner.stderr.read() if self.inner.stderr else ''}")

    def error_until(self, text: str) -> str:
        """Read standard error up to the line that holds `text`."""
        assert self.inner.stderr is not None
        return next(line for line in self.inner.stderr if text in line)

    def send(self, number: signal.Signals) -> None:
        self.inner.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.inner.communicate()
        return self.inner.returncode, out, err


@pytest.fixture
def start():
    running = []

    def begin(*words: str, **options) -> Process:
        running.append(Process(*words, **options))
        return running[-1]

    yield begin
    for process in running:
        process.watchdog.cancel()
        process.inner.kill()
        process.inner.communicate()

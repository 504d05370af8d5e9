"""Plays a page: runs its blocks in order, in one folder, and compares what they print with what the page says."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import Block
from tests.docs.provider import Provider

SECONDS = 60  # for one command
STARTED = 20  # for the first line of a command left in the background
CHECKED_ONLY = ("make ", "pip ", "python -m pip ", "git ")


def matches(expected: str, printed: str) -> bool:
    """True if the text fits. Trailing blanks and blank lines at both ends do not count."""
    pattern = ""
    for line in expected.strip("\n").splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*".join(re.escape(piece) for piece in line.rstrip().split("...")) + r" *\n"
    text = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, f"{text}\n" if text else "") is not None


def commands(text: str) -> list[tuple[str, str]]:
    """(command, expected output) of a transcript. A command goes on below a backslash; `> ` is taken off there."""
    rows: list[tuple[str, str]] = []
    continued = False
    for line in text.splitlines():
        if continued:
            command, output = rows[-1]
            rows[-1] = (f"{command}\n{line.removeprefix('> ')}", output)
        elif line.startswith("$ "):
            rows.append((line[2:], ""))
        elif rows:
            rows[-1] = (rows[-1][0], f"{rows[-1][1]}{line}\n")
        elif line.strip():
            raise AssertionError(f"a transcript starts with a command, not with {line!r}")
        continued = line.endswith("\\") and not rows[-1][1]
    return rows


@dataclass
class Player:
    """Holds the folder of one page and the processes it left running."""

    folder: Path
    provider: Provider = field(default_factory=Provider)
    running: list[subprocess.Popen] = field(default_factory=list)
    printed: str = ""

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("LANG", "PYTHONPATH", "TMPDIR") if name in os.environ}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {
            **kept,
            "PATH": path,
            "HOME": str(self.folder),
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "TERM": "dumb",
            **self.provider.variables,
        }

    def run(self, arguments: list[str], exit_code: int = 0, *, background: bool = False) -> None:
        """Run one command to its end, or to its first line of output if it is to go on in the background."""
        with (self.folder / ".output").open("w+b") as output:
            process = subprocess.Popen(
                arguments, cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            self.running.append(process)
            code = process.wait(SECONDS)
            limit = time.monotonic() + STARTED
            while background and not os.fstat(output.fileno()).st_size and time.monotonic() < limit:
                time.sleep(0.02)
            output.seek(0)
            self.printed = output.read().decode("utf-8", "replace")
        (self.folder / ".output").unlink()
        assert code == exit_code, f"ended with {code}, not {exit_code}:\n{self.printed}"

    def console(self, block: Block) -> None:
        rows = commands(block.text)
        for index, (command, expected) in enumerate(rows):
            if command.startswith(CHECKED_ONLY):
                continue
            last = index == len(rows) - 1
            self.run(["sh", "-c", command], int((last and block.value("exit")) or 0), background=command.rstrip().endswith("&"))
            assert not expected.strip() or matches(expected, self.printed), f"$ {command}\n--- page\n{expected}--- printed\n{self.printed}"

    def play(self, block: Block) -> None:
        if block.replies is not None:
            self.provider.replies = block.replies
        name = block.value("file")
        if name:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(block.text, "utf-8")
        if block.language == "python":
            script = self.folder / (name or f".block_{block.line}.py")
            script.write_text(block.text, "utf-8")
            self.run([sys.executable, "-W", "error", str(script)])
        elif block.language == "console":
            self.console(block)
        elif block.language == "sh" and "run" in block.words:
            self.run(["sh", "-ec", block.text])
        elif "output" in block.words:
            assert matches(block.text, self.printed), f"--- page\n{block.text}--- printed\n{self.printed}"

    def stop(self) -> None:
        """End what the page left running, and the provider."""
        self.provider.close()
        for process in self.running:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait(SECONDS)

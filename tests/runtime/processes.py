"""Other processes: forks of this one that run a coroutine and end, by themselves or by SIGKILL."""

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

SECONDS = 60


def spawn(work: Callable[[], Awaitable[Any]], told: Path | None = None) -> int:
    """Run a coroutine function in a process of its own; what it returns is written to `told` as JSON."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(SECONDS)
            found = asyncio.run(work())  # type: ignore[arg-type]
            if told is not None:
                told.write_text(json.dumps(found), encoding="utf-8")
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not return into its parent's code
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return pid


def ended(pid: int) -> int:
    """How a process ended: its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die() -> None:
    """End this process as nothing can catch it."""
    os.kill(os.getpid(), signal.SIGKILL)


def append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

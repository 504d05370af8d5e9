"""Several workers on one store, as processes of their own: one Python process has one core.

Law: they live and end together. A signal to the first process is passed on to each; where one ends by itself the others are told to
drain, and its exit code is that of all.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

LOOK_SECONDS = 0.1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_together(count: int, arguments: Sequence[str]) -> int:
    """Run so many `causeline worker` with these arguments until all have ended; returns the exit code."""
    # In groups of their own, so that Ctrl-C reaches each of them once: from here.
    command = [sys.executable, "-m", "causeline.cli", "worker", *arguments]
    workers = [subprocess.Popen(command, start_new_session=True) for _ in range(count)]  # noqa: S603 - this very program
    told: list[int] = []

    def pass_on(number: int, _frame: FrameType | None = None) -> None:
        told.append(number)
        for worker in workers:
            if worker.poll() is None:
                worker.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _SIGNALS}
    try:
        while all(worker.poll() is None for worker in workers):
            time.sleep(LOOK_SECONDS)
        if not told:  # a second signal would stop at once those that drain
            pass_on(signal.SIGTERM)
        first = next(worker.returncode for worker in workers if worker.returncode is not None)
        codes = [first, *(worker.wait() for worker in workers)]
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
        for number, handler in before.items():
            signal.signal(number, handler)
    return next((abs(code) for code in codes if code), 0)

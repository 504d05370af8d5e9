"""What went wrong, as one message, one hint and one exit code.

Law: nobody sees a Python traceback who did not ask for it with `--debug` or CAUSELINE_DEBUG.
"""

import os
import sys
import traceback
from collections.abc import Sequence
from typing import cast

from causeline.cli.terminal import Terminal
from causeline.cli.text import clean
from causeline.errors import CauselineError, Corrupt, Exhausted, Invalid, Misuse, Refused, Unavailable

FAILED, USAGE, QUESTIONS, CTRL_C = 1, 2, 3, 130
"""Exit codes: failed or refused, wrong command line, waiting for answers, stopped with Ctrl-C."""

_HINTS: Sequence[tuple[type[CauselineError], str]] = (
    (Unavailable, "This may pass: try the same command again."),
    (Refused, "Trying again will not help; change what is asked for, or the account it is asked with."),
    (Corrupt, "Nothing was changed. Take the file or the store from a copy that still verifies."),
)
"""Said for a kind of error whose message may not say what to do."""

_CODES = {
    "session_busy": "Wait for the other run, or start with --on-busy enqueue or --on-busy cancel.",
    "run_conflict": "Leave --run-id out to start another run.",
    "interrupt_closed": "It was answered, or a later message made it void; `causeline show SESSION` tells.",
    "run_held": "Let it go on; if it should stop, use `causeline cancel RUN`.",
}
_UNFORESEEN = "This was not foreseen. Run the command again with --debug to see where it came from."
_debug = False


def set_debug(on: bool) -> None:
    """Whether to show tracebacks from here on."""
    global _debug  # noqa: PLW0603 - one switch of one process, set by the command line
    _debug = on


def debugging() -> bool:
    """Whether tracebacks were asked for."""
    return _debug or os.environ.get("CAUSELINE_DEBUG", "") not in ("", "0")


def report(error: Exception) -> int:
    """Tell an error on standard error; returns the exit code to leave with."""
    if isinstance(error, ExceptionGroup):
        error = first_of(cast("ExceptionGroup[Exception]", error))
    if debugging():
        sys.stderr.write(clean("".join(traceback.format_exception(error))))
    terminal = Terminal(error=True)
    message, hints, code = explained(error)
    terminal.say(f"causeline: {message}", "bad")
    for hint in hints:
        terminal.say(hint, "quiet")
    return code


def first_of(group: ExceptionGroup[Exception]) -> Exception:
    """The first error of a group that is not a group itself."""
    inner = group.exceptions[0]
    return first_of(cast("ExceptionGroup[Exception]", inner)) if isinstance(inner, ExceptionGroup) else inner


def explained(error: Exception) -> tuple[str, Sequence[str], int]:
    """Message, hints and exit code of an error."""
    if isinstance(error, CauselineError):
        hint = _CODES.get(error.code) or next((text for kind, text in _HINTS if isinstance(error, kind)), None)
        if isinstance(error, Unavailable) and error.retry_after:
            hint = f"Try again in {error.retry_after:.0f} s."
        return _message(error), [hint] if hint else [], USAGE if isinstance(error, Misuse) else FAILED
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return clean(f"{place}{error.strerror or error}"), [], FAILED
    told = str(error).strip().partition("\n")[0]
    return clean(f"{type(error).__name__}: {told}"), [_UNFORESEEN], FAILED


def _message(error: CauselineError) -> str:
    """The message, and below it the findings that it does not name itself."""
    message = clean(error.message)
    if isinstance(error, Invalid):
        rows = [clean(str(finding)) for finding in error.findings]
        message = "\n  ".join([message, *(row for row in rows if row not in message)])
    if isinstance(error, Exhausted):
        message += f" (limit: {clean(error.limit)})"
    return message

"""What went wrong, as one message, one hint and one exit code.

Law: nobody sees a Python traceback who did not ask for it with `--debug` or CAUSELINE_DEBUG.
"""

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import cast

from causeline.cli.views.clean_text import clean
from causeline.cli.views.terminal import Terminal
from causeline.errors import CauselineError, Corrupt, Exhausted, Invalid, Missing, Misuse, Refused, Unavailable

FAILED, USAGE, QUESTIONS, CTRL_C = 1, 2, 3, 130
"""Exit codes: failed or refused, wrong command line, waiting for answers, stopped with Ctrl-C."""

_HINTS: Sequence[tuple[type[CauselineError], str]] = (
    (Unavailable, "This may pass: try the same command again."),
    (Refused, "Trying again will not help; change what is asked for, or the account it is asked with."),
    (Corrupt, "Nothing was changed. Take a copy that still verifies."),
)
"""Said for a kind of error whose message may not say what to do."""

_OTHER_AGENT = "Name it with --agent FILE."
_CODES = {
    "session_busy": "Wait for that run, `causeline cancel` it, or start with --on-busy enqueue or --on-busy cancel.",
    "run_active": "`causeline cancel RUN` stops it.",
    "run_conflict": "Leave --run-id out to start another run.",
    "session_exists": "`causeline delete SESSION` removes it; --store imports into another store.",
    "no_agent": _OTHER_AGENT,
    "tool_gone": "Deny the call, or name the agent that asked with --agent FILE.",
    "document_changed": "Name the agent that asked with --agent FILE, or say something new: `causeline run --session SESSION`.",
    "interrupt_closed": "It was answered, or a later message made it void; `causeline show SESSION` tells.",
    "run_held": "Let it go on; if it should stop, use `causeline cancel RUN`.",
}
_IN_WORDS = {
    "session_busy": "session {session} is busy with run {run}",
    "run_conflict": "run {run} is there already and was asked something else",
    "session_exists": "session {session} is in this store already",
    "no_agent": "run {run} is of agent {agent}, whose tools are not in files",
    "document_changed": "the agent's graph has changed since the question was asked, so there is no place to go on from",
}
"""Messages whose advice is for Python, told without it; the hint of the same code says what to do here."""
_UNFORESEEN = "This was not foreseen. Run the command again with --debug to see where it came from."
_debug = False
_tools = logging.getLogger("causeline.tools")


class _Log(logging.Handler):
    """What tools ran into, on standard error as it is at that time, cleaned."""

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(clean(self.format(record)) + "\n")


_log = _Log()


def set_debug(on: bool) -> None:
    """Whether to show tracebacks from here on, those of tools included, which the library logs."""
    global _debug  # noqa: PLW0603 - one switch of one process, set by the command line
    _debug = on
    if debugging() and _log not in _tools.handlers:
        _tools.addHandler(_log)
        _tools.setLevel(logging.DEBUG)
    elif not debugging():
        _tools.removeHandler(_log)
        _tools.setLevel(logging.NOTSET)
    log = logging.getLogger("causeline")
    log.setLevel(logging.DEBUG if debugging() else logging.NOTSET)
    if not any(isinstance(one, _Aside) for one in log.handlers):
        log.addHandler(_Aside())


def debugging() -> bool:
    """Whether tracebacks were asked for."""
    return _debug or os.environ.get("CAUSELINE_DEBUG", "") not in ("", "0")


class _Aside(logging.Handler):
    """Shows what the library logs, tracebacks of tools above all, on standard error while tracebacks are asked for."""

    def emit(self, record: logging.LogRecord) -> None:
        if debugging():
            sys.stderr.write(clean(self.format(record)) + "\n")


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
        hint = _not_recorded(error) or _CODES.get(_code(error)) or next((text for kind, text in _HINTS if isinstance(error, kind)), None)
        if isinstance(error, Unavailable) and error.retry_after and "run" not in error.facts:
            hint = f"Try again in {error.retry_after:.0f} s."
        return _message(error), [hint] if hint else [], USAGE if isinstance(error, Misuse) else FAILED
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        return clean(f"{place}{error.strerror or error}"), [], FAILED
    told = str(error).strip().partition("\n")[0]
    return clean(f"{type(error).__name__}: {told}"), [_UNFORESEEN], FAILED


def _not_recorded(error: CauselineError) -> str | None:
    """Advice on a run that began and that the store does not take any further: the same command would begin another one."""
    run = error.facts.get("run")
    if not isinstance(error, Unavailable) or run is None:
        return None
    run_id = clean(str(run))
    return f"Mend that, then `causeline resume {run_id}`: it goes on where it stopped. The same command again would start a second run."


def _code(error: CauselineError) -> str:
    return "no_agent" if isinstance(error, Missing) and {"run", "agent"} <= error.facts.keys() else error.code


def _in_words(error: CauselineError) -> str:
    """What happened, without what is to be done in Python about it."""
    words = _IN_WORDS.get(_code(error))
    try:
        return error.message if words is None else words.format(**error.facts)
    except KeyError:
        return error.message


def _message(error: CauselineError) -> str:
    """The message, and below it the findings that it does not name itself."""
    message = clean(_in_words(error))
    if isinstance(error, Invalid):
        rows = [clean(str(finding)) for finding in error.findings]
        message = "\n  ".join([message, *(row for row in rows if row not in message)])
    if isinstance(error, Exhausted):
        message += f" (limit: {clean(error.limit)})"
    return message

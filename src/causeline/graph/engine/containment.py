"""Whose exception it is: the code's own, or one that comes to it from outside.

Law: whatever a stranger's code raises is a failure of that code, also what Python uses for ending a program. A cancelled
run, a real Ctrl-C and a coroutine that is being closed are not its doing; they go on.
"""

import asyncio
import functools
import inspect
import signal
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, cast

from causeline.errors import Refused, words_of


def from_outside(error: BaseException) -> bool:
    """Whether `error`, caught in the task whose code raised it, was sent there by somebody else."""
    if isinstance(error, asyncio.CancelledError):
        task = _running_task()
        return task is None or task.cancelling() > 0
    if isinstance(error, KeyboardInterrupt):
        return _is_signal(error)
    return isinstance(error, GeneratorExit) and _running_task() is None


class Crashed(Refused):
    """A stranger's code raised something that is no Exception, such as SystemExit; it must not take the process along."""

    code = "crashed"
    retryable = False

    def __init__(self, error: BaseException) -> None:
        super().__init__(": ".join(filter(None, (type(error).__name__, words_of(error)))))


async def contained(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, also one that is a coroutine's. Raises Crashed for what it raises that is no Exception."""
    try:
        said = function(*arguments)
        return await said if inspect.isawaitable(said) else said
    except BaseException as error:
        if isinstance(error, Exception) or from_outside(error):
            raise
        raise Crashed(error) from error


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _is_signal(error: KeyboardInterrupt) -> bool:
    """Whether a signal raised it. Python's own handler leaves no trace, so where that one is set nobody can tell, and it counts."""
    handler: Any = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return True
    code = _code(handler)
    return code is not None and any(frame is code for frame in _frames(error.__traceback__))


def _code(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = cast(Any, handler).func
    return getattr(getattr(handler, "__func__", handler), "__code__", None)


def _frames(trace: TracebackType | None) -> list[CodeType]:
    codes: list[CodeType] = []
    while trace is not None:
        codes.append(trace.tb_frame.f_code)
        trace = trace.tb_next
    return codes

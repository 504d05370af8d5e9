"""Trying a call again.

Law: only errors are tried again. A failure a tool returned in its own words, a cancel, and an attempt that
still runs are not.
"""

import asyncio
from collections.abc import Awaitable, Callable
from math import isfinite
from typing import Any, TypeVar

from causeline.policy import After, RetryPolicy, error_names

T = TypeVar("T")

Sleep = Callable[[float], Awaitable[None]]


def _untold(_attempt: int, _error: Exception, _wait: float) -> None:
    return None


async def with_retries(
    attempt: Callable[[int], Awaitable[T]],
    retries: int,
    *,
    sleep: Sleep = asyncio.sleep,
    failed: Callable[[int, Exception, float], object] = _untold,
) -> T:
    """`attempt(n)` for n = 1 and, after errors, up to `retries` times more. Raises the last attempt's error.

    `failed` is told of each attempt that another one follows: its number, its error, and the seconds until the next.
    Waits a quarter of a second, then twice as long each time, at most ten seconds, or what the error's `retry_after` says.
    An error with `retryable = False` is final.
    """
    number = 1
    while True:
        try:
            return await attempt(number)
        except Exception as error:
            policy = RetryPolicy(max_attempts=retries + 1, base_delay=0.25, max_delay=10.0)
            decision = policy.decide(_names(error), number, retryable=_said(error, "retryable"), retry_after=_seconds(error))
            if not isinstance(decision, After):
                raise
            failed(number, error, decision.seconds)
        await sleep(decision.seconds)
        number += 1


def _names(error: Exception) -> frozenset[str]:
    try:
        return error_names(error)
    except Exception:  # noqa: BLE001 - `code` is an attribute of a stranger's class
        return frozenset((type(error).__name__,))


def _said(error: Exception, name: str) -> Any:
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - as above
        return None


def _seconds(error: Exception) -> float | None:
    """What `retry_after` says, where that is a number of seconds; anything else says nothing."""
    after = _said(error, "retry_after")
    try:
        seconds = None if after is None or isinstance(after, bool) else float(after)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if seconds is not None and isfinite(seconds) and seconds >= 0 else None

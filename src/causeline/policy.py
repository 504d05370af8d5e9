"""Pure decisions about trying again, and the clock everything else is given.

Nothing here waits, reads a clock or throws dice: a decision is a value, the jitter's
random number and the time are arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, Protocol, runtime_checkable

from causeline.errors import Invalid

Strategy = Literal["constant", "linear", "exponential", "decorrelated-jitter"]


@runtime_checkable
class Clock(Protocol):
    """Time as an argument. `now` is UTC wall time in seconds, `monotonic` seconds that never go back."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again."""


@dataclass(frozen=True, slots=True)
class After:
    """Try again after this many seconds."""

    seconds: float


Decision = GiveUp | After


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When and how soon to try again. Delays are in seconds; `max_attempts` counts the first try.

    `retry_on` and `abort_on` hold error class names or codes; `abort_on` wins. With neither, every
    error that does not say `retryable = False` is tried again.
    """

    max_attempts: int = 3
    strategy: Strategy = "exponential"
    base_delay: float = 1.0
    max_delay: float = 30.0
    max_wait: float | None = None
    multiplier: float = 2.0
    jitter_factor: float = 0.1
    retry_on: tuple[str, ...] = ()
    abort_on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 1:
            raise Invalid(f"max_attempts: expected a whole number from 1, got {self.max_attempts!r:.80}")
        for name in ("base_delay", "max_delay", "multiplier", "jitter_factor", *(("max_wait",) if self.max_wait is not None else ())):
            if type(getattr(self, name)) not in (int, float):
                raise Invalid(f"{name}: expected a number, got {getattr(self, name)!r:.80}")

    def decide(
        self,
        names: frozenset[str],
        attempt: int,
        *,
        retryable: bool | None = None,
        retry_after: float | None = None,
        previous: float = 0.0,
        random: Callable[[], float] = lambda: 0.5,
    ) -> Decision:
        """`attempt` is the number of tries already made (from 1); `names` are the error's class names and code.

        `random` returns [0, 1); the default gives the middle of the jitter. A `retry_after` from the other
        side is a lower bound of the wait, capped at `max_wait` (default: `max_delay`).
        """
        if attempt >= self.max_attempts or names & set(self.abort_on):
            return GiveUp()
        if self.retry_on:
            if not names & set(self.retry_on):
                return GiveUp()
        elif retryable is False:
            return GiveUp()
        delay = self.delay(attempt, previous=previous, random=random)
        longest = self.max_delay if self.max_wait is None else self.max_wait
        return After(min(max(delay, retry_after or 0.0), max(longest, delay)))

    def delay(self, attempt: int, *, previous: float = 0.0, random: Callable[[], float] = lambda: 0.5) -> float:
        """Seconds to wait after try number `attempt`. Decorrelated jitter is uniform between `base_delay` and
        three times the previous delay (AWS Architecture Blog, "Exponential Backoff And Jitter", 2015)."""
        if self.strategy == "decorrelated-jitter":
            top = 3 * (previous or self.base_delay)
            return min(self.max_delay, self.base_delay + random() * max(0.0, top - self.base_delay))
        grown = {"constant": 1.0, "linear": float(attempt)}.get(self.strategy)
        if grown is None:
            grown = self.multiplier ** min(attempt - 1, 64)
        jitter = 1.0 + self.jitter_factor * (2.0 * random() - 1.0)
        return min(self.max_delay, self.base_delay * grown * jitter)


def error_names(error: BaseException) -> frozenset[str]:
    """Class names along the error's ancestry and its `code`, the words `retry_on` may use."""
    names = {cls.__name__ for cls in type(error).__mro__ if cls not in (object, BaseException)}
    code = getattr(error, "code", None)
    return frozenset(names | {code} if isinstance(code, str) else names)


def iso(seconds: float) -> str:
    """UTC seconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    whole, milliseconds = divmod(int(seconds * 1000), 1000)
    return f"{_to_the_second(whole)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    """Many things happen in one second, and writing a date costs as much as all else about an event."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]

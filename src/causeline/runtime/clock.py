"""The real clock, and times as text."""

import asyncio
import time
from datetime import UTC, datetime
from functools import lru_cache


class SystemClock:
    """The machine's clock (see `causeline.policy.Clock`)."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def iso(seconds: float) -> str:
    """UTC seconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    return _iso(int(seconds * 1000))


@lru_cache(maxsize=64)
def _iso(milliseconds: int) -> str:
    """Many things happen in one millisecond, and writing a date costs as much as all else about an event."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")[:23] + "Z"

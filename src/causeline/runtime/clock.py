"""The real clock, and times as text."""

import asyncio
import time
from datetime import UTC, datetime


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
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:23] + "Z"

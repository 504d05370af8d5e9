"""Times as text, and the machine's clock, which the engine has already."""

from datetime import UTC, datetime
from functools import lru_cache

from causeline.graph.engine.control import SystemClock

__all__ = ["SystemClock", "iso"]


def iso(seconds: float) -> str:
    """UTC seconds as `YYYY-MM-DDTHH:MM:SS.mmmZ`."""
    return _iso(int(seconds * 1000))


@lru_cache(maxsize=64)
def _iso(milliseconds: int) -> str:
    """Many things happen in one millisecond, and writing a date costs as much as all else about an event."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")[:23] + "Z"

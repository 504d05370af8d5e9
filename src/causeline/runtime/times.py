"""Times as text, and the machine's clock: both are needed further down, and found there."""

from causeline.graph.engine.control import SystemClock
from causeline.policy import iso

__all__ = ["SystemClock", "iso"]

"""Laws and doubles for people who write backends and agents: what the protocols promise, as tests anybody can run."""

from importlib import import_module
from typing import Any

from causeline.testing.recorded import Recorded

__all__ = ["Recorded"]


def __getattr__(name: str) -> Any:
    """The parts that need pytest, or start processes, are loaded when somebody asks for them."""
    if name in ("faults", "killpoints", "laws"):
        return import_module(f"causeline.testing.{name}")
    raise AttributeError(f"module 'causeline.testing' has no attribute {name!r}")

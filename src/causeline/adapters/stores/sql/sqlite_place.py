"""The file of a SQLite store: how connections to it are made, and what its errors mean.

Law: a file that cannot be written can still be read. Nothing is made and nothing changed then, and every write is refused.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from causeline.adapters.stores.sql import schema_version
from causeline.errors import CauselineError, Conflict, Corrupt, Invalid, Unavailable

READ_ONLY = "read_only"
"""The code of the error that says that a place cannot be written."""


class SqlitePlace:
    """A file, and for how many seconds another process may hold it."""

    def __init__(self, path: Path, patience: float) -> None:
        self.path = path
        self.patience = patience
        self.applied: Sequence[str] = ()
        """The steps of the schema that connecting has brought."""

    def writer(self) -> sqlite3.Connection:
        """A connection that writes; makes the file and brings it up to date."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect(str(self.path), self.patience)
        try:
            self.applied = schema_version.prepare(connection, str(self.path), self.patience)
            self._try_to_write(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def reader(self) -> sqlite3.Connection:
        """A connection that reads, beside one that writes."""
        connection = self._connect(str(self.path), self.patience)
        connection.execute("PRAGMA query_only = ON")
        return connection

    def reader_alone(self) -> sqlite3.Connection:
        """A connection to a file that cannot be written. Raises Invalid for a file of another format."""
        try:
            connection = self._read_only("mode=ro")
        except sqlite3.OperationalError:
            log = self.path.with_name(self.path.name + "-wal")
            if log.exists() and log.stat().st_size:
                raise
            # Without a log there is nothing that could change under a reader, and so nothing to lock.
            connection = self._read_only("immutable=1")
        try:
            schema_version.check(connection, str(self.path))
        except BaseException:
            connection.close()
            raise
        return connection

    def _try_to_write(self, connection: sqlite3.Connection) -> None:
        """Raises the error of a file that nobody may write here, which SQLite otherwise finds out with the first write."""
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("PRAGMA user_version = 0")
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        connection.execute(f"PRAGMA busy_timeout = {int(self.patience * 1000)}")

    def _read_only(self, how: str) -> sqlite3.Connection:
        connection = sqlite3.connect(f"file:{quote(str(self.path))}?{how}", uri=True, timeout=self.patience, isolation_level=None)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    @staticmethod
    def _connect(path: str, patience: float) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=patience, isolation_level=None, cached_statements=256)
        connection.execute("PRAGMA cache_size = -8192")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        return connection

    def explain_opening(self, error: BaseException) -> BaseException:
        """As `explain`, while it is opened: then a place that cannot be written is the caller's to change."""
        return self._explained(error, opening=True)

    def explain(self, error: BaseException) -> BaseException:
        """An error of SQLite or of the file system in our words: whose fault it is, and what to do next."""
        return self._explained(error, opening=False)

    def _explained(self, error: BaseException, *, opening: bool) -> BaseException:
        if isinstance(error, OverflowError | UnicodeError):
            return Invalid(f"a value cannot be stored in {self.path}: {error}")
        if isinstance(error, OSError):
            return Invalid(f"{self.path} cannot be made: {error.strerror}; choose another place")
        if isinstance(error, TypeError | ValueError | LookupError | AttributeError):
            # Any column of a file may hold anything; what was encoded before it came here is right.
            damaged = Corrupt(f"{self.path}: what is stored cannot be read ({type(error).__name__}: {error}); restore the file from a copy")
            damaged.__cause__ = error
            return damaged
        if not isinstance(error, sqlite3.Error):
            return error
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in _REFUSED_PLACES:
            text = (
                f"{self.path} cannot be opened for writing ({error}); check the permissions of the file and of its folder, "
                "or choose another place"
            )
            return Invalid(text, code=READ_ONLY) if opening else Unavailable(text)
        kind, what = _MEANINGS.get(code, (Unavailable, "SQLite failed; nothing of this write was stored"))
        return kind(f"{self.path}: {what} ({error})")


_REFUSED_PLACES = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})
_BUSY = "another process has held the file for too long; try again, or end the program that holds it"
_MEANINGS: Mapping[int, tuple[type[CauselineError], str]] = {
    sqlite3.SQLITE_BUSY: (Unavailable, _BUSY),
    sqlite3.SQLITE_LOCKED: (Unavailable, _BUSY),
    sqlite3.SQLITE_FULL: (Unavailable, "the disk is full and nothing of this write was stored; make room and try again"),
    sqlite3.SQLITE_IOERR: (
        Unavailable,
        "reading or writing failed and nothing of this write was stored; check the disk and its free space",
    ),
    sqlite3.SQLITE_CORRUPT: (Corrupt, "the file is damaged; restore it from a copy, or save what is left with `sqlite3 FILE .recover`"),
    sqlite3.SQLITE_NOTADB: (Invalid, "this is no SQLite database; choose another file"),
    sqlite3.SQLITE_ERROR: (Corrupt, "the tables are not those its format number promises; restore the file from a copy"),
    sqlite3.SQLITE_TOOBIG: (Invalid, "a value is larger than SQLite can store"),
    sqlite3.SQLITE_CONSTRAINT: (Conflict, "the write contradicts rows that are there"),
}

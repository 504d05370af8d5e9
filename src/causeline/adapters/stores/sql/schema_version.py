"""Brings a SQLite file up to date, and refuses one that it must not touch.

Law: a step of the schema is applied in one transaction together with the number that says so. A file that
belongs to another program, or to a later causeline, is left as it is.
"""

import sqlite3
import time
from collections.abc import Sequence

from causeline.adapters.stores.sql.statements import FIRST_FORMAT, migrations, newest_format, too_new, too_old
from causeline.errors import Invalid

APPLICATION = int.from_bytes(b"csln", "big")
"""Says in the header of a file whose it is (PRAGMA application_id)."""
_PAUSE = 0.01
_HEADER = "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id, pragma_user_version"


def prepare(connection: sqlite3.Connection, place: str, patience: float) -> Sequence[str]:
    """Check whose file it is, switch it to write-ahead logging and apply what is missing; returns the names of those steps.

    Several processes may do this to a fresh file at once. Raises Invalid, and sqlite3.Error.
    """
    _check(connection, place)
    _log_ahead(connection, patience)
    connection.execute("PRAGMA synchronous = FULL")
    if _version(connection) == newest_format("sqlite"):
        return ()
    connection.execute("BEGIN IMMEDIATE")
    try:
        _check(connection, place)
        version = _version(connection)
        missing = [step for step in migrations("sqlite") if step.version > version]
        for step in missing:
            for statement in step.statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {step.version}")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return [f"{step.version:04} {step.name}" for step in missing]


def check(connection: sqlite3.Connection, place: str) -> None:
    """Check whose file it is, and that it can be read as it is. Raises Invalid."""
    _check(connection, place)
    version, newest = _version(connection), newest_format("sqlite")
    if version != newest:
        raise Invalid(
            f"{place} has format {version} and can only be read here; open it once where it can be written, to bring it to format {newest}",
            place=place, version=version,
        )  # fmt: skip


def _version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def _check(connection: sqlite3.Connection, place: str) -> None:
    # One statement, so that all three are of one moment: another process may be making the file right now.
    application, version, tables = connection.execute(_HEADER).fetchone()
    if application != APPLICATION:
        if application or version or tables:
            raise Invalid(f"{place} is a database of another program; choose another file", place=place)
        return
    newest = newest_format("sqlite")
    if version < FIRST_FORMAT:
        raise too_old(place, version)
    if version > newest:
        raise too_new(place, version, newest)


def _log_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """SQLite does not wait for a lock when it changes the journal's mode, so waiting is done here."""
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)

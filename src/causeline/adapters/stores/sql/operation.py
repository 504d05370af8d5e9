"""What a conversation with a database is: a generator that yields queries and is sent rows.

Law: it yields `(name of a query, its parameters)`; given `Many` parameters the query runs once for each and there are no rows. It
knows no driver. Whoever runs it does so in one transaction where it writes, and what it raises rolls that back.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Rows = Sequence[Sequence[Any]]
Query = tuple[str, Sequence[Any]]
Operation = Generator[Query, Rows, T]


class Many(list[Sequence[Any]]):
    """Parameters of one query for several runs of it."""


class Again(Exception):
    """Another transaction came in between; a second try sees what it did."""

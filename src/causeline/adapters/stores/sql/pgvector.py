"""Memories in PostgreSQL, whose vectors are compared by the extension pgvector where a database has it.

Law: what is found is the same with the extension and without; the bytes of a vector stay what counts. The extension is looked for when
the first vector is kept or asked for, and where it is missing and may not be made, that is told once in the log `causeline.memory`.
"""

import logging
from array import array
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from causeline.adapters.stores.sql import memory_operations
from causeline.adapters.stores.sql.memory_operations import SqlItems, columns
from causeline.adapters.stores.sql.operation import Operation
from causeline.errors import CauselineError
from causeline.memory.backend import Collection, Findings, Question
from causeline.memory.items import StoredItem

_LOG = logging.getLogger("causeline.memory")
BATCH = 500
"""Vectors that are written anew at once, where they were kept before the extension was there."""
Do = Callable[[Callable[[], Operation[Any]]], Awaitable[Any]]


class PgItems(SqlItems):
    """See `SqlItems`. One for each store."""

    def __init__(self, read: Do, write: Do) -> None:
        super().__init__(read, write)
        self._schema: str | None = None
        self._looked = False

    async def put(self, where: Collection, rows: Sequence[StoredItem]) -> None:
        place = await self._extension() if any(row.vector is not None for row in rows) else None
        await self._write(partial(_put, where, [columns(row) for row in rows], place))

    async def search(self, where: Collection, question: Question) -> Findings:
        place = await self._extension() if question.vector is not None and not question.filter else None
        return await self._read(partial(memory_operations.search, where, question, None if place is None else partial(_nearest, place)))

    async def _extension(self) -> str | None:
        """The schema of the extension; None where there is none."""
        if not self._looked:
            try:
                self._schema = await self._write(_enable)
                await self._fill()
            except CauselineError as error:
                self._schema = None
                _LOG.info("pgvector is not used, vectors are compared in Python: %s", error)
            self._looked = True
        return self._schema

    async def _fill(self) -> None:
        """Vectors that were kept without the extension, brought to it."""
        while self._schema is not None and await self._write(partial(_fill, self._schema)) == BATCH:
            pass


def _enable() -> Operation[str]:
    yield "vector_make", ()
    ((schema,),) = yield "vector_schema", ()
    quoted = '"' + schema.replace('"', '""') + '"'
    yield f"vector_table {quoted}.vector)", ()
    return quoted


def _fill(schema: str) -> Operation[int]:
    rows = yield "vector_missing", (BATCH,)
    for number, collection, vector in rows:
        yield from _add(schema, number, collection, vector)
    return len(rows)


def _put(where: Collection, rows: Sequence[Sequence[Any]], schema: str | None) -> Operation[None]:
    yield from memory_operations.put(where, rows, None if schema is None else partial(_add, schema))


def _add(schema: str, number: int, collection: int, vector: bytes) -> Operation[None]:
    yield f"vector_add ($3::TEXT)::{schema}.vector)", (number, collection, _text(vector))


def _nearest(schema: str, collection: int, place: Sequence[bytes], now: str, vector: bytes, most: int) -> Operation[list[int]]:
    """The numbers of the items whose vectors are the nearest, those of the same size only."""
    size = f"AND {schema}.vector_dims(v.embedding) = {len(vector) // 4}"
    near = f"ORDER BY v.embedding OPERATOR({schema}.<=>) ($5::TEXT)::{schema}.vector, v.no LIMIT $6"
    rows = yield f"vector_near {size} {near}", (collection, *place, now, _text(vector), most)
    return [number for (number,) in rows]


def _text(vector: bytes) -> str:
    numbers = array("f")
    numbers.frombytes(vector)
    return f"[{','.join(map(repr, numbers))}]"

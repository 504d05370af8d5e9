"""What answers SPARQL over statements: the protocol, and the words for what goes wrong.

Law: a query sees the statements that were added for its owner, and no others. One that takes too long is stopped, whatever it is doing;
what was added is gone then, and is added again by whoever asks next.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from causeline.errors import Exhausted


class QueryTooLong(Exhausted):
    """A query was stopped: it took too long, or its answer or its memory was too large."""

    code = "query_limit"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query came to. `variables` are those of a SELECT in their order, None for another form; `value` as `Runtime.query` has it."""

    variables: Sequence[str] | None
    value: Any


@dataclass(frozen=True, slots=True)
class Dataset:
    """Which graphs a query sees: `default` are its default graph together, `named` those it can name."""

    default: Sequence[str]
    named: Sequence[str] = ()


class QueryEngine(Protocol):
    """Holds statements by owner. `generation` changes whenever everything is gone."""

    @property
    def generation(self) -> int: ...

    def holds(self, owner: str) -> bool:
        """Whether what was added for an owner is still there."""
        ...

    async def add(self, owner: str, statements: str) -> None:
        """Add N-Quads."""
        ...

    async def remove(self, owner: str, graph: str) -> None:
        """Remove a graph."""
        ...

    async def query(self, owner: str, sparql: str, dataset: Dataset | None, timeout: float) -> Answer:
        """Answer over all of the owner's graphs, or some. Raises Invalid for a query that is not well formed, and QueryTooLong."""
        ...

    async def dump(self, owner: str, graph: str | None, format: str, timeout: float) -> str:
        """The statements as text."""
        ...

    async def close(self) -> None: ...

"""Gathers: what each producer leaves, how it is folded in source order, and by which port the gather goes on.

Law: pure, and linear in the number of records. A strategy is a fold. What it keeps of a finished item is picked when the item finishes,
so nothing else is held; a gather with one source folds while the items finish, in item order.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from causeline.graph.documents.document import Gather
from causeline.graph.engine.channels import Placing
from causeline.graph.engine.state_paths import MISSING, read

ERROR = "error"
GATHERED = "gatherResults"
"""Where the node of a `custom` gather reads its records."""


@dataclass(frozen=True, slots=True)
class Record:
    """One finished producer as a strategy sees it. `item` is the scatter item (for other producers: what the visit
    wrote), `state` the final state of the item's body (for other producers: the document's state after the visit), `result`
    the value of the declared result field, or MISSING."""

    source: str
    index: int
    item: Any
    port: str
    state: Mapping[str, Any]
    result: Any = MISSING


class GatherStrategy(Protocol):
    """A named fold. What `pick` and `add` return is stored with the position and must be plain JSON."""

    def pick(self, gather: Gather, record: Record) -> Any:
        """What to keep of a record; MISSING keeps nothing."""
        ...

    def start(self, gather: Gather) -> Any: ...

    def add(self, gather: Gather, total: Any, port: str, value: Any) -> Any:
        """Fold one kept value in; may change `total` and return it."""
        ...

    def finish(self, gather: Gather, total: Any) -> Mapping[str, Any]:
        """Path -> value to write. A list under a path is added to a list that is there, if the strategy `extends`."""
        ...

    @property
    def extends(self) -> bool: ...


def _value(gather: Gather, record: Record, fallback: Any) -> Any:
    if gather.field is not None:
        found = read(record.state, gather.field)
        if found is MISSING:
            return MISSING if record.port == ERROR else None
        return MISSING if record.port == ERROR else found
    return fallback if record.result is MISSING else record.result


class _Listing:
    """`append` and `collect`: one list at `target`."""

    extends = True

    def __init__(self, *, port: bool) -> None:
        self._port = port

    def pick(self, gather: Gather, record: Record) -> Any:
        return _value(gather, record, record.port if self._port else record.item)

    def start(self, gather: Gather) -> Any:
        return []

    def add(self, gather: Gather, total: Any, port: str, value: Any) -> Any:
        total.append(value)
        return total

    def finish(self, gather: Gather, total: Any) -> Mapping[str, Any]:
        return {gather.target or "": total}


class _Mapping:
    """`map`: per mapping, the list of the children's values, this time's only; None where a child has no such value."""

    extends = False

    def pick(self, gather: Gather, record: Record) -> Any:
        found = [read(record.state, path) for path in gather.mapping]
        return [None if value is MISSING else value for value in found]

    def start(self, gather: Gather) -> Any:
        return [[] for _ in gather.mapping]

    def add(self, gather: Gather, total: Any, port: str, value: Any) -> Any:
        for column, one in zip(total, value, strict=True):
            column.append(one)
        return total

    def finish(self, gather: Gather, total: Any) -> Mapping[str, Any]:
        return dict(zip(gather.mapping.values(), total, strict=True))


class _Partition:
    """`partition`: a list per output token that has a path; other tokens are left out."""

    extends = True

    def pick(self, gather: Gather, record: Record) -> Any:
        if record.port not in gather.partitions:
            return MISSING
        if gather.field is not None:
            found = read(record.state, gather.field)
            return None if found is MISSING else found
        return record.item if record.result is MISSING else record.result

    def start(self, gather: Gather) -> Any:
        return {port: list[Any]() for port in gather.partitions}

    def add(self, gather: Gather, total: Any, port: str, value: Any) -> Any:
        total[port].append(value)
        return total

    def finish(self, gather: Gather, total: Any) -> Mapping[str, Any]:
        joined: dict[str, list[Any]] = {}
        for port, path in gather.partitions.items():
            joined.setdefault(path, []).extend(total[port])
        return joined


class _Custom:
    """`custom`: every record, for the gather's own node."""

    extends = False

    def pick(self, gather: Gather, record: Record) -> Any:
        result = None if record.result is MISSING else record.result
        return {
            "source": record.source,
            "index": record.index,
            "item": record.item,
            "output": record.port,
            "terminalOutcome": "failed" if record.port == ERROR else "completed",
            "result": result,
        }

    def start(self, gather: Gather) -> Any:
        return []

    def add(self, gather: Gather, total: Any, port: str, value: Any) -> Any:
        total.append(value)
        return total

    def finish(self, gather: Gather, total: Any) -> Mapping[str, Any]:
        return {}


class _Discard:
    """`discard`: nothing is kept."""

    extends = False

    def pick(self, gather: Gather, record: Record) -> Any:
        return MISSING

    def start(self, gather: Gather) -> Any:
        return None

    def add(self, gather: Gather, total: Any, port: str, value: Any) -> Any:
        return total

    def finish(self, gather: Gather, total: Any) -> Mapping[str, Any]:
        return {}


STRATEGIES: Mapping[str, GatherStrategy] = {
    "map": _Mapping(),
    "append": _Listing(port=False),
    "collect": _Listing(port=True),
    "partition": _Partition(),
    "custom": _Custom(),
    "discard": _Discard(),
}

Arrival = dict[str, Any]
"""Plain: `{"count", "errors", "failure"?}` with either `fold` (the total) or `records` ([[port, value], ...] in item order)."""


def arrival_of(gather: Gather, strategy: GatherStrategy, records: Iterable[Record]) -> Arrival:
    """What whole records leave at a gather."""
    kept: list[list[Any]] = []
    count = errors = 0
    for record in records:
        if record.port == ERROR and not gather.include_errors:
            continue
        count += 1
        errors += record.port == ERROR
        value = strategy.pick(gather, record)
        if value is not MISSING:
            kept.append([record.port, value])
    return {"count": count, "errors": errors, "records": kept}


def total_of(gather: Gather, strategy: GatherStrategy, arrived: list[list[Any]]) -> Any:
    """Fold everything that arrived, sources in declared order."""
    if len(arrived) == 1 and "fold" in arrived[0][1]:
        return arrived[0][1]["fold"]
    total = strategy.start(gather)
    for _source, arrival in arrived:
        for port, value in arrival["records"]:
            total = strategy.add(gather, total, port, value)
    return total


def port_of(arrived: list[list[Any]]) -> str:
    """`empty` without records, `error` if one of them failed, else `success`."""
    if not any(arrival["count"] for _source, arrival in arrived):
        return "empty"
    return ERROR if any(arrival["errors"] for _source, arrival in arrived) else "success"


def failure_of(arrived: list[list[Any]]) -> Mapping[str, Any]:
    """What a gather that leaves by `error` writes to the channel of that name: why the first item failed, where that is known."""
    told = next((arrival["failure"] for _source, arrival in arrived if "failure" in arrival), None)
    return {} if told is None else {ERROR: told}


def placing_of(gather: Gather, strategy: GatherStrategy, total: Any) -> Placing:
    """What the gather writes: the paths and their values; where the strategy extends, a list is added to one that is there."""
    how = "append" if strategy.extends else "override"
    return [(path, how, value) for path, value in strategy.finish(gather, total).items()]

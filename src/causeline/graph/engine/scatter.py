"""Scatters: what is known of the items, and the port the scatter leaves by.

Law: pure. An item counts only when it has finished; whatever order items finish in, the result is that of source order;
memory follows the items in flight, plus what the gather keeps.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from causeline.graph.documents.document import Gather
from causeline.graph.engine.gather import ERROR, Arrival, GatherStrategy, Record
from causeline.graph.engine.position import ScatterState
from causeline.graph.engine.state_paths import MISSING, read

SUCCESS = "success"
EMPTY = "empty"

OutcomeReducer = Callable[[Mapping[str, int], str], str]
"""`(count by output token, token of the first item) -> port`; called with at least one item."""


def _aggregate(tally: Mapping[str, int], _first: str) -> str:
    good = tally.get(SUCCESS, 0)
    if not good:
        return "all-error"
    return "all-success" if good == sum(tally.values()) else "partial"


def _all_success(tally: Mapping[str, int], _first: str) -> str:
    return SUCCESS if tally.get(SUCCESS, 0) == sum(tally.values()) else ERROR


def _any_success(tally: Mapping[str, int], _first: str) -> str:
    return SUCCESS if tally.get(SUCCESS, 0) else ERROR


def _terminal(_tally: Mapping[str, int], first: str) -> str:
    return first


OUTCOMES: Mapping[str, OutcomeReducer] = {
    "aggregate": _aggregate,
    "all-success": _all_success,
    "any-success": _any_success,
    "terminal": _terminal,
}


@dataclass(frozen=True, slots=True)
class Feed:
    """A gather that counts this producer: its number, its strategy and the result field. `folds`: a scatter is that gather's only
    source, so its records are folded as the items finish."""

    number: int
    gather: Gather
    strategy: GatherStrategy
    result_field: str | None
    folds: bool


Kept = list[list[Any]]
"""What one item leaves for each feed: `[value]`, or `[]` for nothing."""


def pick(feeds: tuple[Feed, ...], source: str, index: int, item: Any, port: str, state: Mapping[str, Any]) -> Kept:
    """What each gather keeps of a finished item."""
    kept: Kept = []
    for feed in feeds:
        if port == ERROR and not feed.gather.include_errors:
            kept.append([])
            continue
        result = MISSING if feed.result_field is None else read(state, feed.result_field)
        value = feed.strategy.pick(feed.gather, Record(source, index, item, port, state, result))
        kept.append([] if value is MISSING else [value])
    return kept


@dataclass(slots=True)
class FinishedItem:
    """An item (or a batch: `index` is its first item, `items` all of them) that left by `port`, with what the gathers keep of it, why it
    failed, and the tries before the last: `[{n, code, wait}]`."""

    index: int
    items: tuple[int, ...]
    port: str
    kept: Kept
    failure: Mapping[str, Any] | None = None
    attempts: tuple[Mapping[str, Any], ...] = ()

    def to_writes(self) -> dict[str, Any]:
        """The `writes` of the Progress row about it."""
        found: dict[str, Any] = {"kept": self.kept}
        if len(self.items) > 1:
            found["items"] = list(self.items)
        if self.failure is not None:
            found["failure"] = self.failure
        if self.attempts:
            found["attempts"] = list(self.attempts)
        return found

    @classmethod
    def from_row(cls, index: int, port: str, writes: Mapping[str, Any]) -> "FinishedItem":
        """Read `to_writes` back."""
        items = tuple(writes.get("items", (index,)))
        return cls(index, items, port, writes["kept"], writes.get("failure"), tuple(writes.get("attempts", ())))


def take(scatter: ScatterState, feeds: tuple[Feed, ...], finished: FinishedItem) -> None:
    """An item has finished."""
    index, port = finished.index, finished.port
    scatter.tally[port] = scatter.tally.get(port, 0) + 1
    if scatter.first is None or index < scatter.first[0]:
        scatter.first = [index, port]
    if finished.failure is not None and (scatter.failure is None or index < scatter.failure[0]):
        scatter.failure = [index, finished.failure]
    if finished.attempts:
        scatter.retried += 1
    if finished.kept and any(finished.kept):
        scatter.ahead[index] = [port, finished.kept]
    mark = scatter.watermark
    for item in finished.items:  # a batch may hold items that waited in batches of their own
        _mark(scatter.done, item)
        if scatter.parked:
            scatter.parked.pop(item, None)
        if scatter.children:
            scatter.children.pop(item, None)
    if scatter.ahead:
        _release(scatter, feeds, mark)


def _release(scatter: ScatterState, feeds: tuple[Feed, ...], mark: int) -> None:
    """Fold, in order, what the watermark has passed since it stood at `mark`."""
    for index in range(mark, scatter.watermark):
        record = scatter.ahead.pop(index, None)
        if record is None:
            continue
        if scatter.kept is None:
            scatter.kept = [feed.strategy.start(feed.gather) if feed.folds else [] for feed in feeds]
        port, kept = record
        for number, held in enumerate(kept):
            if not held:
                continue
            feed = feeds[number]
            if feed.folds:
                scatter.kept[number] = feed.strategy.add(feed.gather, scatter.kept[number], port, held[0])
            else:
                scatter.kept[number].append([port, held[0]])


def _mark(done: list[list[int]], index: int) -> None:
    """Add one index to sorted disjoint ranges."""
    if done and done[0][1] == index:
        at = 0
    else:
        at = bisect_left(done, index, key=_end)
        if at == len(done) or done[at][1] != index:
            if at < len(done) and done[at][0] <= index:
                return
            if at < len(done) and done[at][0] == index + 1:
                done[at][0] = index
            else:
                done.insert(at, [index, index + 1])
            return
    done[at][1] = index + 1
    if at + 1 < len(done) and done[at + 1][0] == index + 1:
        done[at][1] = done.pop(at + 1)[1]


def _end(span: list[int]) -> int:
    return span[1]


def port_of(scatter: ScatterState, reducer: OutcomeReducer, routes: Mapping[str, Any]) -> str:
    """The port once every item has finished. No items at all is `empty` where that has a route, else vacuous success."""
    if scatter.first is not None:
        return reducer(scatter.tally, scatter.first[1])
    return EMPTY if EMPTY in routes else reducer({SUCCESS: 0}, SUCCESS)


def arrival_of(scatter: ScatterState, feeds: tuple[Feed, ...], gather: int) -> Arrival | None:
    """What the scatter leaves at gather number `gather`; None if that does not count it."""
    for number, feed in enumerate(feeds):
        if feed.number == gather:
            failed = scatter.tally.get(ERROR, 0)
            counted: Arrival = {"count": sum(scatter.tally.values()), "errors": failed}
            if not feed.gather.include_errors:
                counted = {"count": counted["count"] - failed, "errors": 0}
            elif scatter.failure is not None:
                counted["failure"] = scatter.failure[1]
            if feed.folds:
                return {**counted, "fold": feed.strategy.start(feed.gather) if scatter.kept is None else scatter.kept[number]}
            return {**counted, "records": [] if scatter.kept is None else scatter.kept[number]}
    return None

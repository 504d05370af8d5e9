"""Scatters: what is known of the items, and the port the scatter leaves by.

Law: pure. An item counts only when it has finished; whatever order items finish in, the result is that of source order;
memory follows the items in flight, plus what the gather keeps.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from causeline.graph.documents.document import Gather
from causeline.graph.engine.channels import MISSING, read
from causeline.graph.engine.gather import ERROR, Arrival, Record, Strategy
from causeline.graph.engine.position import Fan

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
    strategy: Strategy
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


def take(
    fan: Fan, feeds: tuple[Feed, ...], index: int, items: Iterable[int], port: str, kept: Kept, failure: Mapping[str, Any] | None = None
) -> None:
    """An item (or a batch: `index` is its first item, `items` all of them) has finished, with what the gathers keep of it and
    why it failed."""
    fan.tally[port] = fan.tally.get(port, 0) + 1
    if fan.first is None or index < fan.first[0]:
        fan.first = [index, port]
    if failure is not None and (fan.failure is None or index < fan.failure[0]):
        fan.failure = [index, failure]
    if kept and any(kept):
        fan.ahead[index] = [port, kept]
    mark = fan.watermark
    for one in items:  # a batch may hold items that waited in batches of their own
        _mark(fan.done, one)
        fan.parked.pop(one, None)
        fan.children.pop(one, None)
    if fan.ahead:
        _release(fan, feeds, mark)


def _release(fan: Fan, feeds: tuple[Feed, ...], mark: int) -> None:
    """Fold, in order, what the watermark has passed since it stood at `mark`."""
    for index in range(mark, fan.watermark):
        record = fan.ahead.pop(index, None)
        if record is None:
            continue
        if fan.kept is None:
            fan.kept = [feed.strategy.start(feed.gather) if feed.folds else [] for feed in feeds]
        port, kept = record
        for number, held in enumerate(kept):
            if not held:
                continue
            feed = feeds[number]
            if feed.folds:
                fan.kept[number] = feed.strategy.add(feed.gather, fan.kept[number], port, held[0])
            else:
                fan.kept[number].append([port, held[0]])


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


def port_of(fan: Fan, reducer: OutcomeReducer, routes: Mapping[str, Any]) -> str:
    """The port once every item has finished. No items at all is `empty` where that has a route, else vacuous success."""
    if fan.first is not None:
        return reducer(fan.tally, fan.first[1])
    return EMPTY if EMPTY in routes else reducer({SUCCESS: 0}, SUCCESS)


def arrival_of(fan: Fan, feeds: tuple[Feed, ...], gather: int) -> Arrival | None:
    """What the scatter leaves at gather number `gather`; None if that does not count it."""
    for number, feed in enumerate(feeds):
        if feed.number == gather:
            failed = fan.tally.get(ERROR, 0)
            counted: Arrival = {"count": sum(fan.tally.values()), "errors": failed}
            if not feed.gather.include_errors:
                counted = {"count": counted["count"] - failed, "errors": 0}
            elif fan.failure is not None:
                counted["failure"] = fan.failure[1]
            if feed.folds:
                return {**counted, "fold": feed.strategy.start(feed.gather) if fan.kept is None else fan.kept[number]}
            return {**counted, "records": [] if fan.kept is None else fan.kept[number]}
    return None

"""Where the time went: steps, model calls, parallel tool calls, waits for people and takeovers as rows with a place on one time axis.

Law: pure, and the work is the size of the stretch. A pause much longer than the work beside it is drawn shorter, and says how long it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from causeline.causal.payload import fields
from causeline.plain_text import one_line, shown
from causeline.runtime.records import Checkpoint, Link
from causeline.view_models.figures import all_tokens, moment

Kind = Literal["step", "model", "tool", "wait", "takeover"]
CallTimes = Mapping[tuple[str, str], tuple[float, float | None]]
_PAUSE, _CUT = 0.35, 0.06
"""A gap longer than this share of all work is drawn as that share of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A row of the waterfall. `start` and `ms` are true times (milliseconds), `left` and `width` its place on the axis, 0 to 1. `depth`
    nests calls under their step; `place` is the step's index in the branch. `attempts` are failed ones, each `{n, code, wait, model?}`."""

    kind: Kind
    label: str
    place: int
    checkpoint: str
    run: str
    start: float
    ms: float | None
    depth: int = 0
    tokens: int = 0
    cost: float | None = None
    attempts: Sequence[Mapping[str, Any]] = ()
    state: str = ""
    detail: str = ""
    left: float = 0.0
    width: float = 0.0


def call_times(events: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], tuple[float, float | None]]:
    """When each call was told and when its result was, by (run, call id), from a run's events."""
    times: dict[tuple[str, str], tuple[float, float | None]] = {}
    for event in events:
        if event["type"] == "tool_call_end":
            times[event["run_id"], event["tool_call_id"]] = (moment(event["ts"]), None)
        elif event["type"] == "tool_call_result":
            key = (event["run_id"], event["tool_call_id"])
            times[key] = (times[key][0] if key in times else moment(event["ts"]), moment(event["ts"]))
    return times


def waterfall(links: Sequence[Link], first: int = 0, times: CallTimes | None = None) -> list[Bar]:
    """The bars of these links; `first` is the place of the first one in its branch."""
    bars: list[Bar] = []
    for offset, link in enumerate(links):
        place, checkpoint = first + offset, link.checkpoint
        start, ms = _span(checkpoint)
        if checkpoint.facts.get("epoch"):
            bars.append(_bar("takeover", "taken over by another process", place, checkpoint, start, None))
        bars.append(_step(link, place, start, ms))
        bars.extend(_tools(link, place, start, ms, times or {}))
        if checkpoint.port == "parked":
            after = links[offset + 1].checkpoint if offset + 1 < len(links) else None
            ended = _span(after)[0] if after is not None else None
            wait = None if ended is None else max(ended - moment(checkpoint.created_at), 0.0)
            bars.append(_bar("wait", "waits for a person", place, checkpoint, moment(checkpoint.created_at), wait))
    return _placed(bars)


def _span(checkpoint: Checkpoint) -> tuple[float, float]:
    ms = float(checkpoint.facts.get("ms") or 0.0)
    return moment(checkpoint.created_at) - ms, ms


def _bar(kind: Kind, label: str, place: int, checkpoint: Checkpoint, start: float, ms: float | None, **more: Any) -> Bar:
    return Bar(kind=kind, label=label, place=place, checkpoint=checkpoint.id, run=checkpoint.run, start=start, ms=ms, **more)


def _step(link: Link, place: int, start: float, ms: float) -> Bar:
    checkpoint, facts = link.checkpoint, link.checkpoint.facts
    usage: Mapping[str, Any] = facts.get("usage") or {}
    spoke = any(node.kind == "inference" for node in link.nodes)
    model = one_line(str(facts.get("model") or ""))
    label = one_line(checkpoint.node).rpartition(":")[2]
    said = next((fields(node.payload).get("text") for node in link.nodes if node.kind == "inference"), None)
    return _bar(
        "model" if spoke else "step", label, place, checkpoint, start, ms,
        tokens=all_tokens(usage), cost=usage.get("cost"), attempts=facts.get("attempts") or (), state=checkpoint.port,
        detail=" · ".join(part for part in (model, shown(said or "", 80)) if part),
    )  # fmt: skip


def _tools(link: Link, place: int, start: float, ms: float, times: CallTimes) -> Iterable[Bar]:
    for node in link.nodes:
        if node.kind != "tool_result":
            continue
        held = fields(node.payload)
        begun, ended = times.get((link.checkpoint.run, str(held.get("call_id"))), (start, start + ms))
        yield _bar(
            "tool", one_line(str(held.get("tool"))), place, link.checkpoint, begun, max((ended or start + ms) - begun, 0.0),
            depth=1, state="ok" if held.get("ok") else "failed", detail=shown(held.get("result"), 80),
        )  # fmt: skip


def _placed(bars: list[Bar]) -> list[Bar]:
    """Bars with their places on an axis from 0 to 1."""
    ends = sorted((bar.start, bar.start + (bar.ms or 0.0)) for bar in bars if bar.kind not in ("wait", "takeover"))
    work = sum(end - start for start, end in ends) or 1.0
    stops: list[tuple[float, float]] = []  # (true time, time on the axis)
    shown_until = true_until = ends[0][0] if ends else 0.0
    for start, end in ends:
        gap = max(start - true_until, 0.0)
        shown_until += gap if gap <= work * _PAUSE else work * _CUT
        stops.append((max(start, true_until), shown_until))
        grown = max(end - max(start, true_until), 0.0)
        true_until, shown_until = max(true_until, end), shown_until + grown
        stops.append((true_until, shown_until))
    if not stops:
        return bars
    origin, span = stops[0][1], max(shown_until - stops[0][1], 1e-9)
    axis = _Axis(stops)
    placed: list[Bar] = []
    for bar in bars:
        left = axis.at(bar.start)
        right = axis.at(bar.start + bar.ms) if bar.ms is not None else left
        placed.append(replace(bar, left=_share(left - origin, span), width=_share(right - left, span)))
    return placed


def _share(part: float, whole: float) -> float:
    return min(max(part / whole, 0.0), 1.0)


class _Axis:
    """True times on the axis, between its stops."""

    def __init__(self, stops: Sequence[tuple[float, float]]) -> None:
        self._stops = stops

    def at(self, time: float) -> float:
        stops = self._stops
        low, high = 0, len(stops) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if stops[middle][0] < time else (low, middle)
        true, axis = stops[low]
        if time >= true or low == 0:
            return axis
        before, at = stops[low - 1]
        return at + (axis - at) * ((time - before) / ((true - before) or 1.0))

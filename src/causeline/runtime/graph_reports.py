"""What a recorder reports of a graph at work: how far its scatters are, what was tried again, and what its run began with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeline.causal import Append
from causeline.events import RunEvent
from causeline.graph import Channels, Progress, Reducer
from causeline.models.messages import Message
from causeline.policy import Clock

EVERY = 0.1
"""Seconds between two words on how far a scatter is."""


class GraphReports:
    """Reports of one run in this process, told by `emit`."""

    def __init__(self, clock: Clock, emit: Callable[[RunEvent], None]) -> None:
        self._clock = clock
        self._emit = emit
        self._told_at = float("-inf")
        self._attempts: list[Mapping[str, Any]] = []

    def progress(self, row: Progress) -> None:
        """An item has finished: how far its scatter is, from time to time, and always when it is done."""
        self._attempts.extend({**attempt, "path": list(row.path)} for attempt in row.writes.get("attempts", ()))
        tally, now = row.tally, self._clock.monotonic()
        if tally is None or (now < self._told_at + EVERY and tally.done != tally.total):
            return
        self._told_at = now
        total = {} if tally.total is None else {"total": tally.total}
        counts = {"done": tally.done, "failed": tally.failed, "retried": tally.retried, **total}
        self._emit(RunEvent(type="item_finished", placement=row.node, index=row.index, **counts))

    def attempts(self, step: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The tries before the last of a step and of the items in it, once."""
        found, self._attempts = [*step, *self._attempts], []
        return found


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Channels a run begins with, which its first step puts on record, and how further changes of them combine."""

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    reducers: Mapping[str, Reducer] = field(default_factory=dict[str, Reducer])

    def under(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        """The first step's changes on top of what the run begins with."""
        begun = Channels(self.values, self.reducers)
        begun.replay({channel: change for channel, change in delta.items() if channel in self.values})
        return {**delta, **{channel: {"op": "override", "value": begun.values[channel]} for channel in self.values}}

    def heard(self, said: Sequence[Message], appends: Sequence[Append]) -> Sequence[Append]:
        """What the first step adds to the log: also what users said, where its node does not add that itself."""
        if not self.values or any(append.kind == "goal" for append in appends):
            return appends
        spoken = [message for message in said if message.role == "user"]
        return [
            *(Append("goal", {"text": one.text} if isinstance(one.content, str) else {"parts": list(one.content)}) for one in spoken),
            *appends,
        ]

"""Events as followers get them: with whose they are, and whole where they are stored as a reference.

Law: what is read costs what is told of it. Events of runs below a run are read where those runs have stored them, many at once.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

from causeline.errors import Missing
from causeline.events import Event
from causeline.models.messages import Message
from causeline.runtime.feed import Feed
from causeline.runtime.records import Run

AHEAD = 256
"""So many events of a run below are read at once."""


class WholeEvents:
    """Makes the stored events of one owner's runs whole, for one follower. `row` gives a run, `messages` what was said in its session."""

    def __init__(
        self,
        feed: Feed,
        owner: str,
        row: Callable[[str], Awaitable[Run]],
        messages: Callable[[str, str | None], Awaitable[Sequence[Message]]],
        *,
        sub_runs: bool = True,
    ) -> None:
        self._feed = feed
        self._owner = owner
        self._row = row
        self._messages = messages
        self._sub_runs = sub_runs
        self._runs: dict[str, Run] = {}
        self._ahead: dict[str, Mapping[int, Mapping[str, Any]]] = {}

    async def batch(self, run: Run, events: Sequence[Mapping[str, Any]]) -> list[Event]:
        """These stored events of a run as they are told; without those of the runs below where they are not wanted."""
        whole = [await self._whole(run, event) for event in events if self._sub_runs or event["type"] != "sub_run_event"]
        return [event for event in whole if event is not None]

    async def _whole(self, run: Run, event: Mapping[str, Any]) -> Event | None:
        if event["type"] == "sub_run_event":
            return await self._of_below(run, event)
        told = {"run_id": run.id, "session_id": run.session, **event}
        if event["type"] == "messages_snapshot":
            told["messages"] = [message.to_json() for message in await self._messages(run.session, (await self._row(run.id)).head)]
        return cast("Event", told)

    async def _of_below(self, run: Run, reference: Mapping[str, Any]) -> Event | None:
        """An event of a run below; None if that run has been deleted."""
        name, number = reference["run_id"], reference["number"]
        try:
            if name not in self._runs:
                self._runs[name] = await self._row(name)
            if number not in self._ahead.get(name, {}):
                read = await self._feed.read(self._owner, name, number - 1, AHEAD)
                self._ahead[name] = {event["seq"]: event for event in read}
        except Missing:
            return None
        stored = self._ahead[name].get(number)
        inner = await self._whole(self._runs[name], stored) if stored is not None else None
        if inner is None:
            return None
        told = {key: value for key, value in reference.items() if key != "number"}
        return cast("Event", {**told, "session_id": run.session, "event": inner})

"""What a run would give to nodes, where a Dispatcher runs them without a runtime: a scope, and a ledger that lasts one visit.

Law: nothing here is durable, and nothing outlives the visit it was made for.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from causeline.run.ledger import Call
from causeline.run.scope import RunScope


def bare_scope(messages: int) -> RunScope:
    """A scope for one visit in a conversation of so many messages, so that ids made in a later turn are other ones."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return RunScope(run_id=f"bare-{messages}", session_id="", owner="", started_at=now)


class VisitLedger:
    """The rows of one visit."""

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        self._calls = {call.call_id: call for call in calls}

    def open_calls(self) -> Sequence[Call]:
        """The rows in call order."""
        return sorted(self._calls.values(), key=lambda call: call.index)

    def begin(self, calls: Sequence[Call]) -> None:
        """They may: a visit whose results nobody keeps goes on to its end."""

    async def move(self, calls: Sequence[Call]) -> None:
        """Keep these rows."""
        self._calls.update((call.call_id, call) for call in calls)

    async def finish(self, call: Call) -> None:
        """Keep a result."""
        self._calls[call.call_id] = call

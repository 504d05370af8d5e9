"""A run as its caller holds it: follow it, wait for it, read how it ended."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, cast

from causeline.errors import Refused
from causeline.events import Event
from causeline.models.messages import Message
from causeline.runtime.records import CallRow, Interrupt, RunStatus
from causeline.shapes import choice, either, maybe, whole

After = int | Literal["now"] | None
"""Which events: those above a number, those that come after this moment, or (None) all from the first."""
AFTER = maybe(either("a number of events from 0, or 'now'", whole(0), choice("now")))
"""The rule for one."""


class Spent(dict[str, Any]):
    """What was used up: tokens and US dollars, by key or by name (`usage["cost"]`, `usage.cost`)."""

    def __getattr__(self, name: str) -> Any:
        if name == "own" and name not in self:
            return self  # no runs below have used anything
        try:
            value = self[name]
        except KeyError:
            raise AttributeError(f"usage has no {name!r}; it has {', '.join(self)}") from None
        return Spent(cast("dict[str, Any]", value)) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a run ended. `answer` is text, or the JSON value where the agent has a response format; `output` is the answer
    as the agent's output type. `usage` is tokens and cost, with those of the runs below it (`own` without, where there are such);
    `usage_total` that of the whole chain of runs that answer each other's questions. `error` `{code, message}` of a failed run.
    `interrupts` are the questions of an interrupted run that are still open, those of runs below it too; `answered_by` is the run that
    goes on from it, where one has answered some. `left_started` are calls that had begun when the run was stopped or failed, and whose
    outcome nobody knows."""

    run_id: str
    session: str
    status: RunStatus
    stop_reason: str | None
    answer: Any = None
    output: Any = None
    interrupts: Sequence[Interrupt] = ()
    pending_tool_call_ids: Sequence[str] = ()
    usage: Spent | Any = None
    usage_total: Spent | Any = None
    head: str | None = None
    error: Mapping[str, Any] | None = None
    answered_by: str | None = None
    state: Any = field(default_factory=dict[str, Any])
    messages: Sequence[Message] = ()
    left_started: Sequence[CallRow] = ()

    def __post_init__(self) -> None:
        for name in ("usage", "usage_total"):
            if isinstance(getattr(self, name), Mapping):
                object.__setattr__(self, name, Spent(getattr(self, name)))

    @property
    def ok(self) -> bool:
        """Whether the run succeeded; one that waits for a person has not."""
        return self.status == "succeeded"

    def raise_if_failed(self) -> Self:
        """This result, unless the run failed or was cancelled. Raises RunFailed, which says why."""
        if self.status not in ("failed", "cancelled"):
            return self
        error = self.error or {}
        told = error.get("message") or self.stop_reason or self.status
        raise RunFailed(
            f"run {self.run_id} {'was cancelled' if self.status == 'cancelled' else f'failed: {told}'}",
            run=self.run_id,
            status=self.status,
            stop_reason=self.stop_reason,
            error=dict(error) or None,
        )


class RunFailed(Refused):
    """A run has ended as failed or cancelled. `facts` are `run`, `status`, `stop_reason` and `error`."""

    code = "run_failed"


class Runs(Protocol):
    """What a handle asks of the runtime it came from."""

    def events(self, run_id: str, after: After = None, *, sub_runs: bool = True) -> AsyncIterator[Event]: ...

    async def result(self, run_id: str) -> RunResult: ...

    async def cancel(self, run_id: str) -> None: ...


async def end_of_chain(runs: Runs, run_id: str) -> RunResult:
    """The result of a run, or where its questions are answered of the run that answers them, and so on."""
    result = await runs.result(run_id)
    while result.answered_by is not None:
        result = await runs.result(result.answered_by)
    return result


class RunHandle:
    """A started run. It goes on whether or not somebody holds this."""

    def __init__(self, runtime: Runs, run_id: str, session: str) -> None:
        self._runtime = runtime
        self.id = run_id
        self.run_id = run_id
        self.session = session

    def events(self, after: After = None, *, sub_runs: bool = True) -> AsyncIterator[Event]:
        """Events numbered above `after` (None: from the first; "now": after this moment), live until the run's last one, or from the
        store later. With `sub_runs` False without those of the runs below it."""
        return self._runtime.events(self.id, after, sub_runs=sub_runs)

    async def result(self) -> RunResult:
        """Wait for the end."""
        return await self._runtime.result(self.id)

    async def final(self) -> RunResult:
        """Wait for the end of the chain of answers that begins with this run."""
        return await end_of_chain(self._runtime, self.id)

    async def cancel(self) -> None:
        """Ask the run to stop; what finished is kept."""
        await self._runtime.cancel(self.id)

    def __repr__(self) -> str:
        return f"<run {self.id} in session {self.session}>"

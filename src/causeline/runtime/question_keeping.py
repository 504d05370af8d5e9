"""The questions of one run that stand open, and the pauses that hold them, from step to step.

Law: a step moves the questions of other branches to its own checkpoint, so that all that is open stands at the head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from causeline.events import RunEvent
from causeline.graph import Step
from causeline.run.scope import RunScope
from causeline.runtime.interrupts import interrupts_of, waiting_calls
from causeline.runtime.records import Checkpoint, Interrupt, Run
from causeline.runtime.starting_point import StartingPoint
from causeline.runtime.store import Store


class OpenQuestions:
    """`pauses` maps the key of each pause to the calls that wait for it, `opened` the id of each question to its row."""

    def __init__(self, run: Run, scope: RunScope, start: StartingPoint) -> None:
        self._run = run
        self._scope = scope
        self._known = start.known
        self._entered = start.entered
        self.pauses: Mapping[str, Sequence[str]] = start.pauses
        self.opened: Mapping[str, Interrupt] = dict(start.opened)

    def pause(self, step: Step) -> None:
        """Keep what a step waits for; the pauses of other branches stay."""
        ended = {key for key in self.pauses if key.split("/")[0].split("@")[0] == step.node}
        if len(ended) > 1 and any("@" in key.split("/")[0] for key in ended):  # several branches stand at this placement
            ended &= {*self._entered, *(pause.key for pause in step.pauses)}
        self.pauses = {
            **{key: calls for key, calls in self.pauses.items() if key not in ended},
            **{pause.key: waiting_calls(pause) for pause in step.pauses},
        }

    def ask(self, step: Step, checkpoint: Checkpoint) -> Sequence[Interrupt]:
        """Keep what stands open at the checkpoint of a step, and return the questions that the step itself asks."""
        asked = interrupts_of(step, checkpoint, self._run, self._scope.path, {**self._known, **self.opened})
        held = {call for calls in self.pauses.values() for call in calls}
        moved = [
            replace(interrupt, run=interrupt.run if interrupt.parent_call else self._run.id, checkpoint=checkpoint.id)
            for interrupt in self.opened.values()
            if interrupt.waiting_call in held
        ]
        self.opened = {interrupt.id: interrupt for interrupt in (*moved, *asked)}
        return asked


async def told_void(store: Store, run: Run, head: Checkpoint | None) -> Sequence[RunEvent]:
    """The events that tell of questions which a run made void by what the user said."""
    if head is None or head.id != run.base or not head.facts.get("pauses"):
        return ()
    rows = await store.rows(Interrupt, owner=run.owner, session=run.session, status=("superseded",))
    return [_told("interrupt_superseded", row) for row in rows if row.checkpoint == head.id]


def interrupt_opened(interrupt: Interrupt) -> RunEvent:
    """The event that tells of a question."""
    more = {"arguments": interrupt.arguments, "reason": interrupt.reason, "run": interrupt.run, "path": list(interrupt.path)}
    return _told("interrupt_opened", interrupt, **more)


def _told(event: str, interrupt: Interrupt, **more: Any) -> RunEvent:
    return RunEvent(
        type=event,
        interrupt_id=interrupt.id,
        kind=interrupt.kind,
        tool_call_id=interrupt.tool_call_id,
        name=interrupt.name,
        question=interrupt.question,
        **more,
    )

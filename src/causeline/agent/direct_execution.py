"""An agent's document walked by itself, without a runtime: for scripts, for graphs that read another graph's steps, for tests.

Law: the same nodes write the same log; nothing is durable, and nothing is left when the walk is over but what its result holds.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from time import time
from typing import Any, Protocol, cast

from causeline.agent.own_graph.bare_run import VisitLedger
from causeline.agent.react.conversation import Conversation
from causeline.causal import AgentState, apply
from causeline.errors import Invalid, Misuse
from causeline.graph import Dispatcher, Document, Execution, Limits, Node, Progress, Reducer, Step
from causeline.models.messages import Message
from causeline.run.ledger import Call, Ledger
from causeline.run.scope import Notes, Recall, Recalled, RunScope
from causeline.tools.toolbox import Toolbox

_LOGGER = logging.getLogger("causeline.memory")


class DirectLedger(VisitLedger):
    """The rows of the latest reply that asked for tools."""

    def adopt(self, calls: Sequence[Call]) -> None:
        """Rows as a step writes them; those of a new reply take the place of the older ones."""
        known = {call.call_id for call in self.open_calls()}
        if not known.issuperset(call.call_id for call in calls):
            self._calls.clear()
        self._calls.update((call.call_id, call) for call in calls)


class GivenHint:
    """Recalls what the caller has put down."""

    def __init__(self, text: str) -> None:
        self._text = text

    async def recall(self, scope: RunScope, wanted: Mapping[str, Any], query: str) -> Recalled:
        return Recalled(self._text)


class Walkable(Protocol):
    """What of an agent is needed to walk it; see `causeline.runtime.program`."""

    @property
    def document(self) -> Document: ...
    @property
    def documents(self) -> Sequence[Document]: ...
    @property
    def nodes(self) -> Sequence[Node]: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def toolbox(self) -> Toolbox: ...
    def services(self, scope: RunScope) -> Mapping[type, object]: ...


def walk(agent: Walkable, prompt: str | Sequence[Message], state: AgentState | None, hint: str) -> Execution:
    """The execution of an agent's document. Its result's channel `log` is the AgentState; the given one stays as it is."""
    if not agent.toolbox.settled:
        raise Misuse("this agent has toolsets, which a run opens and closes; start it on a runtime, or with agent.run")
    if not isinstance(cast("object", prompt), str | list | tuple):
        raise Invalid(f"a prompt is text or a list of messages, not {type(prompt).__name__}", findings=["prompt"])
    messages = [Message("user", prompt)] if isinstance(prompt, str) else list(prompt)
    scope = RunScope(run_id=f"run_{secrets.token_hex(12)}", session_id="", owner="default", started_at=_now(), input=messages)
    services = agent.services(scope)
    talk = services[Conversation]
    assert isinstance(talk, Conversation)
    talk.options = replace(talk.options, recall={"runs": [], "k": 1} if hint else None)
    log = AgentState() if state is None else AgentState.restore(state.nodes, state.frontier)
    ledger = DirectLedger()

    def kept(_old: Any, calls: Sequence[Call]) -> Sequence[Call]:
        ledger.adopt(calls)
        return calls

    dispatcher = Dispatcher(limits=agent.limits)
    reducers = {"log": Reducer("log", _written_by_journal, stored=False), "calls": Reducer("calls", kept, stored=False)}
    dispatcher.register_all([agent.document, *agent.documents], agent.nodes, reducers=reducers)
    given: dict[type, object] = {RunScope: scope, Ledger: ledger, Recall: GivenHint(hint), **services}
    journal = DirectJournal(log, services.get(Notes))
    return dispatcher.execute(agent.document.id, {"log": log}, services=given, journal=journal)


class DirectJournal:
    """Writes each step into the log, and what the step noted into long-term memory. A memory that fails costs the note, not the walk."""

    def __init__(self, log: AgentState, notes: object) -> None:
        self._log = log
        self._notes = notes if isinstance(notes, Notes) else None

    async def step(self, step: Step) -> None:
        """One visit has ended."""
        nodes = apply(self._log, step.writes.get("log") or (), _now())
        if self._notes is None or not any(node.kind == "semantic" for node in nodes):
            return
        try:
            await self._notes.put(nodes, step.index, time())
        except Exception as error:  # noqa: BLE001 - whatever a memory does wrong, the walk goes on
            _LOGGER.warning("a note was not kept in long-term memory: %s", error)

    async def progress(self, item: Progress) -> None:
        """Nothing of a step is kept before its end."""


def _written_by_journal(log: AgentState, _appends: Any) -> AgentState:
    return log


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

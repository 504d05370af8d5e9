"""What a run finds when a process begins to drive it: all a recorder has to know, gathered before it is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeline.causal import AgentState
from causeline.run.ledger import Call
from causeline.runtime.branch_history import no_usage
from causeline.runtime.event_buffer import ToldSoFar
from causeline.runtime.graph_reports import RunInputs
from causeline.runtime.records import Interrupt


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """What a run finds when this process begins to drive it.

    `state` is the log at `head`, `session_head` what its first commit expects to find. `calls` are ledger rows that are stored under this
    run, `carried` such as are written under it with its next commit. `known` are questions that keep their id when they are asked again,
    `opened` those that this run holds open; `pauses` are the questions of its checkpoint by the key of the pause, and `entered` the keys
    that are answered. `wait` is what a process before this one was waiting for, `took_context` the session's next context and `inputs`
    the channels that its first step puts on record.
    """

    state: AgentState
    head: str | None = None
    session_head: str | None = None
    usage: Mapping[str, Any] = field(default_factory=no_usage)
    told: ToldSoFar = field(default_factory=ToldSoFar)
    calls: Sequence[Call] = ()
    carried: Sequence[Call] = ()
    known: Mapping[str, Interrupt] = field(default_factory=dict[str, Interrupt])
    opened: Mapping[str, Interrupt] = field(default_factory=dict[str, Interrupt])
    pauses: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    entered: frozenset[str] = frozenset()
    wait: Mapping[str, Any] | None = None
    took_context: Mapping[str, Any] | None = None
    inputs: RunInputs = field(default_factory=RunInputs)

"""A branch read back: log, channels, calls and messages, from its checkpoints alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from causeline.causal import AgentState, CausalNode
from causeline.graph import Channels, Reducer, is_whole
from causeline.models.messages import Message
from causeline.models.transcript import Transcript
from causeline.run.scope import SAID_AS, message_id, result_message_id
from causeline.runtime.records import Checkpoint, Link

LOG = "log"
CALLS = "calls"
CONTEXT = "context"
RESULT = "result"
"""`log` and `calls` are stored as nodes and ledger rows, not in a checkpoint's delta."""


class Branch:
    """Everything that is true at one checkpoint, `head` (None before the first). `memo` is for what others derive from it and would
    have to derive anew."""

    def __init__(self, reducers: Mapping[str, Reducer] | None = None) -> None:
        self.head: Checkpoint | None = None
        self.state = AgentState()
        self.transcript = Transcript()
        self.document: str | None = None
        self.memo: dict[str, Any] = {}
        self._channels = Channels(reducers=reducers or {})
        self._asked_in: dict[str, str] = {}
        self._whole_position: Any = None
        self._whole_channels: dict[str, Any] | None = None
        self._steps: list[dict[str, Any]] = []

    @classmethod
    def read(cls, links: Sequence[Link], reducers: Mapping[str, Reducer] | None = None) -> "Branch":
        """Fold a branch from its root. Raises Corrupt where rows do not fit together."""
        branch = cls(reducers)
        heads = list(links[-1].checkpoint.frontier) if links else []
        branch.grow(AgentState.restore([node for link in links for node in link.nodes], heads), links)
        return branch

    def grow(self, state: AgentState, links: Sequence[Link]) -> None:
        """Go on to the last of these further checkpoints; `state` is the log there."""
        self.state = state
        for link in links:
            delta, position = dict(link.checkpoint.delta), link.checkpoint.position
            if link.checkpoint.step == 0:
                self.document = delta.pop("document", self.document)
                self._channels.values.pop(RESULT, None)
                self._steps = [
                    {**step, "delta": {key: change for key, change in step["delta"].items() if key != RESULT}} for step in self._steps
                ]
            if is_whole(position):
                self._whole_position, self._whole_channels, self._steps = position, None, []
            else:
                values = self._channels.values
                self._whole_channels = self._whole_channels or {channel: self._channels.lend(channel) for channel in values}
                self._steps.append({"position": position, "delta": delta})
            self._channels.replay(delta)
            for node, name in numbered(link, self._asked_in):
                self.transcript.add(node, name)
            self.head = link.checkpoint

    @property
    def channels(self) -> dict[str, Any]:
        """The values of all channels, the log among them."""
        return {**self._channels.values, LOG: self.state}

    @property
    def stands(self) -> Mapping[str, Any]:
        """Where the graph stands, as `Dispatcher.resume` takes it: the last whole position with the channels there, and the steps
        after it."""
        channels = self.channels if self._whole_channels is None else self._whole_channels
        return {"position": self._whole_position, "channels": channels, "steps": list(self._steps), "document": self.document}

    def messages(self) -> Sequence[Message]:
        """What was said on this branch, oldest first."""
        return self.transcript.messages

    def asked_in(self) -> dict[str, str]:
        """Which run asked for each open call."""
        return {call: self._asked_in[call] for call in self.transcript.open if call in self._asked_in}

    def asked_by(self) -> dict[str, str]:
        """The id of the message that asks for each open call."""
        found: dict[str, str] = {}
        for message in reversed(self.transcript.messages):
            if len(found) == len(self.transcript.open):
                break
            found.update((call.id, message.id) for call in message.tool_calls if call.id in self.transcript.open)
        return found


def numbered(link: Link, asked_in: dict[str, str]) -> Iterator[tuple[CausalNode, str]]:
    """Every node of a checkpoint with the id of the message it becomes, or "" where it becomes none. Fills in which run asked for
    a call."""
    index, run = 0, link.checkpoint.run
    for node in link.nodes:
        if node.kind == "tool_call":
            asked_in[node.payload["call_id"]] = run
        elif node.kind == "tool_result":
            call_id = node.payload["call_id"]
            yield node, result_message_id(asked_in.get(call_id, run), call_id)
            continue
        if node.kind not in ("goal", "inference"):
            yield node, ""
            continue
        attempt = _attempt(link.checkpoint.facts, index) if node.kind == "inference" else 0
        yield node, _said_as(link.checkpoint.facts, index) or message_id(run, link.checkpoint.step, index, attempt)
        index += 1


def _said_as(facts: Mapping[str, Any], index: int) -> str:
    """The id under which message `index` of a step was told of, where that does not follow from the step; "" where it does."""
    return cast("Mapping[str, str]", facts.get(SAID_AS) or {}).get(str(index), "")


def _attempt(facts: Mapping[str, Any], index: int) -> int:
    """How often the reply that became message `index` of a step was begun anew."""
    attempt: Any = facts.get("attempt", 0)
    return int(cast("dict[str, int]", attempt).get(str(index), 0) if isinstance(attempt, dict) else attempt)


def context_at(links: Sequence[Link], checkpoint: str | None) -> Mapping[str, Any]:
    """The context object at one checkpoint of a branch, {} before the first."""
    context: Mapping[str, Any] = {}
    for link in links if checkpoint is not None else ():
        change = link.checkpoint.delta.get(CONTEXT)
        if change is not None:
            context = change["value"]
        if link.checkpoint.id == checkpoint:
            break
    return context


def usage_of(links: Sequence[Link], run: str) -> Mapping[str, Any]:
    """Tokens and cost of one run, summed over its steps, with those of the runs below it."""
    total = no_usage()
    for link in links:
        if link.checkpoint.run == run:
            count_step(total, link.checkpoint.facts)
    return total


def no_usage() -> dict[str, Any]:
    """What a run has used that has used nothing."""
    return {"input_tokens": 0, "output_tokens": 0, "cost": None}


def count_step(total: dict[str, Any], facts: Mapping[str, Any]) -> None:
    """Add what a step used, and what the runs below it did. Where there are such, `own` is the sum without them."""
    if facts.get("sub_runs"):
        total.setdefault("own", {key: value for key, value in total.items() if key != "own"})
    add_usage(total, facts.get("usage") or {})
    if "own" in total:
        add_usage(total["own"], facts.get("usage") or {})
    for below in facts.get("sub_runs") or ():
        add_usage(total, below["usage"])


def add_usage(total: dict[str, Any], used: Mapping[str, Any]) -> None:
    """Add one reply's usage to a sum."""
    for key, value in used.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            total[key] = (total.get(key) or 0) + value

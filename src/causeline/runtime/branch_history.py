"""A branch read back: log, channels, calls and messages, from its checkpoints alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from causeline.causal import AgentState, CausalNode
from causeline.graph import Channels, Reducer, is_whole
from causeline.models.messages import Message
from causeline.models.transcript import Transcript
from causeline.run.scope import message_id, result_message_id
from causeline.runtime.records import Checkpoint, Link

LOG = "log"
CALLS = "calls"
CONTEXT = "context"
RESULT = "result"
"""`log` and `calls` are stored as nodes and ledger rows, not in a checkpoint's delta."""


@dataclass(slots=True)
class Branch:
    """Everything that is true at one checkpoint."""

    head: Checkpoint | None
    state: AgentState
    channels: dict[str, Any]
    transcript: Transcript
    document: str | None
    asked_in: dict[str, str]
    """Which run asked for each open call."""
    stands: Mapping[str, Any]
    """Where the graph stands, as `Dispatcher.resume` takes it: the last whole position with the channels there, and the steps after it."""

    @classmethod
    def read(cls, links: Sequence[Link], reducers: Mapping[str, Reducer] | None = None) -> "Branch":
        """Fold a branch from its root. Raises Corrupt where rows do not fit together."""
        nodes = [node for link in links for node in link.nodes]
        head = links[-1].checkpoint if links else None
        state = AgentState.restore(nodes, list(head.frontier) if head else [])
        channels = Channels(reducers=reducers or {})
        document: str | None = None
        whole: dict[str, Any] | None = None
        steps: list[dict[str, Any]] = []
        for link in links:
            delta, position = dict(link.checkpoint.delta), link.checkpoint.position
            if link.checkpoint.step == 0:
                document = delta.pop("document", document)
                channels.values.pop(RESULT, None)
                steps = [{**step, "delta": {key: change for key, change in step["delta"].items() if key != RESULT}} for step in steps]
            if is_whole(position):
                whole, steps = None, []
            else:
                whole = whole or {channel: channels.lend(channel) for channel in channels.values}
                steps.append({"position": position, "delta": delta})
            channels.replay(delta)
        transcript, asked_in = Transcript(), dict[str, str]()
        for node, name in numbered(links, asked_in):
            transcript.add(node, name)
        values = channels.values
        values[LOG] = state
        told_whole: Any = next((link.checkpoint.position for link in reversed(links) if is_whole(link.checkpoint.position)), None)
        stands = {"position": told_whole, "channels": values if whole is None else whole, "steps": steps, "document": document}
        asked = {call: asked_in[call] for call in transcript.open if call in asked_in}
        return cls(head, state, values, transcript, document, asked, stands)

    def messages(self) -> Sequence[Message]:
        """What was said on this branch, oldest first."""
        return self.transcript.messages

    def asked_by(self) -> str:
        """The id of the message whose calls are open, "" if there is none."""
        if not self.transcript.open:
            return ""
        return next((one.id for one in reversed(self.transcript.messages) if one.tool_calls), "")


def numbered(links: Sequence[Link], asked_in: dict[str, str]) -> Iterator[tuple[CausalNode, str]]:
    """Every node of a branch with the id of the message it becomes, or "" where it becomes none. Fills in which run asked for a call."""
    for link in links:
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
            yield node, message_id(run, link.checkpoint.step, index, attempt)
            index += 1


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

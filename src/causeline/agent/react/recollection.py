"""What is put before the model beside a user's words: earlier runs, and long-term memory.

Law: each is asked once a user turn, and what it has stands in the log as a node beside the goal, so that a process that takes the run
over shows the model the same.
"""

from typing import Any

from causeline.agent.react.agent_memory import AgentMemory
from causeline.agent.react.call_results import append_id
from causeline.agent.react.conversation import MEMORY, RECALL, Conversation
from causeline.causal import Append
from causeline.errors import fault_of
from causeline.events import RunEvent
from causeline.graph.node import Context
from causeline.memory.long_term import Memories
from causeline.models.messages import Message
from causeline.models.transcript import goal_content
from causeline.run.scope import Recall, Recalled


async def from_earlier_runs(ctx: Context, talk: Conversation, goal: Append) -> list[Append]:
    """What earlier runs have to say on this goal, cited and marked as data."""
    if not talk.options.recall:
        return []
    found = await ctx.use(Recall).recall(talk.scope, talk.options.recall, goal_words(goal.payload))
    ctx.emit(RunEvent(type="memory_recalled", kind=RECALL, citations=list(found.citations)))
    return [_beside(goal, RECALL, "recall", found)]


async def from_memory(ctx: Context, talk: Conversation, goal: Append) -> list[Append]:
    """What long-term memory has on this goal. A namespace that this run cannot name is an error."""
    if talk.memory is None:
        return []
    return [memory_beside(goal, await asked_memory(ctx, talk.memory, goal_words(goal.payload)))]


async def asked_memory(ctx: Context, memory: AgentMemory, words: str) -> Recalled | None:
    """What a memory has for these words; None where it failed, which is told of."""
    memory.namespace()
    try:
        found = await memory.search(ctx.find(Memories), words)
    except Exception as error:  # noqa: BLE001 - whatever a memory does wrong, the user is answered
        ctx.emit(RunEvent(type="memory_recalled", kind=MEMORY, citations=[], error=fault_of(error)))
        return None
    ctx.emit(RunEvent(type="memory_recalled", kind=MEMORY, citations=list(found.citations)))
    return found


def memory_beside(goal: Append, found: Recalled | None) -> Append:
    """What memory had for a goal as the node beside it; None for a memory that failed. The goal names its parents."""
    return _beside(goal, MEMORY, "search", found or Recalled(""), succeeded=found is not None)


def goal_words(payload: Any) -> str:
    """The words of a goal."""
    return Message("user", goal_content(payload)).text


def _beside(goal: Append, path: str, operation: str, found: Recalled, *, succeeded: bool = True) -> Append:
    """What was found for a goal, as the node that stands beside it."""
    value = {"text": found.text, "citations": list(found.citations)}
    payload = {"path": path, "operation": operation, "succeeded": succeeded, "value": value}
    return Append("resource", payload, parents=(goal,), resource_key=f"{path}:{append_id(goal)}", advance=False)

"""A conversation whose history is a channel of a graph of one's own.

Law: what a model is shown is what stands in the channel. Where there is a log, it learns what was said and done, and is never read back
into the history. Bringing a conversation up to its channel costs what was added since the last visit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causeline.agent.options import Options
from causeline.agent.own_graph.channel_messages import read_messages
from causeline.agent.own_graph.tool_policy import approval_of
from causeline.agent.react.agent_memory import AgentMemory
from causeline.agent.react.call_results import append_id
from causeline.agent.react.conversation import MEMORY, Conversation, Shown
from causeline.agent.react.recollection import asked_memory, memory_beside
from causeline.causal import AgentState, Append, heads_after, identity
from causeline.causal.payload import recalled_text
from causeline.graph.node import Context
from causeline.models.messages import Message, ToolCall
from causeline.models.model import Model, Request
from causeline.models.transcript import Transcript
from causeline.run.ledger import derive
from causeline.run.scope import SAID_AS, RunScope, message_id
from causeline.tools.tool import Tool
from causeline.tools.toolbox import Toolbox

NO_LIMIT = 2**31


@dataclass(frozen=True, slots=True)
class Recollection:
    """What memory had for a user's words, and the node that says so; None where there is no log."""

    text: str
    node: str | Append | None = None

    def among(self, added: Sequence[Append]) -> str | Append | None:
        """The node as a parent of what is added together with these."""
        if not isinstance(self.node, Append) or any(append is self.node for append in added):
            return self.node
        goal = self.node.parents[0]
        parents = [goal if isinstance(goal, str) else append_id(goal)]
        return identity(self.node.kind, self.node.payload, parents, self.node.resource_key)


class ChannelConversation(Conversation):
    """`added` is what the visit under way adds to the log before its reply. `in_log` says whether there is one. `policy` is what the
    agent node asks of the tools node."""

    def __init__(self, options: Options, toolbox: Toolbox, model: Model, scope: RunScope, *, memory: AgentMemory | None = None) -> None:
        super().__init__(options, toolbox, model, scope, at_once=0, memory=memory)
        self.path: tuple[str | int, ...] = ()
        self.apart = False
        """Whether other visits may be under way at the same time."""
        self.added: list[Append] = []
        self.in_log = False
        self.prompt: str | None = None
        self.policy: Any = None
        self._channel: list[Any] = []
        self._heard = 0
        self._ahead = False
        self._asked_nodes: dict[str, str] = {}
        self._logged_calls: set[str] = set()
        self._logged_prompt = ""
        self._logged_goals: list[Any] = []
        self._goal = ""
        self._logged_memory: tuple[str, Recollection] | None = None
        self._recollection: tuple[int, Recollection] | None = None
        """What memory had for the latest of so many messages of users."""

    def go_on_from(self, memo: dict[str, Any]) -> None:
        """Nothing: each placement has its own history."""

    @property
    def max_repeats(self) -> int:
        """A graph of one's own says itself when it has gone round often enough."""
        return NO_LIMIT

    def stand(self, ctx: Context, history: list[Any]) -> None:
        """Stand at the end of the channel, and know the log's part of it."""
        self.path, self.added = ctx.path, []
        self.apart = ctx.concurrent or len(ctx.path) > 1
        log = ctx.state.get("log")
        self.in_log = isinstance(log, AgentState)
        if isinstance(log, AgentState):
            self._follow(log)
        if self._channel is not history or self._heard > len(history) or self._ahead:
            self.transcript, self._heard, self._ahead = Transcript(self._shorten), 0, False
        for message in read_messages(history[self._heard :], self.options.messages_key, self._heard):
            self.transcript.hear(message, self._asked_nodes)
        self._channel, self._heard = history, len(history)

    def _follow(self, log: AgentState) -> None:
        """Note which node of the log is which open call, and what of this turn it has already."""
        nodes = log.nodes
        for position in range(self.folded, len(nodes)):
            node = nodes[position]
            match node.kind:
                case "tool_call":
                    self._logged_calls.add(node.payload["call_id"])
                    self._asked_nodes[node.payload["call_id"]] = node.id
                case "tool_result":
                    self._asked_nodes.pop(node.payload["call_id"], None)
                case "system":
                    self._logged_prompt = str(node.payload)
                case "goal":
                    self._logged_goals.append(node.payload)
                    self._goal = node.id
                case "resource" if node.resource_key == f"{MEMORY}:{self._goal}":
                    self._logged_memory = (self._goal, Recollection(recalled_text(node.payload), node.id))
                case "inference":
                    self._logged_goals.clear()
                case _:
                    pass
        self.log, self.folded = log, len(nodes)

    async def begin(self, ctx: Context, text: Any) -> list[Message]:
        """Where the history is empty, `text` begins it: the messages that are new. What users said since the last reply becomes goals."""
        if self.prompt is None:
            self.prompt = await self.system()
        begun: list[Message] = []
        if not self.transcript.messages and text not in (None, ""):
            begun.append(Message("user", text if isinstance(text, str) else str(text)))
            self._ahead = True
            self.transcript.hear(begun[0])
        goals = [goal for goal in map(_goal, self._unanswered()) if goal not in self._logged_goals]
        if goals and self.prompt != self._logged_prompt:
            parents = "frontier" if self.memory is None else heads_after(self.log, self.added)
            self.added.append(Append("system", self.prompt, parents=parents))
        if self.memory is None:
            self.added += [Append("goal", goal) for goal in goals]
        else:
            await self._remember(ctx, self.memory, goals)
        return begun

    async def _remember(self, ctx: Context, memory: AgentMemory, goals: Sequence[Any]) -> None:
        """Ask memory about what users said, once: what it has stands beside the last of these goals, where there is a log."""
        for goal in goals:
            self.added.append(Append("goal", goal, parents=heads_after(self.log, self.added)))
        spoken = [message for message in self.transcript.messages if message.role == "user"]
        if not spoken or (self._recollection is not None and self._recollection[0] == len(spoken)):
            return
        if not goals and self._logged_memory is not None and self._logged_memory[0] == self._goal:
            self._recollection = len(spoken), self._logged_memory[1]
            return
        found = await asked_memory(ctx, memory, spoken[-1].text)
        node = memory_beside(self.added[-1], found) if goals and self.in_log else None
        self.added += [node] if node is not None else []
        self._recollection = len(spoken), Recollection(found.text if found is not None else "", node)

    def _unanswered(self) -> list[Message]:
        """What users said since the last reply."""
        words: list[Message] = []
        for message in reversed(self.transcript.messages):
            if message.role != "user":
                break
            words.append(message)
        return words[::-1]

    def go_on(self, appends: Sequence[Append]) -> None:
        """A reply could not be used: it is in the log, and the model is asked again."""
        self._ahead = True
        self.added += appends
        for append in appends:
            self.transcript.take(append)

    def approval_modes(self, tool: Tool, call_id: str) -> Sequence[Any]:
        """Also what the agent node was given."""
        return (*super().approval_modes(tool, call_id), approval_of(self.policy, call_id))

    def asked_node(self, call: ToolCall) -> str | Append:
        """The tool_call node of an open call; one to be added where the log has none, because no model asked for it here."""
        node = self._asked_nodes.get(call.id)
        if node is not None:
            return node
        self.added.append(Append("tool_call", {"call_id": call.id, "name": call.name, "args": call.arguments}))
        return self.added[-1]

    # what differs from a conversation that is read from the log

    def request(self) -> tuple[Request, Shown]:
        """The channel's history under the system prompt, and what memory has. The reply rests on all heads of the log, and on that."""
        recalled = self._recollection[1] if self._recollection is not None else None
        if recalled is None or not recalled.text:
            return self._asked(self._paired(), self.prompt or None, {}), "frontier"
        asked = self._asked(self._paired(), self.prompt or None, {MEMORY: recalled.text})
        node = recalled.among(self.added)
        return asked, "frontier" if node is None else (*heads_after(self.log, self.added), node)

    def reply_id(self, step: int, attempt: int) -> str:
        """The id of the message a reply becomes: its place among the messages this visit adds to the log."""
        if not self.apart:
            return message_id(self.scope.run_id, step, self._place, attempt)
        return derive("msg_", self.scope.run_id, step, list(self.path), len(self.transcript.messages), self._place, attempt)

    @property
    def _place(self) -> int:
        return sum(append.kind in ("goal", "inference") for append in self.added)

    def begun_anew(self, placement: str | int, attempt: int) -> None:
        """A reply was begun so often before it was whole."""
        facts = self.scope.facts_at(placement)
        known = facts.get("attempt")
        facts["attempt"] = {**(known if isinstance(known, dict) else {}), str(self._place): attempt}

    def said_as(self, message: str) -> None:
        super().said_as(message)
        if self.apart and len(self.path) == 1:  # the number of the step it is committed with is not known before
            self.scope.facts_at(self.path[0]).setdefault(SAID_AS, {})[str(self._place)] = message

    def call_id(self, step: int, index: int) -> str:
        """An id of a call's own. Below the top level several visits may belong to the same step; beside other branches the number of a
        step follows from who was quicker, and a call's id must not."""
        if not self.apart:
            return super().call_id(step, index)
        if len(self.path) == 1:
            return self._unused("call_", self.scope.run_id, self.path[0], len(self.transcript.messages), index)
        return derive("call_", self.scope.run_id, step, list(self.path), len(self.transcript.messages), index)

    def _unused(self, prefix: str, *parts: str | int) -> str:
        """An id that no call in the log has."""
        name, again = derive(prefix, *parts), 0
        while name in self._logged_calls:
            again += 1
            name = derive(prefix, *parts, again)
        return name

    def named(self, calls: Sequence[ToolCall], step: int) -> tuple[ToolCall, ...]:
        """The same ids of a provider may come from several places at once, so none of them is kept there."""
        if self.apart:
            calls = [ToolCall("", call.name, call.arguments) for call in calls]
        return super().named(calls, step)


def _goal(message: Message) -> dict[str, Any]:
    return {"text": message.content} if isinstance(message.content, str) else {"parts": list(message.content)}

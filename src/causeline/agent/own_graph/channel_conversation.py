"""A conversation whose history is a channel of a graph of one's own.

Law: what a model is shown is what stands in the channel. Where there is a log, it learns what was said and done, and is never read back
into the history. Bringing a conversation up to its channel costs what was added since the last visit.
"""

from collections.abc import Sequence
from typing import Any

from causeline.agent.options import Options
from causeline.agent.own_graph.channel_messages import read_messages
from causeline.agent.own_graph.tool_policy import approval_of
from causeline.agent.react.conversation import Conversation, Shown
from causeline.causal import AgentState, Append
from causeline.graph.node import Context
from causeline.models.messages import Message, ToolCall
from causeline.models.model import Model, Request
from causeline.models.transcript import Transcript
from causeline.run.ledger import derive
from causeline.run.scope import RunScope, message_id
from causeline.tools.tool import Tool
from causeline.tools.toolbox import Toolbox

NO_LIMIT = 2**31


class ChannelConversation(Conversation):
    """`added` is what the visit under way adds to the log before its reply. `in_log` says whether there is one. `policy` is what the
    agent node asks of the tools node."""

    def __init__(self, options: Options, toolbox: Toolbox, model: Model, scope: RunScope) -> None:
        super().__init__(options, toolbox, model, scope, at_once=0)
        self.path: tuple[str | int, ...] = ()
        self.added: list[Append] = []
        self.in_log = False
        self.prompt: str | None = None
        self.policy: Any = None
        self._channel: list[Any] = []
        self._heard = 0
        self._ahead = False
        self._asked_nodes: dict[str, str] = {}
        self._logged_prompt = ""
        self._logged_goals: list[Any] = []

    def go_on_from(self, memo: dict[str, Any]) -> None:
        """Nothing: each placement has its own history."""

    @property
    def max_repeats(self) -> int:
        """A graph of one's own says itself when it has gone round often enough."""
        return NO_LIMIT

    def stand(self, ctx: Context, history: list[Any]) -> None:
        """Stand at the end of the channel, and know the log's part of it."""
        self.path, self.added = ctx.path, []
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
                    self._asked_nodes[node.payload["call_id"]] = node.id
                case "tool_result":
                    self._asked_nodes.pop(node.payload["call_id"], None)
                case "system":
                    self._logged_prompt = str(node.payload)
                case "goal":
                    self._logged_goals.append(node.payload)
                case "inference":
                    self._logged_goals.clear()
                case _:
                    pass
        self.log, self.folded = log, len(nodes)

    async def begin(self, text: Any) -> list[Message]:
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
            self.added.append(Append("system", self.prompt))
        self.added += [Append("goal", goal) for goal in goals]
        return begun

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
        """The channel's history under the system prompt. The reply rests on all heads of the log."""
        return self._asked(self._paired(), self.prompt or None, {}), "frontier"

    def reply_id(self, step: int, attempt: int) -> str:
        """The id of the message a reply becomes: its place among the messages this visit adds to the log."""
        place = sum(append.kind in ("goal", "inference") for append in self.added)
        if len(self.path) < 2:
            return message_id(self.scope.run_id, step, place, attempt)
        return derive("msg_", self.scope.run_id, step, list(self.path), len(self.transcript.messages), place, attempt)

    def begun_anew(self, attempt: int) -> None:
        """A reply was begun so often before it was whole."""
        place = sum(append.kind in ("goal", "inference") for append in self.added)
        known = self.scope.facts.get("attempt")
        self.scope.facts["attempt"] = {**(known if isinstance(known, dict) else {}), str(place): attempt}

    def call_id(self, step: int, index: int) -> str:
        """An id of a call's own. Below the top level several visits, and several rounds of one, belong to the same step."""
        if len(self.path) < 2:
            return super().call_id(step, index)
        return derive("call_", self.scope.run_id, step, list(self.path), len(self.transcript.messages), index)

    def named(self, calls: Sequence[ToolCall], step: int) -> tuple[ToolCall, ...]:
        """Below the top level the same ids of a provider may come from several places at once, so none of them is kept."""
        if len(self.path) > 1:
            calls = [ToolCall("", call.name, call.arguments) for call in calls]
        return super().named(calls, step)


def _goal(message: Message) -> dict[str, Any]:
    return {"text": message.content} if isinstance(message.content, str) else {"parts": list(message.content)}

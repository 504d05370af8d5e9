"""The agent node: one model call a visit.

Law: the system prompt and what memory recalls are part of a request and never stored. A reply that cannot be used is asked for again
within the visit, as often as in the loop of an Agent; then the node fails, with the model's fault.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from causeline.agent.options import Options
from causeline.agent.own_graph.bare_run import bare_scope
from causeline.agent.own_graph.call_channels import CallChannels
from causeline.agent.own_graph.channel_conversation import ChannelConversation
from causeline.agent.own_graph.channel_messages import written
from causeline.agent.own_graph.tool_policy import policy_of
from causeline.agent.react.agent_memory import MemoryPlace
from causeline.agent.react.model_turn import hear_reply
from causeline.agent.react.reply_outcome import ReplyOutcome
from causeline.causal import Append
from causeline.errors import Refused
from causeline.graph.node import Context, Outcome
from causeline.memory.shared import OpenMemory
from causeline.models.messages import Message, ToolCall
from causeline.models.model import Model
from causeline.run.scope import RunScope
from causeline.tools.toolbox import Toolbox

PENDING = "pending"
_HISTORIES = 64


class TurnFailed(Refused):
    """A model gave no reply that can be used, however often it was asked."""

    code = "model_error"


class AgentNode:
    """What the node is made of: options, tools, and a model that is opened once."""

    def __init__(
        self, options: Options, toolbox: Toolbox, open_model: Callable[[Options], Model], open_memory: OpenMemory | None = None
    ) -> None:
        self.options = options
        self.toolbox = toolbox
        self._channels = CallChannels.beside(options.tool_call_key)
        self._open_model = open_model
        self._memory = MemoryPlace(options.memory, open_memory)
        self._model: Model | None = None
        self._in_runs: WeakKeyDictionary[RunScope, dict[str, ChannelConversation]] = WeakKeyDictionary()
        self._bare: OrderedDict[int, ChannelConversation] = OrderedDict()

    @property
    def hears(self) -> tuple[str, str]:
        """The channel of the text a conversation begins with, and that of its messages."""
        return self.options.input_key, self.options.messages_key

    async def visit(self, ctx: Context) -> Outcome:
        """Show the model the history, and write what it said."""
        history: list[Any] = ctx.state.get(self.options.messages_key) or []
        talk = self._talk(ctx, history)
        talk.stand(ctx, history)
        await self.open()
        try:
            begun = await talk.begin(ctx, ctx.state.get(self.options.input_key))
            outcome = await self._reply(ctx, talk)
        finally:
            await self.close()
        return await self._left(ctx, talk, begun, outcome)

    async def open(self) -> None:
        """Open the toolsets and the memory, unless they are."""
        await self.toolbox.open()
        await self._memory.open()

    async def close(self) -> None:
        """Called once for each `open`."""
        await self._memory.close()
        await self.toolbox.close()

    async def aclose(self) -> None:
        """Give back what the model holds open."""
        if self._model is not None:
            await self._model.aclose()
            self._model = None

    def _talk(self, ctx: Context, history: list[Any]) -> ChannelConversation:
        """The conversation of this placement in this run; without a run, the one on this list of messages."""
        model = self._model = self._model or self._open_model(self.options)
        scope = ctx.find(RunScope)
        if scope is None:
            talk = self._bare.pop(id(history), None) or self._conversation(model, bare_scope(0))
            talk.scope = bare_scope(len(history))
            self._bare[id(history)] = talk
            while len(self._bare) > _HISTORIES:
                self._bare.popitem(last=False)
            return talk
        if len(ctx.path) > 1:
            return self._conversation(model, scope)
        talks = self._in_runs.setdefault(scope, {})
        if ctx.placement not in talks:
            talks[ctx.placement] = self._conversation(model, scope)
        return talks[ctx.placement]

    def _conversation(self, model: Model, scope: RunScope) -> ChannelConversation:
        return ChannelConversation(self.options, self.toolbox, model, scope, memory=self._memory.of(scope))

    @staticmethod
    async def _reply(ctx: Context, talk: ChannelConversation) -> Outcome:
        while True:
            reply, shown = await hear_reply(ctx, talk)
            outcome = ReplyOutcome(ctx, talk, reply, shown).outcome()
            if outcome.port != "retry":
                return outcome
            talk.go_on(outcome.writes["log"])

    async def _left(self, ctx: Context, talk: ChannelConversation, begun: list[Message], outcome: Outcome) -> Outcome:
        options = self.options
        result: Mapping[str, Any] = outcome.writes.get("result") or {}
        if result.get("failed") and result["stop_reason"] != "tool_rounds":
            error: Mapping[str, Any] = result["error"]
            raise TurnFailed(error["message"], code=error["code"], stop_reason=result["stop_reason"])
        appends: list[Append] = outcome.writes["log"]
        said = next(append.payload for append in appends if append.kind == "inference")
        calls = [ToolCall(call["id"], call["name"], call["arguments"]) for call in said["calls"]] if outcome.port == "tools" else []
        reply = Message("assistant", said["text"], tuple(calls), id=talk.message, reasoning=tuple(said.get("reasoning", ())))
        writes: dict[str, Any] = {
            options.messages_key: written(ctx, options.messages_key, [*begun, reply]),
            self._channels.calls: [{"id": call.id, "name": call.name, "args": call.arguments} for call in calls],
            options.tool_call_key: PENDING if calls else "",
        }
        if calls:
            writes[self._channels.policy] = await policy_of(options, self.toolbox, calls)
        else:
            writes[options.output_key] = result.get("answer", said["text"])
        if talk.in_log:
            writes["log"] = [*talk.added, *appends]
            if "calls" in outcome.writes:
                writes["calls"] = outcome.writes["calls"]
        return Outcome("done", writes)

"""One run of one agent: what its nodes share between steps.

Law: everything here is derived from the log, the options and the run's scope. A process that takes the run
over builds it again and goes on exactly where the other one was.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from causeline.agent.options import Options
from causeline.agent.react.agent_memory import AgentMemory
from causeline.agent.react.completion import CompletionWatch
from causeline.agent.react.remember import REMEMBER
from causeline.agent.system_prompt import render
from causeline.causal import AgentState, Append, CausalNode, InvalidValue, canonical, heads_after, project
from causeline.causal.payload import recalled_text
from causeline.graph.engine.containment import contained
from causeline.graph.node import Context
from causeline.models.emulated_tools import EmulatedTools
from causeline.models.messages import Json, Message, ToolCall, ToolSpec
from causeline.models.model import Model, Reply, Request
from causeline.models.text_calls import Decoded, decode_calls
from causeline.models.transcript import Transcript
from causeline.run.ledger import Call, arguments_hash, derive
from causeline.run.scope import RunScope, merged, message_id
from causeline.tools.approval import approves_all
from causeline.tools.tool import Tool
from causeline.tools.toolbox import Toolbox
from causeline.tools.trim import shorten

Shown = tuple[str | Append, ...] | Literal["frontier"]
"""The nodes a reply rests on: their ids, or records of the same step; or all heads of the log."""
RECALL, MEMORY = "recall", "memory"
"""What may stand before the history beside the system prompt: beginnings of resource keys, and paths of resources."""
CONTEXT_TOKENS = 16_000
"""The size of a bounded view where the agent says nothing."""
ARGUMENTS_DEPTH = 120
"""Containers inside containers; a reply wraps its arguments in a few more."""


class Conversation:
    """The agent's side of a run: transcript, tools in scope, request views."""

    def __init__(
        self, options: Options, toolbox: Toolbox, model: Model, scope: RunScope, *, at_once: int, memory: AgentMemory | None = None
    ) -> None:
        self.options = options
        self.toolbox = toolbox
        self.model = model
        self.scope = scope
        self.at_once = at_once
        self.log = AgentState()
        self.memory = memory
        self.transcript = Transcript(self._shorten)
        self.recalled: dict[str, tuple[str, str]] = {}
        self.completion = CompletionWatch(options.completion) if options.completion is not None else None
        self.folded = 0
        self.ahead: list[Append] = []
        """What the visit under way adds to the log before it asks once more."""
        self.message = ""
        self.go_on_from(scope.memo)
        self.answer_format = options.answer_format()
        self._specs: tuple[ToolSpec, ...] = toolbox.specs()

    def go_on_from(self, memo: dict[str, Any]) -> None:
        """Take over what the run before this one has read of the log, and leave it to the next."""
        before: Conversation | None = memo.get("conversation")
        if (
            before is not None
            and before.options is self.options
            and not before.ahead
            and not self.scope.client_tools
            and not before.scope.client_tools
        ):
            self.transcript, self.recalled, self.folded = before.transcript, before.recalled, before.folded
            self.completion = before.completion
        memo["conversation"] = self

    @classmethod
    def of(cls, ctx: Context) -> "Conversation":
        """The conversation of the run that a node is visited in, up to date."""
        talk = ctx.use(cls)
        if "log" in ctx.state:
            talk.fold(ctx.state["log"])
        return talk

    def fold(self, log: AgentState) -> Transcript:
        """Bring the transcript up to the log. Costs what was added since the last call."""
        if self.ahead:  # the log has it in its own way now, or never will
            self._begin_anew()
        self.log, nodes = log, log.since(self.folded)
        for node in nodes:
            self.transcript.add(node)
            if self.completion is not None:
                self.completion.fold(node)
            if node.kind == "goal":
                self.recalled = {}
            elif node.resource_key is not None:
                self._take_up(node, *node.resource_key.split(":", 1))
        self.folded += len(nodes)
        return self.transcript

    def _begin_anew(self) -> None:
        self.transcript, self.recalled, self.folded, self.ahead = Transcript(self._shorten), {}, 0, []
        self.completion = CompletionWatch(self.options.completion) if self.options.completion is not None else None

    def go_on(self, appends: Sequence[Append]) -> None:
        """A reply could not be used: it is about to be in the log, and the model is asked again within the visit."""
        self.ahead += appends
        for append in appends:
            self.transcript.take(append)

    @property
    def _place(self) -> int:
        """The place of the reply under way among the messages that this visit adds to the log."""
        return sum(append.kind in ("goal", "inference") for append in self.ahead)

    def _take_up(self, node: CausalNode, kind: str, place: str = "") -> None:
        """What was recalled for the latest goal is put before the model."""
        if kind not in (RECALL, MEMORY) or place != self.transcript.goal:
            return
        self.recalled[kind] = (node.id, recalled_text(node.payload))
        if self.memory is not None and kind == MEMORY:
            self.memory.take_up(node)

    async def look_at_tools(self) -> None:
        """Once a round: toolsets may offer others than before."""
        if self.toolbox.toolsets:
            await self.toolbox.refresh()
            self._specs = self.toolbox.specs()

    async def system(self) -> str:
        """The system prompt of this run, with its variables filled in and the skills' texts; "" for none. It is asked for once, when the
        run begins; from then on the log has it. Raises what the caller's own function raises."""
        options, toolbox = self.options, self.toolbox
        if callable(options.system):
            own = str(await contained(options.system, *([self.scope] if _takes_scope(options.system) else [])))
        else:
            own = render(options.system or "", template_values(options, toolbox, self.scope))
        return "\n\n".join(part for part in (own, toolbox.skill_text()) if part)

    def budget_spent(self) -> bool:
        """Whether this user turn has used up its rounds of tools."""
        limit = self.options.max_tool_rounds
        return limit is not None and self.transcript.tool_rounds >= limit and bool(self._specs)

    @property
    def max_repeats(self) -> int:
        """The same call with the same result so often in a row is told to the model; once more ends the run."""
        return self.options.max_repeats

    def approval_modes(self, tool: Tool, call_id: str) -> Sequence[Any]:
        """Everybody's modes for a call; the strictest holds."""
        return (tool.approval, self.options.tool_approval)

    def reply_id(self, step: int, attempt: int) -> str:
        """The id of the message a reply becomes."""
        return message_id(self.scope.run_id, step, self._place, attempt)

    def begun_anew(self, placement: str | int, attempt: int) -> None:
        """A reply was begun so often before it was whole."""
        facts, place = self.scope.facts_at(placement), self._place
        known = facts.get("attempt")
        facts["attempt"] = {**(known if isinstance(known, dict) else {}), str(place): attempt} if place or known is not None else attempt

    def said_as(self, message: str) -> None:
        """The reply under way is this message."""
        self.message = message

    def call_id(self, step: int, index: int) -> str:
        """An id of a call's own."""
        place = self._place
        return derive("call_", self.scope.run_id, step, index, *([place] if place else []))

    def request(self) -> tuple[Request, Shown]:
        """The view for the next model call, and the ids of what it shows: the reply's parents.

        The full transcript is the transcript's own list, never copied; its heads stand for all of it. A `causal` view
        is bounded and built anew. Raises Exhausted if what it must show does not fit.
        """
        if self.options.context_mode == "causal":
            view = project(self.log, self.transcript.question, self.options.context_tokens or CONTEXT_TOKENS)
            return self._asked([self._with_reasoning(Message.from_json(said)) for said in view.messages], None, {}), view.ids
        if not self.recalled:
            return self._asked(self._paired(), self._prompt(), {}), self._heads()
        recalled = {kind: text for kind, (_, text) in self.recalled.items() if text}
        shown = (*self._heads(), *(self.recalled[kind][0] for kind in recalled))
        return self._asked(self._paired(), self._prompt(), recalled), shown

    def _heads(self) -> tuple[str | Append, ...]:
        return heads_after(self.log, self.ahead) if self.ahead else tuple(self.log.frontier)

    def _with_reasoning(self, message: Message) -> Message:
        """A message of a bounded view with what its provider wants back with it: the view has each under its node's id."""
        if message.role != "assistant" or message.id not in self.log:
            return message
        node = self.log.node(message.id)
        return replace(message, reasoning=tuple(node.payload.get("reasoning", ()))) if node.kind == "inference" else message

    def _paired(self) -> Sequence[Message]:
        """The history; where calls are still open it ends in stand-ins for their results."""
        transcript = self.transcript
        return [*transcript.view, *transcript.stand_ins()] if transcript.open else transcript.view

    def _prompt(self) -> str | None:
        """The system prompt, as the log has it: a run that goes on from a question goes on under the prompt of that turn."""
        return self.transcript.system or None

    def _asked(self, messages: Sequence[Message], system: str | None, recalled: Mapping[str, str]) -> Request:
        return Request(
            messages=messages,
            system=system,
            memory=recalled.get(MEMORY),
            recall=recalled.get(RECALL),
            tools=() if self.budget_spent() else self._specs,
            response_schema=self.answer_format.asked if self.answer_format else None,
            temperature=self.options.temperature,
            max_tokens=self.options.max_tokens,
            round=self.transcript.round,
        )

    def decode(self, reply: Reply) -> Decoded:
        """Text and calls of a reply, with calls found in its text where this agent looks for them there. A model whose
        tools are written into its text has been decoded already."""
        done = isinstance(self.model, EmulatedTools) and not self.budget_spent()
        if done and self.options.tool_mode == "text" and not reply.calls and self._specs:
            return Decoded(reply.text, (), decode_calls(reply.text, self._specs).problem)
        if reply.calls or done or not self._specs or not self.options.parse_text_tool_calls:
            return Decoded(reply.text, reply.calls)
        return decode_calls(reply.text, self._specs, native=self.options.tool_mode == "native")

    def named(self, calls: Sequence[ToolCall], step: int) -> tuple[ToolCall, ...]:
        """The calls with ids of their own: a missing id, or one used before, is replaced. Arguments that are nested too
        deeply for the log stay text."""
        used: set[str] = set()
        named: list[ToolCall] = []
        for index, call in enumerate(calls):
            fresh = bool(call.id) and call.id not in used and call.id not in self.transcript.call_ids
            call_id = call.id if fresh else self.call_id(step, index)
            used.add(call_id)
            named.append(ToolCall(call_id, call.name, _loggable(call.arguments)))
        return tuple(named)

    def rows(self, calls: Sequence[ToolCall], step: int) -> list[Call]:
        """Ledger rows for a reply's calls. Those that start at once, need nobody's answer and have effects are
        `started` with the reply's own commit, which saves a write before they run."""
        first = set(self.segments([(call.id, call.name) for call in calls])[0][: self.at_once]) if calls else set[str]()
        rows: list[Call] = []
        for index, call in enumerate(calls):
            tool = self.toolbox.get(call.name)
            client = tool is not None and tool.client
            starts = tool is not None and tool.needs_started and call.id in first and self.starts_at_once(call, tool)
            state = "awaiting" if client else "started" if starts else "pending"
            rows.append(
                Call(
                    call_id=call.id,
                    name=call.name,
                    arguments=call.arguments,
                    args_hash=arguments_hash(call.arguments),
                    state=state,
                    index=index,
                    step=step,
                    client=client,
                    attempts=int(starts),
                    opened_in=self.scope.run_id,
                    idempotency_key=self.scope.idempotency_key(call.id),
                )
            )
        return rows

    def starts_at_once(self, call: ToolCall, tool: Tool) -> bool:
        """Whether a call that could do harm if it ran twice runs without anybody's answer."""
        if tool.client or tool.human or call.name == REMEMBER or isinstance(call.arguments, str):
            return False
        return approves_all((tool.approval, self.options.tool_approval), call.name)

    def segments(self, calls: Sequence[tuple[str, str]]) -> list[list[str]]:
        """Call ids in the groups that may run together, in order: an exclusive tool is a group of its own."""
        groups: list[list[str]] = []
        alone = True
        for call_id, name in calls:
            tool = self.toolbox.get(name)
            exclusive = tool is not None and tool.exclusive
            if exclusive or alone:
                groups.append([])
            groups[-1].append(call_id)
            alone = exclusive
        return groups or [[]]

    def _shorten(self, tool: str, text: str, node_id: str) -> str:
        found = self.toolbox.get(tool)
        return shorten(text, found.max_chars if found else 50_000, node_id)


def _loggable(arguments: Json | str) -> Json | str:
    if isinstance(arguments, dict):
        try:
            canonical(arguments, depth=ARGUMENTS_DEPTH)
        except InvalidValue:
            return json.dumps(arguments, ensure_ascii=False)
    return arguments


def _takes_scope(function: Callable[..., Any]) -> bool:
    try:
        return any(each.default is each.empty for each in inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False


def template_values(options: Options, toolbox: Toolbox, scope: RunScope) -> Mapping[str, Any]:
    """The variables of a system prompt. Times are the run's start, so that a resumed run sees the same ones."""
    return {
        "agent.name": options.name,
        "session.id": scope.session_id,
        "run.id": scope.run_id,
        "now": scope.started_at,
        "date": scope.started_at[:10],
        "tools": "\n".join(f"{spec.name}: {spec.description}" for spec in toolbox.specs()),
        "context": merged(scope.before if scope.next_context is None else scope.next_context, scope.context or {}),
        "metadata": scope.metadata,
    }

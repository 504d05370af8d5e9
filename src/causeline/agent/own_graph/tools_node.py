"""The tools node: runs the calls that wait in the state, and pauses where a person has to say something first.

Law: as in the tools step of an Agent: a finished call is never run again, results stand in call order, and whatever is not understood
fails closed. A call of the name `human_key` is the question to a person.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from causeline.agent.options import Options
from causeline.agent.own_graph.bare_answers import bare_answers
from causeline.agent.own_graph.bare_run import VisitLedger, bare_scope
from causeline.agent.own_graph.call_channels import CALLS, RESULTS, CallChannels
from causeline.agent.own_graph.channel_conversation import ChannelConversation
from causeline.agent.own_graph.channel_messages import read_calls, unasked, written
from causeline.agent.own_graph.tool_policy import stricter
from causeline.agent.react.call_results import append_id, logged
from causeline.agent.react.tool_step import ToolStep
from causeline.graph.node import Context, Outcome
from causeline.models.messages import Message, ToolCall
from causeline.models.scripted_model import ScriptedModel
from causeline.models.transcript import result_text
from causeline.run.ledger import FINISHED, Call, CallState, Ledger, arguments_hash, derive
from causeline.run.scope import RunScope
from causeline.tools.decision_check import check_decision_on
from causeline.tools.tool import Tool
from causeline.tools.toolbox import Toolbox
from causeline.tools.trim import shorten


class ToolsNode:
    """What the node is made of: options and tools."""

    def __init__(self, options: Options, toolbox: Toolbox) -> None:
        self.options = options
        self.toolbox = toolbox
        self._channels = CallChannels.beside(options.tool_call_key)
        self._in_runs: WeakKeyDictionary[RunScope, dict[str, ChannelConversation]] = WeakKeyDictionary()

    async def open(self) -> None:
        """Open the toolsets, unless they are."""
        await self.toolbox.open()

    async def close(self) -> None:
        """Called once for each `open`."""
        await self.toolbox.close()

    def check_answer(self, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
        """Raises Invalid if a decision on a call cannot be carried out."""
        check_decision_on(self.toolbox, name, arguments, decision)

    def programs(self) -> Mapping[str, Any]:
        """What its tools run as runs of their own."""
        return {tool.name: tool.program for tool in self.toolbox if tool.program is not None}

    async def visit(self, ctx: Context) -> Outcome:
        """Run what can run. Leaves by `done`, by `error` where a failed call ends it, or pauses."""
        await self.open()
        try:
            return await self._visit(ctx)
        finally:
            await self.close()

    async def _visit(self, ctx: Context) -> Outcome:
        options = self.options
        history: list[Any] = ctx.state.get(options.messages_key) or []
        talk = self._talk(ctx, history)
        talk.stand(ctx, history)
        policy = ctx.state.get(self._channels.policy)
        talk.options, talk.policy = stricter(options, policy), policy
        channel = self._channels.calls if self._channels.calls in ctx.state else CALLS
        calls = read_calls(ctx.state, channel, options.tool_call_key, derive("call_", talk.scope.run_id, ctx.step, list(ctx.path)))
        step, refused = await _carry_out(ctx, talk, calls, self._channels.results)
        if step.questions:
            return _paused(step, self._channels.results, refused)
        return self._done(ctx, talk, calls, step, channel)

    def _talk(self, ctx: Context, history: Sequence[Any]) -> ChannelConversation:
        """The conversation of this placement in this run; without a run, one for this visit."""
        scope = ctx.find(RunScope)
        if scope is None or len(ctx.path) > 1:
            return ChannelConversation(self.options, self.toolbox, _NOBODY, scope or bare_scope(len(history)))
        talks = self._in_runs.setdefault(scope, {})
        if ctx.placement not in talks:
            talks[ctx.placement] = ChannelConversation(self.options, self.toolbox, _NOBODY, scope)
        return talks[ctx.placement]

    def _done(self, ctx: Context, talk: ChannelConversation, calls: Sequence[ToolCall], step: ToolStep, channel: str) -> Outcome:
        outcome, options = step.outcome(), self.options
        lost = unasked(ctx.state.get(options.messages_key) or (), calls)
        said = [Message("assistant", "", tuple(lost))] if lost else []
        said += [self._message(talk, step.calls[call.id]) for call in calls]
        writes: dict[str, Any] = {
            options.messages_key: written(ctx, options.messages_key, said),
            channel: [],
            options.tool_call_key: "",
            **{key: None for key in ("_tool_call_args", "_tool_call_id") if ctx.state.get(key) is not None},
            **{key: {} for key in (self._channels.results, self._channels.policy) if ctx.state.get(key)},
            **{key: outcome.writes[key] for key in ("context",) if key in outcome.writes},
        }
        if talk.in_log:
            writes["log"] = [*talk.added, *outcome.writes["log"]]
        stop: Mapping[str, Any] | None = outcome.writes.get("result")
        if stop is not None and stop.get("failed"):
            if talk.in_log:
                writes["result"] = stop
            return Outcome("error", {**writes, "error": {**stop["error"], "placement": ctx.placement}})
        return Outcome("done", writes)

    def _message(self, talk: ChannelConversation, row: Call) -> Message:
        """The result as a message of the channel: whole where the channel alone holds it, else as a model is shown it."""
        text = result_text(row.result)
        if talk.in_log:
            tool = self.toolbox.get(row.name)
            node = next(append for append in logged(talk, row) if append.kind == "tool_result")
            text = shorten(text, tool.max_chars if tool else 50_000, append_id(node))
        name, decisions = talk.scope.result_message_id(row.call_id), tuple(map(dict, row.decisions))
        return Message("tool", text, tool_call_id=row.call_id, is_error=not row.ok, id=name, decisions=decisions)


def _rows(
    ctx: Context, talk: ChannelConversation, calls: Sequence[ToolCall], kept: Mapping[str, Any], ledger: Ledger | None
) -> tuple[list[Call], list[Call]]:
    """The ledger's rows of these calls, and those of them that it does not have yet."""
    known = {row.call_id: row for row in (ledger.open_calls() if ledger is not None else ())}
    results: Mapping[str, Mapping[str, Any]] = kept.get("results") or {}
    rows: list[Call] = []
    for index, call in enumerate(calls):
        row = known.get(call.id) or Call(
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            args_hash=arguments_hash(call.arguments),
            state="pending",
            index=index,
            step=ctx.step,
            idempotency_key=talk.scope.idempotency_key(call.id),
        )
        rows.append(row if row.state in FINISHED or call.id not in results else _finished(row, results[call.id]))
    return rows, [row for row in rows if row.call_id not in known]


def _finished(row: Call, result: Mapping[str, Any]) -> Call:
    state: CallState = result["state"]
    return Call(
        **{name: getattr(row, name) for name in ("call_id", "name", "args_hash", "index", "step", "idempotency_key")},
        arguments=result["arguments"],
        state=state,
        ok=result["ok"],
        result=result["result"],
        reported=result["reported"],
    )


def _paused(step: ToolStep, results: str, refused: Mapping[str, str]) -> Outcome:
    """Wait for answers; what is finished is kept beside what was asked. What is wrong with an answer that was given stands with its
    question."""
    done = {
        row.call_id: {"state": row.state, "ok": row.ok, "result": row.result, "arguments": row.arguments, "reported": row.reported}
        for row in step.calls.values()
        if row.state in FINISHED
    }
    asked = {question["tool_call_id"]: {"kind": question["kind"], "args_hash": question["args_hash"]} for question in step.questions}
    questions = [
        {**question, "refused": refused[question["tool_call_id"]]} if question["tool_call_id"] in refused else question
        for question in step.questions
    ]
    single: Mapping[str, Any] = questions[0] if len(questions) == 1 else {}
    return Outcome.pause({**single, "interrupts": questions}, {results: {"results": done, "asked": asked}})


class ToolItem:
    """One tool as a node: its call is the scatter item `{id?, args}`, or stands in the state under `currentItem`. Writes `output`:
    `{call_id, ok, result}`. A failed tool is a result."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.toolbox = Toolbox([tool])

    def check_answer(self, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
        """Raises Invalid if a decision on a call cannot be carried out."""
        check_decision_on(self.toolbox, name, arguments, decision)

    async def visit(self, ctx: Context) -> Outcome:
        """Run the call, or pause for a decision on it."""
        scope = ctx.find(RunScope) or bare_scope(0)
        talk = ChannelConversation(_ITEM_OPTIONS, self.toolbox, _NOBODY, scope)
        talk.path = ctx.path
        item: Any = ctx.item if ctx.item is not None else ctx.state.get("currentItem")
        entry: Mapping[str, Any] = cast("Mapping[str, Any]", item) if isinstance(item, Mapping) else {}
        fallback = derive("call_", scope.run_id, ctx.step, list(ctx.path))
        asked = {"id": entry.get("id") or fallback, "name": self.tool.name, "args": entry.get("args", entry.get("arguments", {}))}
        (call,) = read_calls({CALLS: [asked]}, CALLS, "", fallback)
        step, refused = await _carry_out(ctx, talk, [call], RESULTS)
        if step.questions:
            return _paused(step, RESULTS, refused)
        row = step.calls[call.id]
        return Outcome("done", {"output": {"call_id": row.call_id, "ok": bool(row.ok), "result": row.result}})


async def _carry_out(
    ctx: Context, talk: ChannelConversation, calls: Sequence[ToolCall], results: str
) -> tuple[ToolStep, Mapping[str, str]]:
    """Run the calls that can run, as the tools step of an agent does; and say what is wrong with answers that were refused."""
    talk.transcript.open = {call.id: (talk.asked_node(call), call.name, call.arguments) for call in calls}
    kept: Mapping[str, Any] = ctx.state.get(results) or {}
    ledger = ctx.find(Ledger)
    refused: Mapping[str, str] = {}
    rows, new = _rows(ctx, talk, calls, kept, ledger)
    if ledger is None:
        ledger = VisitLedger(rows)
        talk.scope.answers, refused = bare_answers(ctx.answer, kept.get("asked") or {}, rows, talk.toolbox)
    elif new:
        await ledger.move(new)
    step = ToolStep(ctx, talk, ledger, rows)
    await step.run()
    return step, refused


_ITEM_OPTIONS = Options(model="")
_NOBODY = ScriptedModel(())
"""The tools node asks no model."""

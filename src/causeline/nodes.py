"""The two nodes of a ReAct loop for a graph of one's own: `agent --(_tool_call_name!=)--> tools --> agent`.

    agent = nodes.react_agent(model="openai:gpt-5-mini", tools=[lookup], system="...")
    graph = (Graph("urn:example:loop").node("agent", agent).node("tools", nodes.tool_exec(tools=[lookup]))
             .edge("agent", "tools", when="_tool_call_name!=").edge("tools", "agent").entry("main", "agent"))

They work on plain channels: `input` (text), `messages` (a list of `{role, content, tool_calls, tool_call_id, is_error}`; both
nodes declare the reducer `append` for it), `output`, `_tool_call_name`, `_tool_calls`. Law: one model call a visit; the
system prompt and recalled text are part of the request and never stored; every call gets a result, in call order.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from causeline.agent.options import Options
from causeline.agent.react.call_results import patched
from causeline.assemble import check_models, opened
from causeline.errors import Invalid
from causeline.graph.node import Context, Node, Outcome, node
from causeline.models.messages import Message, ToolCall
from causeline.models.model import Request
from causeline.models.stream import collect
from causeline.models.text_calls import decode_calls
from causeline.models.transcript import result_text
from causeline.run.ledger import Call, derive
from causeline.tools.approval import Approve, Ask, Deny, resolve_all
from causeline.tools.execute import argument_fault, execute
from causeline.tools.human import question_text
from causeline.tools.tool import Tool, ToolContext
from causeline.tools.toolbox import Toolbox, ToolLike
from causeline.tools.trim import shorten

CALLS = "_tool_calls"
PARTIAL = "_tool_results"
"""Results of a paused visit of `tool_exec`, so that no call runs twice."""
_HISTORIES = 64


def react_agent(*, iri: str = "urn:causeline:node:react_agent", tools: Iterable[ToolLike] = (), **options: Any) -> Node:
    """A node that calls the model once. It leaves by `done`; `_tool_call_name` is "pending" when tools are to run, else "".

    Takes the options of `causeline.Agent`. Raises Invalid for wrong ones, at once.
    """
    checked = Options.checked("react_agent", **options)
    check_models(checked)
    toolbox = Toolbox(tools, use=checked.use_tools, skills=checked.skill_set())
    speaker = _Speaker(checked, toolbox)
    writes = (checked.messages_key, checked.output_key, checked.tool_call_key, CALLS)
    return node(iri, ports=("done",), writes=writes, reducers={checked.messages_key: "append"})(speaker.visit)


def tool_exec(*, iri: str = "urn:causeline:node:tool_exec", tools: Iterable[ToolLike] = (), **options: Any) -> Node:
    """A node that runs the calls the agent node asked for. It leaves by `done`, or pauses for approvals and questions;
    with `tool_error_mode="raise"` by `error` after a tool failed.

    Options: `tool_approval`, `tool_error_mode`, `tool_timeout`, `tool_retries`, `tool_concurrency`, `human_key` and the state keys.
    An answer is a decision `{decision, value?, reason?}`, or a map from call id to decision where several are open.
    """
    checked = Options.checked("tool_exec", **options)
    runner = _Runner(checked, Toolbox(tools, use=checked.use_tools))
    writes = (checked.messages_key, checked.tool_call_key, CALLS, PARTIAL, "context")
    ports = ("done", "error") if checked.tool_error_mode == "raise" else ("done",)
    return node(iri, ports=ports, writes=writes, reducers={checked.messages_key: "append"})(runner.visit)


class _Speaker:
    """The agent node. Messages of a history are read once, however often the node is visited."""

    def __init__(self, options: Options, toolbox: Toolbox) -> None:
        self.options = options
        self.toolbox = toolbox
        self.model = opened(options)
        self._read: OrderedDict[int, tuple[list[Any], list[Message]]] = OrderedDict()

    async def visit(self, ctx: Context) -> Outcome:
        options = self.options
        history: list[Any] = ctx.state.get(options.messages_key) or []
        messages = self._messages(history)
        said: list[Message] = []
        if not messages and ctx.state.get(options.input_key):
            said.append(Message("user", str(ctx.state[options.input_key])))
        rounds = _tool_rounds(messages)
        spent = options.max_tool_rounds is not None and rounds >= options.max_tool_rounds
        specs = () if spent else self.toolbox.specs()
        system = "\n\n".join(part for part in (str(options.system or ""), self.toolbox.skill_text()) if part) or None
        request = Request(
            messages=[*messages, *said] if said else messages,
            system=system,
            tools=specs,
            response_schema=fmt.asked if (fmt := options.answer_format()) else None,
            temperature=options.temperature,
            max_tokens=options.max_tokens,
        )
        reply = await collect(self.model.stream(request))
        text, calls = reply.text, reply.calls
        if not calls and specs and options.parse_text_tool_calls:
            decoded = decode_calls(text, specs)
            text, calls = decoded.text, decoded.calls
        named = _named(calls, messages, ctx.step)
        said.append(Message("assistant", text, named))
        writes: dict[str, Any] = {
            options.messages_key: [one.to_json() for one in said],
            CALLS: [one.to_json() for one in named],
            options.tool_call_key: "pending" if named else "",
        }
        if not named:
            writes[options.output_key] = text
        return Outcome("done", writes)

    def _messages(self, history: list[Any]) -> list[Message]:
        held, read = self._read.get(id(history), (history, []))
        if held is not history or len(read) > len(history):
            read = []
        read.extend(Message.from_json(one) for one in history[len(read) :])
        self._read[id(history)] = (history, read)
        while len(self._read) > _HISTORIES:
            self._read.popitem(last=False)
        return read


class _Runner:
    """The tools node."""

    def __init__(self, options: Options, toolbox: Toolbox) -> None:
        self.options = options
        self.toolbox = toolbox

    async def visit(self, ctx: Context) -> Outcome:
        options = self.options
        calls = [ToolCall(one["id"], one["name"], one["arguments"]) for one in ctx.state.get(CALLS) or ()]
        results: dict[str, Any] = dict(ctx.state.get(PARTIAL) or {})
        asked: list[Mapping[str, Any]] = []
        ready: list[ToolCall] = []
        for call in calls:
            if call.id in results:
                continue
            question, settled = await self._judge(call, _decision(ctx.answer, call.id))
            if question is not None:
                asked.append({"tool_call_id": call.id, "name": call.name, "arguments": call.arguments, "question": question})
            elif isinstance(settled, ToolCall):
                ready.append(settled)
            else:
                results[call.id] = settled
        await self._run(ctx, ready, results)
        if asked:
            return Outcome.pause({"interrupts": asked} if len(asked) > 1 else asked[0], {PARTIAL: results})
        return self._done(ctx, calls, results, options)

    def _done(self, ctx: Context, calls: Sequence[ToolCall], results: Mapping[str, Any], options: Options) -> Outcome:
        failed = next((call for call in calls if not results[call.id]["ok"]), None)
        said = [self._message(call, results[call.id]).to_json() for call in calls]
        writes: dict[str, Any] = {options.messages_key: said, CALLS: [], PARTIAL: {}, options.tool_call_key: ""}
        rows = [
            Call(
                call_id=call.id,
                name=call.name,
                arguments=call.arguments,
                args_hash="",
                state="succeeded",
                index=index,
                step=ctx.step,
                reported=results[call.id].get("reported"),
            )
            for index, call in enumerate(calls)
        ]
        context = patched(ctx.state.get("context") or {}, rows)
        if context is not None:
            writes["context"] = context
        if failed is not None and options.tool_error_mode == "raise":
            writes["error"] = {
                "code": "tool_error",
                "message": f"{failed.name} failed: {results[failed.id]['result']}",
                "placement": ctx.placement,
            }
            return Outcome("error", writes)
        return Outcome("done", writes)

    def _message(self, call: ToolCall, result: Mapping[str, Any]) -> Message:
        tool = self.toolbox.get(call.name)
        text = shorten(result_text(result["result"]), tool.max_chars if tool else 50_000, call.id)
        return Message("tool", text, tool_call_id=call.id, is_error=not result["ok"])

    async def _judge(self, call: ToolCall, decision: Mapping[str, Any] | None) -> tuple[str | None, "ToolCall | Mapping[str, Any]"]:
        """A question to ask, or the call to run, or its result without running."""
        tool = self.toolbox.get(call.name)
        if tool is None or isinstance(call.arguments, str) or argument_fault(tool, call.arguments) is not None:
            return None, call
        if tool.human:
            return self._question(call, decision)
        if decision is not None:
            return self._decided(call, decision)
        match await resolve_all((tool.approval, self.options.tool_approval), call.name, call.arguments):
            case Approve():
                return None, call
            case Ask(prompt):
                return prompt, call
            case Deny(reason):
                return None, _denied(reason)

    @staticmethod
    def _question(call: ToolCall, decision: Mapping[str, Any] | None) -> tuple[str | None, "ToolCall | Mapping[str, Any]"]:
        if decision is None:
            return question_text(cast("dict[str, Any]", call.arguments)), call
        if decision["decision"] == "answer":
            return None, {"ok": True, "result": decision.get("value")}
        return None, _denied(decision.get("reason"))

    @staticmethod
    def _decided(call: ToolCall, decision: Mapping[str, Any]) -> tuple[str | None, "ToolCall | Mapping[str, Any]"]:
        match decision["decision"]:
            case "approve":
                return None, call
            case "edit":
                return None, ToolCall(call.id, call.name, decision["value"])
            case _:
                return None, _denied(decision.get("reason"))

    async def _run(self, ctx: Context, calls: Sequence[ToolCall], results: dict[str, Any]) -> None:
        """Run calls at most `tool_concurrency` at once; an exclusive one runs alone."""
        gate = asyncio.Semaphore(self.options.tool_concurrency)

        async def one(call: ToolCall) -> None:
            async with gate:
                results[call.id] = await self._execute(ctx, call)

        group: list[ToolCall] = []
        for call in [*calls, None]:
            tool = self.toolbox.get(call.name) if call is not None else None
            if call is not None and not (tool is not None and tool.exclusive):
                group.append(call)
                continue
            async with asyncio.TaskGroup() as tasks:
                for member in group:
                    tasks.create_task(one(member))
            group = []
            if call is not None:
                await one(call)

    async def _execute(self, ctx: Context, call: ToolCall) -> Mapping[str, Any]:
        tool: Tool | None = self.toolbox.get(call.name)
        timeout = tool.timeout if tool is not None and tool.timeout is not None else self.options.tool_timeout
        retries = tool.retries if tool is not None and tool.retries else self.options.tool_retries
        context = ToolContext(call_id=call.id, context=ctx.state.get("context") or {}, timeout=timeout, retries=retries)
        done = await execute(tool, call.arguments, context, known=self.toolbox.names(), name=call.name)
        return {"ok": done.ok, "result": done.result, "reported": done.reported()}


def _decision(answer: Any, call_id: str) -> Mapping[str, Any] | None:
    """The decision for one call in an answer to a pause. Raises Invalid for what is none; fails closed."""
    if answer is None:
        return None
    found: Any = answer
    if isinstance(answer, Mapping) and "decision" not in answer:
        found = cast("Mapping[str, Any]", answer).get(call_id)
        if found is None:
            return None
    if isinstance(found, Mapping) and cast("Mapping[str, Any]", found).get("decision") in ("approve", "deny", "edit", "answer"):
        return cast("Mapping[str, Any]", found)
    raise Invalid(f"call {call_id}: an answer is a decision such as causeline.approve(), not {found!r}")


def _denied(reason: str | None) -> Mapping[str, Any]:
    return {"ok": False, "result": f"This call was not approved: {reason}" if reason else "This call was not approved."}


def _tool_rounds(messages: Sequence[Message]) -> int:
    """Replies with calls since the last user message."""
    rounds = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        rounds += bool(message.tool_calls)
    return rounds


def _named(calls: Sequence[ToolCall], messages: Sequence[Message], step: int) -> tuple[ToolCall, ...]:
    """Calls with ids of their own in this history."""
    used = {call.id for message in _turn(messages) for call in message.tool_calls}
    named: list[ToolCall] = []
    for index, call in enumerate(calls):
        fresh = bool(call.id) and call.id not in used
        call_id = call.id if fresh else derive("call_", len(messages), step, index)
        used.add(call_id)
        named.append(ToolCall(call_id, call.name, call.arguments))
    return tuple(named)


def _turn(messages: Sequence[Message]) -> Iterable[Message]:
    """The messages since the last user message; a provider's ids may come again in a later turn, and pairing is by turn."""
    for message in reversed(messages):
        if message.role == "user":
            return
        yield message

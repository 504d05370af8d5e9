"""The step that runs tools: every call of the latest reply that has no result yet.

Law: a finished call is never run again. A result is recorded when it arrives and becomes causal nodes with
the step, in call order, so that timing never changes an id. Calls that wait for a person or for the client
never keep the others from running.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from causeline.agent.approvals import Verdict, judge
from causeline.agent.conversation import Conversation
from causeline.agent.remember import REMEMBER, note
from causeline.causal import Append, canonical
from causeline.errors import Invalid
from causeline.graph.node import Context, Outcome, node
from causeline.models.transcript import repeated
from causeline.tools.calls import FINISHED, Call, Ledger
from causeline.tools.execute import Executed, evidence, execute
from causeline.tools.tool import Tool, ToolContext

@node("urn:causeline:node:call_tools", ports=("model", "exit"), writes=("log", "calls", "context", "result"))
async def call_tools(ctx: Context) -> Outcome:
    """Run what can run. `model` when every call has a result, `exit` when the client has calls to execute,
    paused while a person has to answer."""
    step = ToolStep(ctx)
    await step.run()
    return step.outcome()


class ToolStep:
    """One visit of the tools step."""

    def __init__(self, ctx: Context, only: str | None = None) -> None:
        self.ctx = ctx
        self.talk = ctx.use(Conversation)
        if "log" in ctx.state:
            self.talk.fold(ctx.state["log"])
        self.ledger = ctx.use(Ledger)
        self.calls: dict[str, Call] = {call.call_id: call for call in self.ledger.open_calls() if only in (None, call.call_id)}
        self.questions: list[Mapping[str, Any]] = []

    async def run(self) -> None:
        """Announce the calls, settle what needs no running, then run the rest group by group."""
        for call in self.calls.values():
            self._announce(call)
        ready: list[Call] = []
        for call in list(self.calls.values()):
            if call.client or call.state in FINISHED or (call.state == "unknown" and call.result is not None):
                continue
            verdict = await judge(self.talk, call, self.talk.scope.answers.get(call.call_id))
            if verdict.question is not None:
                self._ask(call, verdict)
            elif verdict.result is not None:
                await self._settle(call, verdict)
            else:
                ready.append(replace(call, arguments=verdict.arguments, args_hash=verdict.args_hash))
        for group in self.talk.segments([(call.call_id, call.name) for call in ready]):
            await self._group([next(call for call in ready if call.call_id == call_id) for call_id in group])

    async def _group(self, calls: Sequence[Call]) -> None:
        """Run calls side by side, at most `tool_concurrency` at once. Each batch is claimed with one write."""
        width = self.talk.options.tool_concurrency
        for start in range(0, len(calls), width):
            batch = calls[start : start + width]
            claims = [self._claimed(call) for call in batch if self._needs_claim(call)]
            if claims:
                await self.ledger.move(claims)
            if len(batch) == 1:
                await self._execute(batch[0])
                continue
            async with asyncio.TaskGroup() as tasks:
                for call in batch:
                    tasks.create_task(self._execute(call))

    def _needs_claim(self, call: Call) -> bool:
        tool = self.talk.toolbox.get(call.name)
        return call.state != "started" and tool is not None and tool.needs_started

    def _claimed(self, call: Call) -> Call:
        claimed = replace(call, state="started", attempts=call.attempts + 1)
        self.calls[call.call_id] = claimed
        return claimed

    async def _execute(self, call: Call) -> None:
        tool = self.talk.toolbox.get(call.name)
        if call.name == REMEMBER and tool is not None:
            executed = self._remember(call)
        else:
            executed = await execute(tool, call.arguments, self._context(call, tool), known=self.talk.toolbox.names(), name=call.name)
        await self._finish(call, executed, "succeeded" if executed.ok else "failed")

    def _context(self, call: Call, tool: Tool | None) -> ToolContext:
        def progress(event: Mapping[str, Any]) -> None:
            self.ctx.emit({"type": "tool_progress", "tool_call_id": call.call_id, "progress": dict(event)})

        scope, options = self.talk.scope, self.talk.options
        return ToolContext(
            call_id=call.call_id,
            run_id=scope.run_id,
            session_id=scope.session_id,
            attempt=max(call.attempts, 1),
            context=self.ctx.state.get("context") or {},
            progress=progress,
            timeout=tool.timeout if tool and tool.timeout is not None else options.tool_timeout,
            retries=tool.retries if tool and tool.retries else options.tool_retries,
        )

    def _remember(self, call: Call) -> Executed:
        try:
            note(call.arguments, self.talk.options.semantic_types(), dynamic=self.talk.options.allow_dynamic_node_types, parent="")
        except Invalid as error:
            return Executed(ok=False, result=error.message)
        return Executed(ok=True, result="kept")

    async def _settle(self, call: Call, verdict: Verdict) -> None:
        """A call that ends without running: denied, answered by a person, or of unknown outcome."""
        await self._finish(call, Executed(ok=verdict.ok, result=verdict.result), verdict.state)

    async def _finish(self, call: Call, executed: Executed, state: Any) -> None:
        row = replace(self.calls[call.call_id], state=state, ok=executed.ok, result=executed.result, arguments=call.arguments,
                      args_hash=call.args_hash, reported=executed.reported())
        self.calls[call.call_id] = row
        self._result_event(row)
        await self.ledger.finish(row)

    def _ask(self, call: Call, verdict: Verdict) -> None:
        self.questions.append({
            "kind": verdict.kind, "tool_call_id": call.call_id, "name": call.name, "arguments": call.arguments,
            "args_hash": call.args_hash, "question": verdict.question, "reason": verdict.reason,
        })

    def _announce(self, call: Call) -> None:
        self.ctx.emit({"type": "tool_call_start", "tool_call_id": call.call_id, "name": call.name, "client": call.client})
        text = call.arguments if isinstance(call.arguments, str) else _json(call.arguments)
        self.ctx.emit({"type": "tool_call_args", "tool_call_id": call.call_id, "delta": text})
        self.ctx.emit({"type": "tool_call_end", "tool_call_id": call.call_id})

    def _result_event(self, row: Call) -> None:
        text = row.result if isinstance(row.result, str) else _json(row.result)
        self.ctx.emit({"type": "tool_call_result", "tool_call_id": row.call_id, "content": text, "is_error": not row.ok})

    def outcome(self) -> Outcome:
        """What the visit writes and where it goes."""
        if self.questions:
            return Outcome.pause({"interrupts": self.questions})
        finished = [call for call in self.calls.values() if not call.client]
        writes: dict[str, Any] = {"log": self._appends(finished)}
        context = patched(self.ctx.state.get("context") or {}, finished)
        if context is not None:
            writes["context"] = context
            self.ctx.emit({"type": "context_changed", "context": context})
        stop = self._stop(finished, writes["log"])
        client = [call.call_id for call in self.calls.values() if call.client and call.state == "awaiting"]
        if stop is not None:
            writes["result"] = stop
        elif client:
            writes["result"] = {"stop_reason": "client_tools", "answer": None, "pending_tool_call_ids": client}
        return Outcome("exit" if stop or client else "model", writes)

    def _appends(self, finished: Sequence[Call]) -> list[Append]:
        """Result, verification and resource nodes, in call order."""
        appends: list[Append] = []
        for call in sorted(finished, key=lambda one: one.index):
            asked = self.talk.transcript.open[call.call_id][0]
            payload = {"call_id": call.call_id, "tool": call.name, "result": call.result, "ok": bool(call.ok)}
            result = Append("tool_result", payload, parents=(asked,))
            appends.append(result)
            appends.extend(evidence(call, result))
            if call.name == REMEMBER and call.ok:
                appends.append(note(call.arguments, self.talk.options.semantic_types(),
                                    dynamic=self.talk.options.allow_dynamic_node_types, parent=result))
        return appends

    def _stop(self, finished: Sequence[Call], appends: list[Append]) -> Mapping[str, Any] | None:
        """A reason to end the run here, if there is one; adds the warning before a loop is ended."""
        options = self.talk.options
        failed = next((call for call in finished if not call.ok and call.state == "failed"), None)
        if failed is not None and options.tool_error_mode == "raise":
            error = {"code": "tool_error", "message": f"{failed.name} failed: {failed.result}"}
            return {"stop_reason": "tool_error", "failed": True, "error": error}
        seen = self.talk.transcript.repeats
        results = [one for one in appends if one.kind == "tool_result"]
        for call, result in zip(sorted(finished, key=lambda one: one.index), results, strict=True):
            seen = repeated(seen, call.name, self.talk.transcript.open[call.call_id][2], call.result)
            if seen[1] > options.max_repeats:
                error = {"code": "loop", "message": f"{call.name} was called {seen[1]} times in a row with the same arguments and result"}
                return {"stop_reason": "loop", "failed": True, "error": error}
            if seen[1] == options.max_repeats:
                detail = (f"{call.name} has now returned this same result {seen[1]} times in a row for the same arguments. "
                          "Do something else, or answer with what you have; once more and the run is stopped.")
                appends.append(Append("protocol_error", {"code": "repeated_call", "detail": detail}, parents=(result,), advance=False))
        return None


def patched(context: Mapping[str, Any], calls: Sequence[Call]) -> Mapping[str, Any] | None:
    """The context object after the tools' patches, in call order (None deletes a key); None if nothing was patched."""
    patches = [call.reported["context_patch"] for call in calls if call.reported and call.reported.get("context_patch")]
    if not patches:
        return None
    merged = dict(context)
    for patch in patches:
        merged.update(patch)
    return {key: value for key, value in merged.items() if value is not None}


def _json(value: Any) -> str:
    return canonical(value).decode()

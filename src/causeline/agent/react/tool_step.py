"""The step that runs tools: every call of the latest reply that has no result yet.

Law: a finished call is never run again. A result is recorded when it arrives and becomes causal nodes with
the step, in call order, so that timing never changes an id. Calls that wait for a person or for the client
never keep the others from running.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from causeline.agent.react.call_results import announce, logged, patched, tell_result
from causeline.agent.react.conversation import Conversation
from causeline.agent.react.permission import Permission, as_edited, permission_for, waits_below
from causeline.agent.react.remember import REMEMBER, note
from causeline.agent.react.sub_agents import below
from causeline.causal import Append
from causeline.errors import Invalid
from causeline.events import RunEvent
from causeline.graph.node import Context, HandBack, Outcome
from causeline.memory.long_term import Memories
from causeline.models.transcript import repeated, result_text
from causeline.run.ledger import FINISHED, Call, CallState, Ledger
from causeline.run.scope import Recall, Recalled
from causeline.tools.arguments import Prepared
from causeline.tools.execute import Executed, execute, unknown_tool
from causeline.tools.result_json import plain
from causeline.tools.tool import Tool, ToolContext


class _Ready(NamedTuple):
    """A call that may run: its row, its tool (None if there is none), and what has been made of its arguments."""

    call: Call
    tool: Tool | None
    prepared: Prepared | None

    @property
    def needs_claim(self) -> bool:
        """Whether its start must be on record before it, and is not yet."""
        return self.tool is not None and self.tool.needs_started and self.call.state != "started"


class ToolStep:
    """One visit of the tools step, for these rows of the ledger."""

    def __init__(self, ctx: Context, talk: Conversation, ledger: Ledger, rows: Iterable[Call]) -> None:
        self.ctx = ctx
        self.talk = talk
        self.ledger = ledger
        self.calls: dict[str, Call] = {call.call_id: call for call in rows}
        self.questions: list[Mapping[str, Any]] = []
        self._goes_on_elsewhere = False

    @classmethod
    def of(cls, ctx: Context, talk: Conversation, only: str | None = None) -> "ToolStep":
        """The step for all calls that are open, or for the one that is named. The ledger may still hold calls whose result the log has."""
        ledger = ctx.use(Ledger)
        held = ledger.open_calls()
        wanted = talk.transcript.open if only is None else {only}
        return cls(ctx, talk, ledger, [call for call in held if call.call_id in wanted])

    async def run(self) -> None:
        """Announce the calls, settle what needs no running, then run the rest group by group."""
        for call in self.calls.values():
            if call.call_id in self.talk.scope.settled:
                continue  # the run that carried it out has told of it
            announce(self.ctx, as_edited(self.talk, call, self.talk.scope.answers.get(call.call_id)), self.talk.scope)
        ready: dict[str, _Ready] = {}
        asked: list[Call] = []
        for call in list(self.calls.values()):
            if call.client:
                continue
            if call.state in FINISHED or (call.state == "unknown" and call.result is not None):
                self._tell(call)
                continue
            tool = self.talk.toolbox.get(call.name)
            permission = await permission_for(self.talk, call, tool, self.talk.scope.answers.get(call.call_id))
            self._keep(call, permission.decided)
            if permission.question is not None:
                asked += self._ask(call, permission)
            elif permission.settled:
                await self._finish(call, Executed(ok=permission.ok, result=permission.result), permission.state)
            else:
                ready[call.call_id] = self._ready(call.call_id, tool, permission)
        if asked:
            await self.ledger.move(asked)
        await self._execute_all(ready)

    def _ready(self, call_id: str, tool: Tool | None, permission: Permission) -> _Ready:
        row = self.calls[call_id]
        if permission.arguments is not row.arguments:
            row = replace(row, arguments=permission.arguments, args_hash=permission.args_hash)
        return _Ready(row, tool, permission.prepared)

    def _keep(self, call: Call, decided: Mapping[str, Any] | None) -> None:
        """Put what a person decided on the call's row, once."""
        if decided is not None and decided not in call.decisions:
            self.calls[call.call_id] = replace(call, decisions=[*call.decisions, decided])

    async def _execute_all(self, ready: Mapping[str, _Ready]) -> None:
        """Raises HandBack where a call is left to whoever goes on with the run."""
        for group in self.talk.segments([(call_id, each.call.name) for call_id, each in ready.items()]):
            await self._group([ready[call_id] for call_id in group])
        if self._goes_on_elsewhere:
            raise HandBack

    async def _group(self, calls: Sequence[_Ready]) -> None:
        """Run calls side by side, at most `tool_concurrency` at once. Each batch is claimed with one write. Raises HandBack where no
        further one may begin."""
        width = self.talk.options.tool_concurrency
        for start in range(0, len(calls), width):
            batch = calls[start : start + width]
            self.ledger.begin([ready.call for ready in batch])
            claims = [self._claimed(ready) for ready in batch if ready.needs_claim]
            if claims:
                await self.ledger.move(claims)
            if len(batch) == 1:
                await self._execute(batch[0])
                continue
            try:
                async with asyncio.TaskGroup() as tasks:
                    for ready in batch:
                        tasks.create_task(self._execute(ready))
            except BaseExceptionGroup as several:
                raise several.exceptions[0] from several

    def _claimed(self, ready: _Ready) -> Call:
        claimed = replace(ready.call, state="started", attempts=ready.call.attempts + 1)
        self.calls[claimed.call_id] = claimed
        return claimed

    async def _execute(self, ready: _Ready) -> None:
        call, tool = ready.call, ready.tool
        if tool is None:
            executed = unknown_tool(call.name, self.talk.toolbox.names())
        elif call.name == REMEMBER:
            executed = self._remember(call)
        else:
            executed = await execute(tool, call.arguments, self._context(call, tool), prepared=ready.prepared)
        if executed.waits_for is not None:
            if executed.waits_for:
                await self._wait(call, executed.waits_for)
            self._goes_on_elsewhere = self._goes_on_elsewhere or not executed.waits_for
            return
        await self._finish(call, executed, "succeeded" if executed.ok else "failed")

    def _context(self, call: Call, tool: Tool) -> ToolContext:
        def progress(event: Mapping[str, Any]) -> None:
            self.ctx.emit(RunEvent(type="tool_progress", tool_call_id=call.call_id, progress=plain(dict(event))))

        def retrying(tried: Mapping[str, Any]) -> None:
            event = RunEvent(type="tool_retry", tool_call_id=call.call_id, attempt=tried["n"], wait=tried["wait"], code=tried["code"])
            self.ctx.emit(event)

        scope, options = self.talk.scope, self.talk.options
        timeout = tool.timeout if tool.timeout is not None else options.tool_timeout
        return ToolContext(
            call_id=call.call_id,
            idempotency_key=call.idempotency_key,
            run_id=scope.run_id,
            session_id=scope.session_id,
            attempt=max(self.calls[call.call_id].attempts, 1),
            context=self.ctx.state.get("context") or {},
            progress=progress,
            retrying=retrying,
            sub_run=below(self.ctx, scope, call),
            deadline=None if timeout is None else time.monotonic() + timeout,
            timeout=timeout,
            retries=tool.retries or options.tool_retries,
            deps=scope.deps,
            memory=self.talk.memory.store(self.ctx.find(Memories)) if self.talk.memory is not None else None,
            history=self._history(),
        )

    def _history(self) -> Callable[[str, int], Awaitable[Recalled]] | None:
        """How a tool finds earlier runs, where there are any."""
        recall = self.ctx.find(Recall)
        scope = self.talk.scope
        return None if recall is None else lambda query, most: recall.recall(scope, {"runs": "owner", "k": most}, query)

    def _remember(self, call: Call) -> Executed:
        try:
            note(call.arguments, self.talk.options.semantic_types(), dynamic=self.talk.options.allow_dynamic_node_types, parent="")
        except Invalid as error:
            return Executed(ok=False, result=error.message)
        return Executed(ok=True, result="kept")

    async def _finish(self, call: Call, executed: Executed, state: CallState) -> None:
        row = self.calls[call.call_id]
        begun = 1 if row.state == "started" or waits_below(row) else 0  # its first attempt is counted already
        if executed.tries:
            tried = [{"call_id": call.call_id, **attempt} for attempt in executed.tries]
            self.talk.scope.facts_at(self.ctx.path[0]).setdefault("attempts", []).extend(tried)
        row = replace(
            row,
            state=state,
            attempts=row.attempts + max(executed.attempts - begun, 0),
            ok=executed.ok,
            result=executed.result,
            arguments=call.arguments,
            args_hash=call.args_hash,
            reported=executed.reported(),
        )
        self.calls[call.call_id] = row
        self._tell(row, executed.written)
        await self.ledger.finish(row)

    def _tell(self, row: Call, text: str | None = None) -> None:
        if row.call_id not in self.talk.scope.settled:
            tell_result(self.ctx, row, self.talk.scope, text)

    def _ask(self, call: Call, permission: Permission) -> Sequence[Call]:
        """Note a question to a person. Returns the call's row if it changes: from now on it waits for the answer."""
        self.questions.append(
            {
                "kind": permission.kind,
                "tool_call_id": call.call_id,
                "name": call.name,
                "arguments": permission.arguments,
                "args_hash": permission.args_hash,
                "question": permission.question,
                "reason": permission.reason,
            }
        )
        if call.state != "pending":
            return ()
        self.calls[call.call_id] = replace(call, state="awaiting")
        return (self.calls[call.call_id],)

    async def _wait(self, call: Call, questions: Sequence[Mapping[str, Any]]) -> None:
        """A call whose own run has stopped with questions: this run asks them too."""
        self.questions.extend({**question, "parent_call": call.call_id} for question in questions)
        row = replace(
            self.calls[call.call_id], state="awaiting", attempts=max(call.attempts, 1), arguments=call.arguments, args_hash=call.args_hash
        )
        if row != self.calls[call.call_id]:
            self.calls[call.call_id] = row
            await self.ledger.move([row])

    def outcome(self) -> Outcome:
        """What the visit writes and where it goes."""
        if self.questions:
            return Outcome.pause({"interrupts": self.questions})
        finished = [call for call in self.calls.values() if not call.client]
        writes: dict[str, Any] = {"log": [one for call in finished for one in logged(self.talk, call)]}
        context = patched(self.ctx.state.get("context") or {}, finished)
        if context is not None:
            writes["context"] = context
            self.ctx.emit(RunEvent(type="context_changed", context=context))
        stop = self._failed(finished) or self._looped(finished, writes["log"])
        client = [call.call_id for call in self.calls.values() if call.client and call.state == "awaiting"]
        if stop is not None:
            writes["result"] = stop
        elif client:
            writes["result"] = {"stop_reason": "client_tools", "answer": None, "pending_tool_call_ids": client}
        return Outcome("exit" if stop or client else "model", writes)

    def _failed(self, finished: Sequence[Call]) -> Mapping[str, Any] | None:
        """Why a failed call ends the run, where the agent wants that."""
        if self.talk.options.tool_error_mode != "raise":
            return None
        failed = next((call for call in finished if not call.ok and call.state == "failed"), None)
        if failed is None:
            return None
        error = {"code": "tool_error", "message": f"{failed.name} failed: {result_text(failed.result)}"}
        return {"stop_reason": "tool_error", "failed": True, "error": error}

    def _looped(self, finished: Sequence[Call], appends: list[Append]) -> Mapping[str, Any] | None:
        """Adds a warning where a call has had the same result too often in a row; if the model had been warned before, why
        the run ends."""
        most, transcript = self.talk.max_repeats, self.talk.transcript
        seen = transcript.repeats
        warned = seen[1] >= most
        results = [one for one in appends if one.kind == "tool_result"]
        for call, result in zip(finished, results, strict=True):
            asked, _, arguments = transcript.open[call.call_id]
            seen = repeated(seen, call.name, arguments, call.result)
            warned = warned and seen[1] > 1
            if seen[1] > most and warned:
                error = {"code": "loop", "message": f"{call.name} was called {seen[1]} times in a row with the same arguments and result"}
                return {"stop_reason": "loop", "failed": True, "error": error}
            if seen[1] == most:
                detail = (
                    f"{call.name} has now returned this same result {seen[1]} times in a row for the same arguments. "
                    "Do something else, or answer with what you have; once more and the run is stopped."
                )
                appends.append(Append("protocol_error", {"code": "repeated_call", "detail": detail}, parents=(self._asker(asked), result)))
        return None

    def _asker(self, asked: str) -> str:
        """The inference a tool_call rests on."""
        return self.talk.log.node(asked).parents[0]

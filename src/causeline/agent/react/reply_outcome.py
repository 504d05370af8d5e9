"""What a reply comes to: tools to run, an answer, or something that cannot be used.

Law: whatever the model says becomes an `inference` node, and what follows from it has that node as parent. A reply
that cannot be used is asked for again a bounded number of times, whatever is wrong with it.
"""

from collections.abc import Sequence
from typing import Any

from causeline.agent.react.call_results import announce, tell_result
from causeline.agent.react.conversation import Conversation, Shown
from causeline.agent.react.remember import REMEMBER, note, only_remember
from causeline.agent.react.structured_answer import check_output
from causeline.causal import Append
from causeline.errors import Invalid
from causeline.graph.node import Context, Outcome
from causeline.models.messages import ToolCall
from causeline.models.model import UNREADABLE, Reply
from causeline.models.stream import FINISHES
from causeline.models.text_calls import Decoded
from causeline.run.ledger import Call, arguments_hash

SPEAKS_AGAIN = 1
"""How often a reply that says nothing is asked for again."""


NO_REPLY_OBJECT = "The reply is neither an answer object nor a call object of a tool in scope."
WITHHELD = "the provider's content filter withheld the reply, or a part of it"


class ReplyOutcome:
    """One reply, read. `outcome` says what follows."""

    def __init__(self, ctx: Context, talk: Conversation, reply: Reply, shown: Shown) -> None:
        decoded: Decoded = talk.decode(reply)
        self.ctx, self.talk = ctx, talk
        self.text = decoded.text
        self.spent = talk.budget_spent()
        self.calls = () if self.spent else talk.named(decoded.calls, ctx.step)
        talk.scope.asked_by.update((call.id, talk.message) for call in self.calls)
        self.unasked = decoded.calls if self.spent else ()
        said = {"text": self.text, "calls": [call.to_json() for call in self.calls], "finish": reply.finish}
        if reply.parts:
            said["reasoning"] = list(reply.parts)
        self.inference = Append("inference", said, parents=shown)
        self.asked = [Append("tool_call", _asked(call), parents=(self.inference,)) for call in self.calls]
        self.faults: list[Append] = []
        self.cut = reply.finish == "length"
        if self.cut:
            self._fault("cut_reply", "the reply was cut at its length limit")
        elif reply.finish == "content_filter":
            self._fault("content_filter", WITHHELD)
        elif reply.finish not in (*FINISHES, UNREADABLE):
            self._fault("cut_reply", f"the reply ended for a reason that is not known: {reply.finish}")
        self.withheld = reply.finish == "content_filter"
        self.unread = decoded.problem if talk.options.tool_mode == "text" else NO_REPLY_OBJECT if reply.finish == UNREADABLE else None
        if decoded.problem and not self.unread:
            self._fault("unparseable_action", decoded.problem)

    def outcome(self) -> Outcome:
        spoke = bool(self.text.strip())
        only_notes = spoke and REMEMBER in self.talk.toolbox and only_remember([call.name for call in self.calls])
        if self.calls and not only_notes:
            log = [self.inference, *self.asked, *self.faults]
            return Outcome("tools", {"log": log, "calls": self.talk.rows(self.calls, self.ctx.step)})
        if self.unread:
            return self._again("unparseable_action", f"{self.unread} Write it again, whole.", self.talk.options.max_retries)
        return self._answer() if spoke else self._nothing()

    def _nothing(self) -> Outcome:
        """No text and no call that may run."""
        if self.unasked:
            detail = f"The tools cannot be used any more in this turn, so {self._unasked()} did not run. Answer with what you have."
            return self._again("unexpected_call", detail, SPEAKS_AGAIN, stop_reason="tool_rounds")
        if self.withheld:
            error = {"code": "content_filter", "message": WITHHELD}
            log = [self.inference, *self.faults]
            return Outcome("exit", {"log": log, "result": {"stop_reason": "model_error", "failed": True, "error": error}})
        return self._again("empty_reply", "the model's reply was empty", SPEAKS_AGAIN)

    def _answer(self) -> Outcome:
        """The text is the answer, with the notes that came beside it."""
        if self.unasked:
            self._fault("dropped_call", f"the reply asked for tools when none could be used: {self._unasked()}")
        value, finding = check_output(self.talk.options, self.text, cut=self.cut)
        gaps = self.talk.completion.gaps(value) if finding is None and self.talk.completion is not None else []
        retries = self.talk.options.max_retries
        if gaps and self.talk.transcript.faults.get("invalid_output", 0) < retries:
            finding = f"This is not done yet: {' '.join(gaps)} Do that, or answer again and say why it need not be done."
        answer = Append("answer", value, parents=(self.inference,)) if finding is None else None
        kept = [_keep(self.talk, call, asked, answer) for call, asked in zip(self.calls, self.asked, strict=True)]
        rows = [self._noted(call, index, result) for index, (call, (result, _)) in enumerate(zip(self.calls, kept, strict=True))]
        results, notes = [result for result, _ in kept], [one for _, one in kept if one is not None]
        more = {"calls": rows} if rows else {}
        if answer is None:
            return self._again("invalid_output", finding or "", retries, [*results, *notes], more)
        log = [self.inference, *self.asked, *self.faults, *results, answer, *notes]
        if self.talk.completion is not None:
            judged = {"method": "completion", "ok": not gaps, "gaps": gaps}
            log.append(Append("verification", judged, parents=(answer,), advance=False))
        return Outcome("exit", {"log": log, "result": {"stop_reason": _reason(self.talk), "answer": value}, **more})

    def _unasked(self) -> str:
        return ", ".join(dict.fromkeys(call.name for call in self.unasked))

    def _again(
        self,
        code: str,
        detail: str,
        retries: int,
        before: Sequence[Append] = (),
        more: dict[str, Any] | None = None,
        *,
        stop_reason: str = "model_error",
    ) -> Outcome:
        """Ask once more, or end the run: every `retries + 1` faults of one kind since the last use of tools are one too many."""
        fault = self._fault(code, detail)
        log = [self.inference, *self.asked, *self.faults[:-1], *before, fault]
        if (self.talk.transcript.faults.get(code, 0) + 1) % (retries + 1):
            return Outcome("retry", {"log": log, **(more or {})})
        error = {"code": code, "message": detail if not retries else f"{detail} (asked {retries + 1} times)"}
        return Outcome("exit", {"log": log, "result": {"stop_reason": stop_reason, "failed": True, "error": error}, **(more or {})})

    def _fault(self, code: str, detail: str) -> Append:
        fault = Append("protocol_error", {"code": code, "detail": detail}, parents=(self.inference,))
        self.faults.append(fault)
        return fault

    def _noted(self, call: ToolCall, index: int, result: Append) -> Call:
        """The ledger row of a note that came beside an answer, told like any other call."""
        ok = bool(result.payload["ok"])
        row = Call(
            call_id=call.id,
            name=call.name,
            arguments=call.arguments,
            args_hash=arguments_hash(call.arguments),
            index=index,
            step=self.ctx.step,
            state="succeeded" if ok else "failed",
            ok=ok,
            result=result.payload["result"],
            opened_in=self.talk.scope.run_id,
            idempotency_key=self.talk.scope.idempotency_key(call.id),
        )
        announce(self.ctx, row, self.talk.scope)
        tell_result(self.ctx, row, self.talk.scope)
        return row


def _asked(call: ToolCall) -> dict[str, Any]:
    """The payload of a tool_call. Arguments that did not parse stand as they were written, and once more as `raw`."""
    raw = {"raw": call.arguments} if isinstance(call.arguments, str) else {}
    return {"call_id": call.id, "name": call.name, "args": call.arguments, **raw}


def _keep(talk: Conversation, call: ToolCall, asked: Append, answer: Append | None) -> tuple[Append, Append | None]:
    """The result node of a note beside a text, and the note itself where it can be kept. It rests on the answer, or on
    its own result where the text is none."""
    options = talk.options
    made = Append("tool_result", {"call_id": call.id, "tool": call.name, "result": "kept", "ok": True}, parents=(asked,))
    try:
        return made, note(call.arguments, options.semantic_types(), dynamic=options.allow_dynamic_node_types, parent=answer or made)
    except Invalid as error:
        return Append("tool_result", {"call_id": call.id, "tool": call.name, "result": error.message, "ok": False}, parents=(asked,)), None


def _reason(talk: Conversation) -> str:
    return "tool_rounds" if talk.budget_spent() else "answered"

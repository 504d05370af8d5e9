"""The step that asks the model: build the view, stream the reply, append it, say where to go.

Law: whatever the model says becomes an `inference` node, and what follows from it has that node as parent.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from causeline.agent.conversation import Conversation
from causeline.agent.output import check_output
from causeline.agent.remember import REMEMBER, note, only_remember
from causeline.causal import AgentState, Append
from causeline.errors import CauselineError, Exhausted, Invalid
from causeline.graph.node import Context, Outcome, node
from causeline.models.failures import ModelError
from causeline.models.messages import ToolCall
from causeline.models.model import Attempt, CallDelta, ReasoningDelta, Reply, Request, Retracted, TextDelta
from causeline.models.stream import Fold
from causeline.tools.scope import message_id

EMPTY_REPLIES = 2
"""An empty reply is asked for once more; the second one in a row ends the run."""


@node("urn:causeline:node:call_model", ports=("tools", "exit", "retry"), writes=("log", "calls", "result"))
async def call_model(ctx: Context) -> Outcome:
    """One model call. `tools` if the reply asks for any, `exit` with an answer or a failure, `retry` for a reply
    that cannot be used."""
    talk = ctx.use(Conversation)
    log: AgentState = ctx.state["log"]
    talk.fold(log)
    try:
        request, shown = talk.request(log)
        reply = await _stream(ctx, talk, request)
    except (ModelError, Exhausted) as error:
        return _failed("model_error", error)
    talk.scope.facts.update(_facts(reply))
    text, decoded = talk.decode(reply)
    calls = talk.named(decoded, ctx.step)
    said = {"text": text, "calls": [call.to_json() for call in calls], "finish": reply.finish}
    inference = Append("inference", said, parents=shown)
    if calls:
        return _calls(talk, inference, text, calls, ctx.step)
    if not text.strip():
        return _empty(talk, inference)
    return _answer(talk, inference, text, reply.finish)


def _calls(talk: Conversation, inference: Append, text: str, calls: Sequence[ToolCall], step: int) -> Outcome:
    raw = {"raw": True}
    asked = [
        Append("tool_call", {"call_id": call.id, "name": call.name, "args": call.arguments, **(raw if isinstance(call.arguments, str) else {})},
               parents=(inference,))
        for call in calls
    ]
    appends = [inference, *asked]
    if text.strip() and only_remember([call.name for call in calls]) and talk.toolbox.get(REMEMBER) is not None:
        answer = Append("answer", text, parents=(inference,))
        kept = [_keep(talk, call, at, answer) for call, at in zip(calls, asked, strict=True)]
        results = [result for result, _ in kept]
        notes = [one for _, one in kept if one is not None]
        return Outcome("exit", {"log": [*appends, *results, answer, *notes], "result": {"stop_reason": _reason(talk), "answer": text}})
    return Outcome("tools", {"log": appends, "calls": talk.rows(calls, step)})


def _keep(talk: Conversation, call: ToolCall, asked: Append, parent: Append) -> tuple[Append, Append | None]:
    """The result node of a note that came with the answer, and the note itself where it can be kept."""
    try:
        kept = note(call.arguments, talk.options.semantic_types(), dynamic=talk.options.allow_dynamic_node_types, parent=parent)
        result, ok = "kept", True
    except Invalid as error:
        kept, result, ok = None, error.message, False
    return Append("tool_result", {"call_id": call.id, "tool": call.name, "result": result, "ok": ok}, parents=(asked,)), kept


def _empty(talk: Conversation, inference: Append) -> Outcome:
    code, count = talk.transcript.faults
    detail = "the model's reply was empty"
    fault = Append("protocol_error", {"code": "empty_reply", "detail": detail}, parents=(inference,))
    if code == "empty_reply" and count + 1 >= EMPTY_REPLIES:
        result = {"stop_reason": "model_error", "failed": True, "error": {"code": "empty_reply", "message": f"{detail}, twice in a row"}}
        return Outcome("exit", {"log": [inference, fault], "result": result})
    return Outcome("retry", {"log": [inference, fault]})


def _answer(talk: Conversation, inference: Append, text: str, finish: str) -> Outcome:
    appends = [inference]
    if finish == "length":
        appends.append(Append("protocol_error", {"code": "cut_reply", "detail": "the reply was cut at its length limit"}, parents=(inference,)))
    value, finding = check_output(talk.options, text)
    if finding is not None:
        code, count = talk.transcript.faults
        appends.append(Append("protocol_error", {"code": "invalid_output", "detail": finding}, parents=(inference,)))
        if code == "invalid_output" and count >= talk.options.max_retries:
            error = {"code": "invalid_output", "message": finding}
            return Outcome("exit", {"log": appends, "result": {"stop_reason": "model_error", "failed": True, "error": error}})
        return Outcome("retry", {"log": appends})
    appends.append(Append("answer", value, parents=(appends[-1],)))
    return Outcome("exit", {"log": appends, "result": {"stop_reason": _reason(talk), "answer": value}})


def _reason(talk: Conversation) -> str:
    return "tool_rounds" if talk.budget_spent() else "answered"


def _failed(reason: str, error: CauselineError) -> Outcome:
    told = {"code": error.code, "message": error.message}
    return Outcome("exit", {"result": {"stop_reason": reason, "failed": True, "error": told}})


def _facts(reply: Reply) -> dict[str, Any]:
    facts: dict[str, Any] = {"usage": reply.usage.to_json(), "model": reply.model}
    if reply.request_id:
        facts["request_id"] = reply.request_id
    if any(reply.provider_ids):
        facts["provider_ids"] = list(reply.provider_ids)
    if reply.attempts:
        facts["attempts"] = [one.to_json() for one in reply.attempts]
    return facts


@dataclass(slots=True)
class _Spoken:
    """What has been announced of the reply under way."""

    ctx: Context
    run: str
    attempt: int = 0
    text: bool = False
    reasoning: bool = False
    calls: dict[int, bool] = field(default_factory=dict[int, bool])

    @property
    def id(self) -> str:
        return message_id(self.run, self.ctx.step, 0, self.attempt)

    def say(self, kind: str, **fields: Any) -> None:
        self.ctx.emit({"type": kind, "message_id": self.id, **fields})

    def close(self) -> None:
        if self.reasoning:
            self.say("reasoning_end")
        if self.text:
            self.say("text_message_end")
        self.text = self.reasoning = False

    def retract(self) -> None:
        """Nothing said so far counts; the next attempt speaks under another message id."""
        if self.text or self.reasoning or self.calls:
            self.say("message_retracted")
        self.text = self.reasoning = False
        self.calls.clear()
        self.attempt += 1


async def _stream(ctx: Context, talk: Conversation, request: Request) -> Reply:
    fold, spoken = Fold(), _Spoken(ctx, talk.scope.run_id)
    async with aclosing(talk.model.stream(request)) as deltas:
        async for delta in deltas:
            fold.add(delta)
            match delta:
                case TextDelta(text):
                    if not spoken.text:
                        spoken.say("text_message_start", role="assistant")
                        spoken.text = True
                    spoken.say("text_message_content", delta=text)
                case CallDelta(index, _, name, arguments):
                    first = {} if index in spoken.calls else {"name": name}
                    spoken.calls[index] = True
                    spoken.say("tool_call_delta", index=index, delta=arguments, **first)
                case ReasoningDelta(text):
                    if not spoken.reasoning:
                        spoken.say("reasoning_start")
                        spoken.reasoning = True
                    spoken.say("reasoning_content", delta=text)
                case Retracted():
                    spoken.retract()
                case Attempt():
                    ctx.emit({"type": "model_attempt_failed", **delta.to_json()})
                case _:
                    pass
    spoken.close()
    if spoken.attempt:
        talk.scope.facts["attempt"] = spoken.attempt
    return fold.reply()

"""One model call: show it the conversation, tell of the reply while it comes, and say what follows from it.

Law: whatever a model raises ends the turn in good order, with what was used up for it on record.
"""

from typing import Any

from causeline.agent.react.conversation import Conversation
from causeline.agent.react.reply_outcome import ReplyOutcome
from causeline.agent.react.reply_stream import ReplyStream
from causeline.errors import CauselineError, Exhausted
from causeline.graph.node import Context, Outcome
from causeline.models.model import Reply, Usage


async def ask_model(ctx: Context, talk: Conversation) -> Outcome:
    """The outcome of one call: by `tools`, `exit` or `retry`, with its inference and what follows from it in the log."""
    await talk.look_at_tools()
    try:
        request, shown = talk.request()
    except Exhausted as error:
        return _failed("tokens", error)
    stream = ReplyStream(ctx, talk.scope, talk.options.on_token)
    try:
        reply = await stream.listen(talk.model.stream(request))
    except Exception as error:  # noqa: BLE001 - whatever a model raises ends the run in good order
        talk.scope.facts.update(_failure_facts(error, stream.fold.reply()))
        return _failed("model_error", error)
    talk.scope.facts.update(_facts(reply))
    talk.scope.asked_by = stream.id
    return ReplyOutcome(ctx, talk, reply, shown).outcome()


def _failed(reason: str, error: Exception) -> Outcome:
    code = error.code if isinstance(error, CauselineError) else type(error).__name__
    told = {"code": code, "message": str(error) or code}
    return Outcome("exit", {"result": {"stop_reason": reason, "failed": True, "error": told}})


def _facts(reply: Reply) -> dict[str, Any]:
    facts: dict[str, Any] = {"usage": reply.usage.to_json(), "model": reply.model}
    if reply.request_id:
        facts["request_id"] = reply.request_id
    if any(reply.provider_ids):
        facts["provider_ids"] = list(reply.provider_ids)
    if reply.attempts:
        facts["attempts"] = [attempt.to_json() for attempt in reply.attempts]
    return facts


def _failure_facts(error: Exception, heard: Reply) -> dict[str, Any]:
    """Who failed how, and what was used up for it."""
    facts: dict[str, Any] = {}
    if heard.usage != Usage():
        facts["usage"] = heard.usage.to_json()
    attempts = error.facts.get("attempts") if isinstance(error, CauselineError) else None
    if attempts or heard.attempts:
        facts["attempts"] = attempts or [attempt.to_json() for attempt in heard.attempts]
    return facts

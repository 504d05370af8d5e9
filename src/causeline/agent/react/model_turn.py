"""One model call: show it the conversation, tell of the reply while it comes, and say what follows from it.

Law: whatever a model raises ends the turn in good order, with what was used up for it on record.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from causeline.agent.react.conversation import Conversation, Shown
from causeline.agent.react.reply_outcome import ReplyOutcome
from causeline.agent.react.reply_stream import ReplyStream
from causeline.errors import CauselineError, Exhausted, fault_of
from causeline.graph.engine.containment import from_outside
from causeline.graph.node import Context, HandBack, Outcome
from causeline.models.failures import ModelBroke
from causeline.models.model import Reply, Usage


async def ask_model(ctx: Context, talk: Conversation) -> Outcome:
    """The outcome of one call: by `tools`, `exit` or `retry`, with its inference and what follows from it in the log."""
    spent = _spent(talk)
    if spent is not None:
        return spent
    try:
        reply, shown = await hear_reply(ctx, talk)
    except Exhausted as error:
        return _failed("tokens", error)
    except HandBack:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a model raises ends the run in good order
        return _failed("model_error", error)
    return ReplyOutcome(ctx, talk, reply, shown).outcome()


async def hear_reply(ctx: Context, talk: Conversation) -> tuple[Reply, Shown]:
    """A whole reply, told of while it came, and the nodes it rests on. Raises Exhausted where the view does not fit, and what the model
    raises, with what was used up for it on record; what is no error of ours as ModelBroke."""
    await talk.look_at_tools()
    request, shown = talk.request()
    stream = ReplyStream(ctx, talk)
    try:
        reply = await stream.listen(talk.model.stream(request))
    except BaseException as error:
        if isinstance(error, HandBack) or (not isinstance(error, Exception) and from_outside(error)):
            raise
        failed = error if isinstance(error, CauselineError) else ModelBroke(error)
        _record(talk.scope.facts_at(ctx.path[0]), _failure_facts(failed, stream.fold.reply()))
        if failed is error:
            raise
        raise failed from error
    _record(talk.scope.facts_at(ctx.path[0]), _facts(reply))
    talk.said_as(stream.id)
    return reply, shown


def _record(facts: dict[str, Any], more: dict[str, Any]) -> None:
    """Add to the facts of a step; where it asks several times, usage is a sum and tries follow each other."""
    before = {key: facts[key] for key in ("usage", "attempts", "provider_ids") if key in facts and key in more}
    facts.update(more)
    for key, value in before.items():
        facts[key] = (Usage(**value) + Usage(**more[key])).to_json() if key == "usage" else [*value, *more[key]]


def _spent(talk: Conversation) -> Outcome | None:
    """The end of a run that has used up its tokens or its money."""
    options, used = talk.options, talk.scope.used
    tokens = (used.get("input_tokens") or 0) + (used.get("output_tokens") or 0)
    if options.max_total_tokens is not None and tokens >= options.max_total_tokens:
        limit = f"the run has used {tokens} tokens; max_total_tokens is {options.max_total_tokens}"
        return _failed("tokens", Exhausted(limit, limit="max_total_tokens"))
    cost = used.get("cost") or 0
    if options.max_cost is not None and cost >= options.max_cost:
        return _failed("cost", Exhausted(f"the run has cost {cost:.4f}; max_cost is {options.max_cost}", limit="max_cost"))
    return None


def _failed(reason: str, error: Exception) -> Outcome:
    return Outcome("exit", {"result": {"stop_reason": reason, "failed": True, "error": fault_of(error)}})


def _facts(reply: Reply) -> dict[str, Any]:
    facts: dict[str, Any] = {"usage": reply.usage.to_json(), "model": reply.model}
    if reply.request_id:
        facts["request_id"] = reply.request_id
    if any(reply.provider_ids):
        facts["provider_ids"] = list(reply.provider_ids)
    if reply.attempts:
        facts["attempts"] = _numbered([attempt.to_json() for attempt in reply.attempts])
    return facts


def _failure_facts(error: Exception, heard: Reply) -> dict[str, Any]:
    """Who failed how, and what was used up for it."""
    facts: dict[str, Any] = {}
    if heard.usage != Usage():
        facts["usage"] = heard.usage.to_json()
    attempts = error.facts.get("attempts") if isinstance(error, CauselineError) else None
    if attempts or heard.attempts:
        facts["attempts"] = _numbered(attempts or [attempt.to_json() for attempt in heard.attempts])
    return facts


def _numbered(attempts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The attempts of a model call as facts: `{n, model, code, message, wait}`, in their order."""
    return [{"n": number, **attempt} for number, attempt in enumerate(attempts, 1)]

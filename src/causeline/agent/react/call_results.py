"""What becomes of a call's result: log entries, events, changes of the context object.

Law: pure but for the events. One result gives the same entries whoever asks, in whichever document.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from causeline.agent.react.conversation import Conversation
from causeline.agent.react.remember import REMEMBER, note
from causeline.causal import Append, identity
from causeline.events import RunEvent
from causeline.graph.node import Context
from causeline.models.transcript import result_text, result_words
from causeline.run.ledger import Call
from causeline.run.scope import RunScope, merged
from causeline.tools.execute import evidence


def logged(talk: Conversation, call: Call) -> list[Append]:
    """What a call's result adds to the log: what people decided on the call, the result, then what the tool reported beside it, or the
    note that was kept."""
    asked = talk.transcript.open[call.call_id][0]
    decided = [
        Append("verification", {"method": "decision", "call_id": call.call_id, **decision}, parents=(asked,)) for decision in call.decisions
    ]
    payload = {"call_id": call.call_id, "tool": call.name, "result": call.result, "ok": bool(call.ok)}
    result = Append("tool_result", payload, parents=(asked, *decided))
    appends = [*decided, result, *evidence(call, result)]
    if talk.completion is not None:
        appends += talk.completion.after_reads(appends)
    if call.name == REMEMBER and call.ok and not call.client:
        appends.append(note(call.arguments, talk.options.semantic_types(), dynamic=talk.options.allow_dynamic_node_types, parent=result))
    return appends


def announce(ctx: Context, call: Call, scope: RunScope) -> None:
    """Tell of a call, whole; whoever records the events sees to it that this happens once in a run."""
    message = scope.asked_by.get(call.call_id)
    asked_by = {} if message is None else {"message_id": message}
    ctx.emit(RunEvent(type="tool_call_start", tool_call_id=call.call_id, name=call.name, client=call.client, **asked_by))
    ctx.emit(RunEvent(type="tool_call_args", tool_call_id=call.call_id, delta=result_text(call.arguments)))
    ctx.emit(RunEvent(type="tool_call_end", tool_call_id=call.call_id))


def tell_result(ctx: Context, call: Call, scope: RunScope, text: str | None = None) -> None:
    """Tell of a call's result. `text` is its text, where that has been written."""
    ctx.emit(
        RunEvent(
            type="tool_call_result",
            tool_call_id=call.call_id,
            message_id=scope.result_message_id(call.call_id),
            content=result_words(call.result, text),
            is_error=not call.ok,
        )
    )


def patched(context: Mapping[str, Any], calls: Sequence[Call]) -> Mapping[str, Any] | None:
    """The context object after the tools' patches, in call order; None if nothing was patched."""
    patches = [call.reported["context_patch"] for call in calls if call.reported and call.reported.get("context_patch")]
    if not patches:
        return None
    for patch in patches:
        context = merged(context, patch)
    return context


def append_id(append: Append) -> str:
    """The id an append without a resource key will get."""
    return identity(append.kind, append.payload, [one if isinstance(one, str) else append_id(one) for one in append.parents])

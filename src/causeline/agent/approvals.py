"""What becomes of a call before it runs: go ahead, ask somebody, or settle it without running.

Law: fails closed. A decision belongs to one call and its exact arguments; nothing in the conversation, the
client's request or the session's state can stand in for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causeline.agent.conversation import Conversation
from causeline.tools.approval import Approve, Ask, Deny, resolve_all
from causeline.tools.calls import Call, CallState, arguments_hash
from causeline.tools.execute import argument_fault
from causeline.tools.human import question_text

UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: it was started, and the process that ran it stopped before a result arrived. "
    "It may or may not have taken effect. Check before you repeat it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One of: run with `arguments`; ask (`question` of `kind`); settled with `result`, `ok` and `state`."""

    arguments: Any = None
    args_hash: str = ""
    kind: str = "approval"
    question: str | None = None
    reason: str | None = None
    result: Any = None
    ok: bool = False
    state: CallState = "failed"


async def judge(talk: Conversation, call: Call, decision: Mapping[str, Any] | None) -> Verdict:
    """What to do with an unfinished server call. `decision` is a person's answer to this call's interrupt."""
    go = Verdict(arguments=call.arguments, args_hash=call.args_hash)
    tool = talk.toolbox.get(call.name)
    if tool is None:
        return go
    if call.state == "unknown":
        return _unknown(call, tool.on_unknown, decision, go)
    if call.state == "started" or argument_fault(tool, call.arguments) is not None:
        return go  # started by this process a moment ago; or never runs, since its arguments are refused before it would
    if tool.human:
        return _question(call, decision)
    if decision is not None:
        return _decided(decision, go)
    found = await resolve_all((tool.approval, talk.options.tool_approval), call.name, call.arguments)
    match found:
        case Approve():
            return go
        case Deny(reason):
            return _denied(reason)
        case Ask(prompt):
            return Verdict(kind="approval", question=prompt or f"May {call.name} run with these arguments?")


def _denied(reason: str | None) -> Verdict:
    return Verdict(result=f"This call was not approved: {reason}" if reason else "This call was not approved.", state="denied")


def _decided(decision: Mapping[str, Any], go: Verdict) -> Verdict:
    match decision.get("decision"):
        case "approve":
            return go
        case "edit":
            return Verdict(arguments=decision["value"], args_hash=arguments_hash(decision["value"]))
        case _:
            return _denied(decision.get("reason"))


def _question(call: Call, decision: Mapping[str, Any] | None) -> Verdict:
    if decision is None:
        return Verdict(kind="question", question=question_text(call.arguments))
    if decision.get("decision") == "answer":
        return Verdict(result=decision.get("value"), ok=True, state="succeeded")
    return _denied(decision.get("reason"))


def _unknown(call: Call, policy: str, decision: Mapping[str, Any] | None, go: Verdict) -> Verdict:
    chosen = decision.get("decision") if decision is not None else None
    if chosen == "retry" or (chosen is None and policy == "retry"):
        return go
    if chosen == "record":
        return Verdict(result=decision.get("value") if decision else None, ok=True, state="succeeded")
    if chosen == "fail":
        reason = decision.get("reason") if decision else None
        return Verdict(result=f"This call failed: {reason}" if reason else "This call failed.", state="failed")
    if policy == "ask":
        question = f"{call.name} was started and its outcome is unknown. Run it again, record a result, or count it as failed?"
        return Verdict(kind="unknown_outcome", question=question)
    return Verdict(result=UNKNOWN_OUTCOME, state="unknown")

"""What becomes of a call before it runs: go ahead, ask somebody, or settle it without running.

Law: fails closed. A decision belongs to one call and its exact arguments; nothing in the conversation, the
client's request or the session's state can stand in for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from causeline.agent.conversation import Conversation
from causeline.tools.approval import Approve, Ask, Deny, resolve_all
from causeline.tools.arguments import prepare
from causeline.tools.calls import Call, CallState, arguments_hash
from causeline.tools.human import question_text
from causeline.tools.tool import Tool

UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: it was started, and the process that ran it stopped before a result arrived. "
    "It may or may not have taken effect. Check before you repeat it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One of: run with `arguments`; ask (`question` of `kind`) whether to; `settled` with `result`, `ok` and `state`."""

    arguments: Any = None
    args_hash: str = ""
    kind: str = "approval"
    question: str | None = None
    reason: str | None = None
    settled: bool = False
    result: Any = None
    ok: bool = False
    state: CallState = "failed"


async def judge(talk: Conversation, call: Call, decision: Mapping[str, Any] | None) -> Verdict:
    """What to do with an unfinished server call. `decision` is a person's answer to this call's interrupt."""
    go = Verdict(arguments=call.arguments, args_hash=call.args_hash)
    tool = talk.toolbox.get(call.name)
    if call.state == "unknown":
        return _unknown(call, "report" if tool is None else tool.on_unknown, decision, go)
    if tool is None:
        return go  # its result says that there is no such tool
    if call.state == "started":
        return go  # by this process, a moment ago
    prepared = prepare(tool, call.arguments)
    if prepared.arguments is None:
        return go  # it never runs: its arguments are refused before it would
    if prepared.arguments is not call.arguments:
        go = Verdict(arguments=prepared.arguments, args_hash=arguments_hash(prepared.arguments))
    if tool.human:
        return _question(go, decision)
    return await _permitted(talk, tool, call.name, go) if decision is None else _decided(decision, go)


async def _permitted(talk: Conversation, tool: Tool, name: str, go: Verdict) -> Verdict:
    """What the tool's and the agent's approval modes say."""
    match await resolve_all((tool.approval, talk.options.tool_approval), name, go.arguments):
        case Approve():
            return go
        case Deny(reason):
            return _denied(reason)
        case Ask(prompt):
            return replace(go, question=prompt)


def _settled(result: Any, state: CallState, *, ok: bool = False) -> Verdict:
    return Verdict(settled=True, result=result, ok=ok, state=state)


def _denied(reason: str | None) -> Verdict:
    return _settled(f"This call was not approved: {reason}" if reason else "This call was not approved.", "denied")


def _decided(decision: Mapping[str, Any], go: Verdict) -> Verdict:
    match decision.get("decision"):
        case "approve":
            return go
        case "edit":
            return Verdict(arguments=decision["value"], args_hash=arguments_hash(decision["value"]))
        case _:
            return _denied(decision.get("reason"))


def _question(asked: Verdict, decision: Mapping[str, Any] | None) -> Verdict:
    if decision is None:
        return replace(asked, kind="question", question=question_text(asked.arguments))
    if decision.get("decision") == "answer":
        return _settled(decision.get("value"), "succeeded", ok=True)
    return _denied(decision.get("reason"))


def _unknown(call: Call, policy: str, decision: Mapping[str, Any] | None, go: Verdict) -> Verdict:
    chosen = decision.get("decision") if decision is not None else None
    if chosen == "retry" or (policy == "retry" and chosen not in ("record", "fail")):
        return go
    if chosen == "record":
        return _settled(decision.get("value") if decision else None, "succeeded", ok=True)
    if chosen == "fail":
        reason = decision.get("reason") if decision else None
        return _settled(f"This call failed: {reason}" if reason else "This call failed.", "failed")
    if policy == "ask":
        question = f"{call.name} was started and its outcome is unknown. Run it again, record a result, or count it as failed?"
        return replace(go, kind="unknown_outcome", question=question)
    return _settled(UNKNOWN_OUTCOME, "unknown")

"""What becomes of a call before it runs: go ahead, ask somebody, or settle it without running.

Law: fails closed. A decision belongs to one call and its exact arguments; nothing in the conversation, the
client's request or the session's state can stand in for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from causeline.agent.react.conversation import Conversation
from causeline.run.ledger import Call, CallState, arguments_hash
from causeline.tools.approval import Approve, Ask, Deny, default_prompt, resolve_all
from causeline.tools.arguments import Prepared, prepare
from causeline.tools.human import question_text
from causeline.tools.tool import Tool

UNKNOWN_OUTCOME = (
    "The outcome of this call is unknown: it was started, and the process that ran it stopped before a result arrived. "
    "It may or may not have taken effect. Check before you repeat it."
)


@dataclass(slots=True, kw_only=True)
class Permission:
    """One of: run with `arguments`; ask (`question` of `kind`) whether to; `settled` with `result`, `ok` and `state`. `prepared` is
    what has been made of the arguments, where they were looked at. `decided` is what a person decided on it, for the record."""

    arguments: Any = None
    args_hash: str = ""
    kind: str = "approval"
    question: str | None = None
    reason: str | None = None
    settled: bool = False
    result: Any = None
    ok: bool = False
    state: CallState = "failed"
    prepared: Prepared | None = None
    decided: Mapping[str, Any] | None = None


def waits_below(call: Call) -> bool:
    """Whether a call has run and waits for people whom its own run asks, not for leave to run."""
    return call.state == "awaiting" and call.attempts > 0 and not call.client


async def permission_for(talk: Conversation, call: Call, tool: Tool | None, decision: Mapping[str, Any] | None) -> Permission:
    """What to do with an unfinished server call. `decision` is a person's answer to this call's interrupt, with the `kind` and
    the `args_hash` it was made on; on anything else it decides nothing."""
    if call.state == "started" or waits_below(call):  # by this process, a moment ago; or it has run and waits for a run of its own
        return Permission(arguments=call.arguments, args_hash=call.args_hash)
    if call.state == "unknown":
        go = Permission(arguments=call.arguments, args_hash=call.args_hash)
        decision = _fitting(decision, "unknown_outcome", go)
        permission = await _unknown(talk, call, tool, decision, go)
    else:
        prepared = prepare(tool, call.arguments) if tool is not None else None
        go = _as_prepared(call, prepared)
        decision = _fitting(decision, "question" if tool is not None and tool.human else "approval", go)
        runs = tool if prepared is not None and prepared.arguments is not None else None
        permission = await _before_it_runs(talk, call, tool, runs, decision, go)
    if decision is None or decision["decision"] == "answer":
        return permission
    return replace(permission, decided=_on_record(talk, tool, decision))


async def _before_it_runs(
    talk: Conversation, call: Call, tool: Tool | None, runs: Tool | None, decision: Mapping[str, Any] | None, go: Permission
) -> Permission:
    """A call that has not been started. `runs` is its tool where that takes the arguments."""
    if decision is None and call.state == "awaiting":
        return _still_asked(call, tool, go)
    if runs is None:
        # It never runs: its result says that there is no such tool, or what is wrong with its arguments.
        return go if decision is None or decision.get("decision") != "deny" else _denied(decision.get("reason"))
    if runs.human:
        return _question(go, decision)
    return await _permitted(talk, runs, call, go) if decision is None else await _decided(talk, runs, call, decision, go)


def _on_record(talk: Conversation, tool: Tool | None, decision: Mapping[str, Any]) -> Mapping[str, Any]:
    """A decision as the call's row and the log have it: what was decided, by whom, and the arguments or the result that were given."""
    record: dict[str, Any] = {"decision": decision["decision"], "by": decision.get("by") or talk.scope.owner}
    match decision["decision"]:
        case "edit":
            record["args"] = decision["value"] if tool is None else _edited(tool, decision)
        case "record":
            record["result"] = decision["value"]
        case _:
            pass
    if decision.get("reason"):
        record["reason"] = decision["reason"]
    return record


def as_edited(talk: Conversation, call: Call, decision: Mapping[str, Any] | None) -> Call:
    """The call as it is told of: with the arguments of a person's edit, if there is one that `permission_for` takes."""
    if decision is None or decision.get("decision") != "edit" or call.state in ("unknown", "started"):
        return call
    tool = talk.toolbox.get(call.name)
    if tool is None or tool.human:
        return call
    fits = _fitting(decision, "approval", _as_prepared(call, prepare(tool, call.arguments))) is not None
    return replace(call, arguments=_edited(tool, decision)) if fits else call


def _as_prepared(call: Call, prepared: Prepared | None) -> Permission:
    """Running a call, with its arguments put right where that could be done."""
    if prepared is None or prepared.arguments is None or prepared.arguments is call.arguments:
        return Permission(arguments=call.arguments, args_hash=call.args_hash, prepared=prepared)
    return Permission(arguments=prepared.arguments, args_hash=arguments_hash(prepared.arguments), prepared=prepared)


def _edited(tool: Tool, decision: Mapping[str, Any]) -> Any:
    return prepare(tool, decision["value"]).arguments or decision["value"]


def _fitting(decision: Mapping[str, Any] | None, kind: str, asked: Permission) -> Mapping[str, Any] | None:
    """The decision, if it was made on this question about these arguments."""
    fits = decision is not None and decision.get("kind") == kind and decision.get("args_hash") == asked.args_hash
    return decision if fits else None


def _still_asked(call: Call, tool: Tool | None, asked: Permission) -> Permission:
    """Nothing but an answer ends a question: not another policy, nor that the tool is gone."""
    if tool is not None and tool.human:
        return _question(asked, None)
    return replace(asked, question=default_prompt(call.name, asked.arguments))


async def _permitted(talk: Conversation, tool: Tool, call: Call, go: Permission) -> Permission:
    """What the tool's and the agent's approval modes say."""
    modes = [mode for mode in talk.approval_modes(tool, call.call_id) if mode is not None and mode != "auto"]
    if not modes:
        return go
    match await resolve_all(modes, tool.name, go.arguments):
        case Approve():
            return go
        case Deny(reason):
            return _denied(reason)
        case Ask(prompt):
            return replace(go, question=prompt)


async def _unless_forbidden(talk: Conversation, tool: Tool, call: Call, go: Permission) -> Permission:
    """What a person let run, unless the rules say now that nobody may."""
    said = await _permitted(talk, tool, call, go)
    return said if said.settled else go


def _settled(result: Any, state: CallState, *, ok: bool = False) -> Permission:
    return Permission(settled=True, result=result, ok=ok, state=state)


def _denied(reason: str | None) -> Permission:
    return _settled(f"This call was not approved: {reason}" if reason else "This call was not approved.", "denied")


async def _decided(talk: Conversation, tool: Tool, call: Call, decision: Mapping[str, Any], go: Permission) -> Permission:
    match decision.get("decision"):
        case "approve":
            return await _unless_forbidden(talk, tool, call, go)
        case "edit":
            arguments = _edited(tool, decision)
            return await _unless_forbidden(talk, tool, call, Permission(arguments=arguments, args_hash=arguments_hash(arguments)))
        case _:
            return _denied(decision.get("reason"))


def _question(asked: Permission, decision: Mapping[str, Any] | None) -> Permission:
    if decision is None:
        return replace(asked, kind="question", question=question_text(asked.arguments))
    if decision.get("decision") == "answer":
        return _settled(decision.get("value"), "succeeded", ok=True)
    return _denied(decision.get("reason"))


async def _unknown(talk: Conversation, call: Call, tool: Tool | None, decision: Mapping[str, Any] | None, go: Permission) -> Permission:
    policy = "report" if tool is None else tool.on_unknown
    given = decision or {}
    chosen = given.get("decision")
    if chosen == "record":
        return _settled(given.get("value"), "succeeded", ok=True)
    if chosen == "fail":
        reason = given.get("reason")
        return _settled(f"This call failed: {reason}" if reason else "This call failed.", "failed")
    if chosen == "retry" or policy == "retry":
        return go if tool is None else await _unless_forbidden(talk, tool, call, go)
    if policy == "ask":
        question = f"{call.name} was started and its outcome is unknown. Run it again, record a result, or count it as failed?"
        return replace(go, kind="unknown_outcome", question=question)
    return _settled(UNKNOWN_OUTCOME, "unknown")

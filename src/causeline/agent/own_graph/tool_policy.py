"""What the agent node asks of the tools node: the tool options it was given, as plain JSON in the state.

Law: the stricter of both nodes holds. A function of the caller's cannot stand in the state, so the agent node asks it itself, for each
call, and hands over what it said.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from causeline.agent.options import Options
from causeline.errors import Invalid
from causeline.models.messages import ToolCall
from causeline.tools.approval import Approve, Ask, Deny, approval_findings, resolve_approval
from causeline.tools.arguments import prepare
from causeline.tools.toolbox import Toolbox

_NUMBERS = ("tool_timeout", "tool_retries", "tool_concurrency")
_DEFAULTS = Options(model="")


async def policy_of(options: Options, toolbox: Toolbox, calls: Sequence[ToolCall]) -> Mapping[str, Any]:
    """What the agent node was given for these calls, and nothing else."""
    policy: dict[str, Any] = {}
    for name in (*_NUMBERS, "tool_error_mode"):
        if getattr(options, name) != getattr(_DEFAULTS, name):
            policy[name] = getattr(options, name)
    if options.tool_approval == "auto":
        return policy
    if _is_plain(options.tool_approval):
        return {**policy, "tool_approval": options.tool_approval}
    return {**policy, "calls": {call.id: await _said(options, toolbox, call) for call in calls}}


async def _said(options: Options, toolbox: Toolbox, call: ToolCall) -> Mapping[str, Any]:
    tool = toolbox.get(call.name)
    prepared = prepare(tool, call.arguments).arguments if tool is not None else None
    match await resolve_approval(options.tool_approval, call.name, prepared or {}):
        case Approve():
            return {"mode": "auto"}
        case Deny(reason):
            return {"mode": "deny", "reason": reason}
        case Ask(prompt):
            return {"mode": "ask", "prompt": prompt}


def _is_plain(mode: Any) -> bool:
    modes: Iterable[Any] = cast("Mapping[Any, Any]", mode).values() if isinstance(mode, Mapping) else [mode]
    return all(isinstance(inner, str) for inner in modes)


def stricter(options: Options, policy: Any) -> Options:
    """The tools node's options under the agent node's policy. Raises Invalid for a policy that is none."""
    if not policy:
        return options
    if not isinstance(policy, Mapping):
        raise Invalid(f"_tool_policy: expected a table of tool options, got {policy!r:.80}")
    wanted = cast("Mapping[str, Any]", policy)
    changes: dict[str, Any] = {}
    for name in _NUMBERS:
        theirs, own = wanted.get(name), getattr(options, name)
        if theirs is not None:
            changes[name] = theirs if own == getattr(_DEFAULTS, name) else min(theirs, own)
    if wanted.get("tool_error_mode") == "raise":
        changes["tool_error_mode"] = "raise"
    return replace(options, **changes)


def approval_of(policy: Any, call_id: str) -> Any:
    """The agent node's approval mode for one call; None where it has none. What is not understood denies."""
    wanted: Mapping[str, Any] = cast("Mapping[str, Any]", policy) if isinstance(policy, Mapping) else {}
    mode: Any = wanted.get("tool_approval")
    said: Any = cast("Mapping[str, Any]", wanted.get("calls") or {}).get(call_id)
    if said is None:
        return mode if mode is None or not approval_findings(mode) else "deny"
    match said.get("mode"):
        case "auto":
            return "auto"
        case "ask":
            return _says(Ask(said.get("prompt") or ""))
        case _:
            return _says(Deny(said.get("reason") or "not approved"))


def _says(verdict: Ask | Deny) -> Callable[[str, Any], Ask | Deny]:
    return lambda _name, _arguments: verdict

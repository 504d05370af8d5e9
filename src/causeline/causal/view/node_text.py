"""What a causal node says, in words."""

from collections.abc import Mapping
from typing import Any, cast

from causeline.plain_text import shown

DEFAULT_OWNER = "default"
"""Where nobody is named and there is one owner only, a decision is whose it is without saying."""
_DECIDED = {
    "approve": "approved", "deny": "denied", "edit": "edited to", "answer": "answered", "retry": "run again",
    "record": "result recorded:", "fail": "counted as failed",
}  # fmt: skip


def node_text(kind: str, payload: Any) -> str:
    """What a causal node says, on one line."""
    if not isinstance(payload, dict):
        return shown(payload, 2000)
    held = cast("dict[str, Any]", payload)
    match kind:
        case "goal":
            text = held.get("text") or held.get("parts")
        case "inference":
            names = ", ".join(str(call.get("name")) for call in held.get("calls") or ())
            text = " ".join(part for part in (held.get("text"), f"(calls {names})" if names else "") if part)
        case "tool_call":
            text = f"{held.get('name')} {shown(held.get('args'), 2000)}"
        case "tool_result":
            text = f"{held.get('tool')}{'' if held.get('ok') else ' failed'}: {shown(held.get('result'), 2000)}"
        case "semantic":
            text = f"{held.get('type')} {held.get('key')}: {shown(held.get('content'), 2000)}"
        case "verification" if held.get("method") == "decision":
            return decision_text(held)
        case "resource":
            text = f"{held.get('operation')} {held.get('path')}{'' if held.get('succeeded') else ' failed'}"
        case "protocol_error":
            text = f"{held.get('code')}: {held.get('detail')}"
        case _:
            text = held
    return shown(text, 2000)


def decision_text(decision: Mapping[str, Any], owner: str = "") -> str:
    """What a person decided, with the new arguments, the value or the reason, and who it was, on one line."""
    value = next((f" {shown(decision[name])}" for name in ("value", "args", "result") if decision.get(name) is not None), "")
    reason = f", because: {shown(decision['reason'])}" if decision.get("reason") else ""
    person = decision.get("by") or owner
    by = f" (by {shown(person)})" if person and person != DEFAULT_OWNER else ""
    return f"{_DECIDED.get(str(decision.get('decision')), 'decided')}{value}{reason}{by}"

"""What a causal node says, in words."""

from typing import Any, cast

from causeline.plain_text import shown


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
        case "resource":
            text = f"{held.get('operation')} {held.get('path')}{'' if held.get('succeeded') else ' failed'}"
        case "protocol_error":
            text = f"{held.get('code')}: {held.get('detail')}"
        case _:
            text = held
    return shown(text, 2000)

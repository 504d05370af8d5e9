"""Earlier messages of a conversation as a log to go on from.

Law: pure but for the time that is written on the nodes. What is no conversation is refused with its place.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from causeline.agent.own_graph.channel_messages import read_messages
from causeline.causal import AgentState
from causeline.errors import Invalid
from causeline.models.messages import Message


def log_to_go_on_from(state: AgentState | None, history: Sequence[Any]) -> AgentState | None:
    """The log a conversation goes on from: the one that is given, or one that says what `history` says; None for a fresh start.
    Raises Invalid for both at once, and for messages that are none."""
    if state is not None and not isinstance(cast("object", state), AgentState):
        raise Invalid(f"state: expected an AgentState, such as result.state, got {state!r:.80}")
    if state is not None and history:
        raise Invalid("give state or history, not both; a state has its own history")
    if state is not None or not history:
        return state if state is not None and len(state) else None
    log, now = AgentState(), datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    asked: dict[str, str] = {}
    for place, message in enumerate(read_messages(history, "history")):
        _add(log, message, asked, now, place)
    return log


def _add(log: AgentState, message: Message, asked: dict[str, str], now: str, place: int) -> None:
    content = message.content if isinstance(message.content, str) else None
    match message.role:
        case "user":
            payload = {"text": content} if content is not None else {"parts": list(message.content)}
            log.append("goal", payload, created_at=now)
        case "assistant":
            calls = [call.to_json() for call in message.tool_calls]
            finish = "tool_calls" if calls else "stop"
            said = log.append("inference", {"text": message.text, "calls": calls, "finish": finish}, created_at=now)
            for call in message.tool_calls:
                payload = {"call_id": call.id, "name": call.name, "args": call.arguments}
                asked[call.id] = log.append("tool_call", payload, [said.id], created_at=now).id
            if not calls:
                log.append("answer", message.text, [said.id], created_at=now)
        case "tool":
            node = asked.get(message.tool_call_id or "")
            if node is None:
                raise Invalid(f"history[{place}]: no reply before it asks for the call {message.tool_call_id!r}")
            tool = next(call.payload["name"] for call in log.nodes if call.id == node)
            payload = {"call_id": message.tool_call_id, "tool": tool, "result": message.text, "ok": not message.is_error}
            log.append("tool_result", payload, [node], created_at=now)
        case _:
            raise Invalid(f"history[{place}]: the role is user, assistant or tool, not {message.role}; a system prompt is an option")

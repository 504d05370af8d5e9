"""What is said to a model and what it says back, as plain records.

Law: pure values. Reading or writing one touches no clock, disk, network or event loop, and
`Message.from_json(m.to_json()) == m` for every message without reasoning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from causeline.errors import Invalid

Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[str, ...] = get_args(Role)

Json = dict[str, Any]
Content = str | tuple[Json, ...]
"""Text, or parts as a provider takes them: `{"type": "text", "text": ...}`, `{"type": "image_url", "image_url": {"url": ...}}`."""


class InvalidMessage(Invalid):
    """A value is not a message. `findings` has one line for each fault, with its place in the value."""

    code = "invalid_message"


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ToolCall:
    """One tool invocation asked for by a model. `arguments` is the object, or the raw text where it did not parse to one."""

    id: str
    name: str
    arguments: Json | str

    def to_json(self) -> Json:
        return {"id": self.id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Message:
    """One entry of a conversation. `tool_call_id` and `is_error` belong to role `tool`, `tool_calls` to `assistant`.

    `decisions` of a tool message are what people decided on its call, oldest first: `{decision, by, args?, result?, reason?}`; the JSON
    form has them where there are any. `reasoning` holds what the provider gave with an assistant's message and wants back with it; it
    is shown to nobody else and is no part of the JSON form.
    """

    role: Role
    content: Content = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    id: str = ""
    reasoning: tuple[Json, ...] = ()
    decisions: tuple[Json, ...] = ()

    @property
    def text(self) -> str:
        """The content as text; parts that are not text are left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part["text"] for part in self.content if isinstance(part.get("text"), str))

    def to_json(self) -> Json:
        """`{id, role, content, tool_calls, tool_call_id, is_error}`, every key always there, and `decisions` where there are any."""
        return {
            **({"decisions": list(self.decisions)} if self.decisions else {}),
            "id": self.id,
            "role": self.role,
            "content": self.content if isinstance(self.content, str) else list(self.content),
            "tool_calls": [call.to_json() for call in self.tool_calls],
            "tool_call_id": self.tool_call_id,
            "is_error": self.is_error,
        }

    @classmethod
    def from_json(cls, value: object) -> "Message":
        """The message `value` describes. Only `role` is required. Raises InvalidMessage with every fault at once."""
        findings: list[str] = []
        message = _message(value, findings)
        if message is None or findings:
            raise InvalidMessage(f"Not a message: {'; '.join(findings)}.", findings=findings)
        return message


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it. `parameters` is a JSON Schema whose type is object; `strict` asks a provider to hold the model to it."""

    name: str
    description: str
    parameters: Json
    strict: bool = False

    def to_json(self) -> Json:
        spec: Json = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {**spec, "strict": True} if self.strict else spec


_KEYS = frozenset({"id", "role", "content", "tool_calls", "tool_call_id", "is_error", "decisions"})


def _message(value: object, findings: list[str]) -> Message | None:
    if not isinstance(value, Mapping):
        findings.append(f"expected an object, got {type(value).__name__}")
        return None
    data = cast(Mapping[str, Any], value)
    findings.extend(f"{key}: unknown field" for key in data if key not in _KEYS)
    role = data.get("role")
    if role not in ROLES:
        findings.append(f"role: expected one of {', '.join(ROLES)}, got {role!r}")
    call_id, is_error, own_id = data.get("tool_call_id"), data.get("is_error", False), data.get("id", "")
    if call_id is not None and not isinstance(call_id, str):
        findings.append("tool_call_id: expected a string or null")
    if role == "tool" and not call_id:
        findings.append("tool_call_id: a tool message names the call it answers")
    if not isinstance(is_error, bool):
        findings.append("is_error: expected true or false")
    if not isinstance(own_id, str):
        findings.append("id: expected a string")
    calls = _calls(data.get("tool_calls"), findings)
    if calls and role != "assistant":
        findings.append("tool_calls: only an assistant message has calls")
    content = _content(data.get("content"), findings)
    decisions = data.get("decisions", [])
    if not isinstance(decisions, list) or not all(isinstance(one, dict) for one in cast("list[object]", decisions)):
        findings.append("decisions: expected a list of objects")
    if findings:
        return None
    return Message(cast(Role, role), content, calls, call_id, is_error, own_id, decisions=tuple(cast("list[Json]", decisions)))


def _content(value: object, findings: list[str]) -> Content:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        findings.append(f"content: expected text or a list of parts, got {type(value).__name__}")
        return ""
    parts: list[Json] = []
    for index, part in enumerate(cast(Sequence[object], value)):
        if isinstance(part, dict) and isinstance(cast(Json, part).get("type"), str):
            parts.append(cast(Json, part))
        else:
            findings.append(f"content[{index}]: expected an object with a type")
    return tuple(parts)


def _calls(value: object, findings: list[str]) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        findings.append("tool_calls: expected a list")
        return ()
    calls: list[ToolCall] = []
    for index, item in enumerate(cast(Sequence[object], value)):
        call = cast(Json, item) if isinstance(item, dict) else {}
        name, arguments, call_id = call.get("name"), call.get("arguments", {}), call.get("id", "")
        if not isinstance(name, str) or not name or not isinstance(arguments, dict | str) or not isinstance(call_id, str):
            findings.append(f"tool_calls[{index}]: expected {{id, name, arguments}} with an object or raw text as arguments")
        else:
            calls.append(ToolCall(call_id, name, cast(Json | str, arguments)))
    return tuple(calls)

"""What a node of the log has to hold for a conversation to be read from it.

Law: what passes here can be folded into a `Transcript` and told in a recall. The log itself takes any JSON, so this is
asked at the two doors through which nodes come into a session: the commit of a step, and an import.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from causeline.errors import Invalid


class InvalidPayload(Invalid):
    """A node of a known kind whose payload no conversation can be read from."""

    code = "invalid_payload"


def check_payload(kind: str, payload: Any) -> None:
    """Raises InvalidPayload, with what the kind has to hold."""
    if not _holds(kind, payload):
        raise InvalidPayload(f"{ascii(payload)[:60]} is no payload of a node of kind {kind}; it is {_WANTED[kind]}", kind=kind)


_WANTED: Mapping[str, str] = {
    "goal": "a text, {text} or {parts: [{type, ...}]}",
    "inference": "{text, calls: [{id, name, arguments}], reasoning?: [{...}], ...}, with texts for text, id and name",
    "tool_call": "{call_id, name, args, ...}, with texts for call_id and name",
    "tool_result": "{call_id, tool, result, ok, ...}, with texts for call_id and tool, and true or false for ok",
    "protocol_error": "{code, detail?, ...}, with texts",
    "semantic": "{type, key, content, ...}, with texts for type and key",
    "verification": "an object, and {call_id, decision, by?, reason?, ...} with texts where its method is decision",
    "resource": "an object, and {succeeded, value: {text, ...}, ...} where its operation is recall",
}
"""Kinds that are not here are read as they are."""

_type: Callable[[Any], Any] = type  # as `type`, but a checker does not take it for a proof about the argument
_only_texts = frozenset[type]({str}).issuperset
_only_objects = frozenset[type]({dict}).issuperset


def _holds(kind: str, payload: Any) -> bool:
    if kind not in _WANTED or (kind == "goal" and type(payload) is str):
        return True
    if _type(payload) is not dict:
        return False
    found: dict[str, Any] = payload
    match kind:
        case "goal":
            return _texts(found, "text") if "text" in found else _all(found.get("parts"), "type")
        case "inference":
            return _inference(found)
        case "tool_call":
            return _texts(found, "call_id", "name") and "args" in found
        case "tool_result":
            return _texts(found, "call_id", "tool") and "result" in found and type(found.get("ok")) is bool
        case "protocol_error":
            return _texts(found, "code") and type(found.get("detail", "")) is str
        case "verification":
            return found.get("method") != "decision" or (_texts(found, "call_id", "decision") and _maybe_texts(found, "by", "reason"))
        case "semantic":
            return _texts(found, "type", "key") and "content" in found
        case _:
            return found.get("operation") != "recall" or _recall(found)


def _inference(payload: dict[str, Any]) -> bool:
    calls = payload.get("calls")
    said = _texts(payload, "text") and _all(calls, "id", "name") and False not in ["arguments" in call for call in calls or ()]
    return said and ("reasoning" not in payload or _all(payload["reasoning"]))


def _recall(payload: dict[str, Any]) -> bool:
    succeeded, value = payload.get("succeeded"), payload.get("value")
    return succeeded is False or (succeeded is True and type(value) is dict and _texts(cast("dict[str, Any]", value), "text"))


def _texts(payload: dict[str, Any], *names: str) -> bool:
    return _only_texts(map(type, map(payload.get, names)))


def _maybe_texts(payload: dict[str, Any], *names: str) -> bool:
    return all(type(payload.get(name, "")) is str for name in names)


def _all(rows: Any, *names: str) -> bool:
    return _type(rows) is list and _only_objects(map(type, rows)) and False not in [_texts(row, *names) for row in rows]

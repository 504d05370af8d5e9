"""Looking into payloads whose shape nobody enforced: what is not there reads as empty, and nothing is raised."""

from typing import Any, cast

from causeline.causal.canonical import canonical
from causeline.causal.limits import WRAPPED_DEPTH


def fields(payload: Any) -> dict[str, Any]:
    """The payload where it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", payload) if isinstance(payload, dict) else {}


def field_text(payload: Any, key: str) -> str:
    """A field of the payload where it is text, else ""."""
    value = fields(payload).get(key)
    return value if isinstance(value, str) else ""


def recalled_text(payload: Any) -> str:
    """The text of a successful recall, else ""."""
    return field_text(fields(payload).get("value"), "text") if fields(payload).get("succeeded") is True else ""


def as_text(value: Any) -> str:
    """Text as it is, anything else as canonical JSON."""
    return value if isinstance(value, str) else canonical(value, depth=WRAPPED_DEPTH).decode()

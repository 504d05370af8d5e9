"""Looking into payloads whose shape nobody enforced: what is not there reads as empty, and nothing is raised."""

from collections.abc import Iterable
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


def is_forgotten(kind: str, payload: Any) -> bool:
    """Whether a node takes an earlier note back: a `semantic` node whose content is null."""
    return kind == "semantic" and "content" in fields(payload) and fields(payload)["content"] is None


def is_decision(kind: str, payload: Any) -> bool:
    """Whether a node is what a person decided on a call: a `verification` with the method `decision`."""
    return kind == "verification" and fields(payload).get("method") == "decision"


def as_run(arguments: Any, decisions: Iterable[Any]) -> Any:
    """The arguments a call ran with: those of the last person who edited them, else the model's own."""
    for decision in decisions:
        if fields(decision).get("decision") == "edit" and "args" in fields(decision):
            arguments = fields(decision)["args"]
    return arguments


def with_decisions(result: str, decisions: Iterable[Any]) -> str:
    """A result as a model reads it: it is told where a person changed the call or gave the result."""
    made = {fields(decision).get("decision") for decision in decisions}
    notes = (
        *(("A person changed the arguments of this call; it ran as it is shown here.",) if "edit" in made else ()),
        *(("A person recorded this result.",) if "record" in made else ()),
    )
    return "\n\n".join((result, *(f"[{note}]" for note in notes)))

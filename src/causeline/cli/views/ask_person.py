"""Asking a person at the terminal to decide an open question.

Law: nothing but a clear word counts as a decision; anything else asks again, and an empty line decides nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from causeline.cli.views.clean_text import exact
from causeline.runtime.records import Interrupt, InterruptKind

Read = Callable[[str], str]
_WORDS: Mapping[InterruptKind, Sequence[str]] = {"approval": ("approve", "deny", "edit"), "unknown_outcome": ("retry", "record", "fail")}
_SAME = {"y": "approve", "yes": "approve", "n": "deny", "no": "deny"}


def decide(interrupt: Interrupt, read: Read) -> Mapping[str, Any] | None:
    """The decision as the runtime takes it, or None to leave the question open. `read` shows a prompt and returns a line."""
    if interrupt.kind == "question":
        answer = read("  your answer (Enter leaves it open): ").strip()
        return {"decision": "answer", "value": answer} if answer else None
    chosen = _choose(_WORDS[interrupt.kind], read)
    match chosen:
        case None:
            return None
        case "edit":
            arguments = _arguments(read)
            return None if arguments is None else {"decision": "edit", "value": arguments}
        case "record":
            return {"decision": "record", "value": read("  its result: ")}
        case "deny" | "fail":
            reason = read("  why, for the model (Enter: no reason): ").strip()
            return {"decision": chosen, **({"reason": reason} if reason else {})}
        case _:
            return {"decision": chosen}


def _choose(words: Sequence[str], read: Read) -> str | None:
    wrong = ""
    while True:
        said = read(f"  {wrong}{', '.join(words)} (Enter leaves it open): ").strip().lower()
        if not said:
            return None
        said = _SAME.get(said, said) if _SAME.get(said, said) in words else said
        found = [word for word in words if word.startswith(said)]
        if len(found) == 1:
            return found[0]
        wrong = f"{exact(said)!r} is none of these: "


def _arguments(read: Read) -> Mapping[str, Any] | None:
    wrong = ""
    while True:
        text = read(f"  {wrong}new arguments, a JSON object (Enter leaves it open): ").strip()
        if not text:
            return None
        wrong = "that is no JSON object; "
        try:
            value = json.loads(text)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType] - JSON from outside

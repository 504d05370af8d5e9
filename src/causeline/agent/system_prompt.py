"""The variables of a system prompt.

Law: only `{{ name }}` is a template. Names are known beforehand, values go in as they are and are not looked at
again, and what a user says is never a template.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, cast

from causeline.causal import canonical
from causeline.errors import Misuse

NAMES = ("agent.name", "session.id", "run.id", "now", "date", "tools", "context")
OPEN = ("context.", "metadata.")
"""Beginnings of names that go on with a path into an object."""

SLOT = re.compile(r"\{\{\s*([A-Za-z_][^{}]*?)\s*\}\}")
_PATH = re.compile(r"[A-Za-z_][\w-]*(?:\.[\w-]+)*")


def template_findings(template: str) -> list[str]:
    """Names in a template that nobody will fill in, each with its line and column."""
    lines: list[str] = []
    for slot in SLOT.finditer(template):
        name = slot.group(1)
        if _known(name):
            continue
        before = template[: slot.start()]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        close = get_close_matches(name, NAMES, n=1)
        advice = f"did you mean {close[0]}?" if close else f"known are {', '.join(NAMES)}, context.<path>, metadata.<key>"
        lines.append(f"line {line}, column {column}: unknown variable {name}; {advice}")
    return lines


def render(template: str, values: Mapping[str, Any]) -> str:
    """The template with its variables filled in; what is not text goes in as JSON.

    `values` has every name of NAMES, and may have `metadata`. A path that leads nowhere gives "".
    Raises Misuse for a name that `values` should have had.
    """
    return SLOT.sub(lambda slot: _text(_value(slot.group(1), values)) if _known(slot.group(1)) else slot.group(), template)


def _known(name: str) -> bool:
    return name in NAMES or (name.startswith(OPEN) and _PATH.fullmatch(name) is not None)


def _value(name: str, values: Mapping[str, Any]) -> Any:
    if name in values:
        return values[name]
    if not name.startswith(OPEN):
        raise Misuse(f"The system prompt names {name}, which the run did not provide.")
    found: Any = values
    for part in name.split("."):
        found = cast(Mapping[str, Any], found).get(part, "") if isinstance(found, Mapping) else ""
    return found


def context_value(name: str, context: Mapping[str, Any]) -> Any:
    """What `context.PATH` leads to, None for nothing and for other names."""
    return _value(name, {"context": context}) if name.startswith("context.") and _PATH.fullmatch(name) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value).decode()

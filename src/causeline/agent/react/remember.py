"""`remember`: a built-in tool by which a model keeps something, at no extra model call.

Law: a note is a `semantic` node; the same type and key supersedes the earlier one; what cannot be kept is
said to the model and recorded, never dropped in silence. The normal form of type and key is StateWeave's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from causeline.causal import Append, canonical
from causeline.errors import Invalid

REMEMBER = "remember"
MAX_CONTENT = 100_000
_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,47}")


def parameters(types: Mapping[str, str], *, dynamic: bool) -> dict[str, Any]:
    """JSON Schema of the tool's arguments."""
    kinds = "; ".join(f"{name}: {text}" for name, text in types.items())
    kind: dict[str, Any] = {"type": "string", "description": kinds}
    if not dynamic:
        kind["enum"] = list(types)
    return {
        "type": "object",
        "properties": {
            "type": kind,
            "key": {"type": "string", "minLength": 1, "description": "A short name; the same key replaces the earlier note."},
            "content": {"description": "What to keep: text or JSON. null forgets the note of this type and key."},
        },
        "required": ["type", "key", "content"],
        "additionalProperties": False,
    }


def note(arguments: Any, types: Mapping[str, str], *, dynamic: bool, parent: str | Append) -> Append:
    """The semantic node for one call. Raises Invalid saying which field is wrong and how."""
    if not isinstance(arguments, dict):
        raise Invalid("arguments: expected an object with type, key and content")
    given = cast("dict[str, Any]", arguments)
    missing = [field for field in ("type", "key", "content") if field not in given]
    if missing:
        raise Invalid(f"missing: {', '.join(missing)}")
    if not isinstance(given["type"], str) or not isinstance(given["key"], str):
        raise Invalid("type and key: expected text")
    kind = re.sub(r"[^a-z0-9_-]+", "-", given["type"].strip().lower()).strip("-")
    key = re.sub(r"[^a-z0-9_./:-]+", "-", given["key"].strip().lower()).strip("-")[:120]
    if not _TYPE.fullmatch(kind) or (kind not in types and not dynamic):
        raise Invalid(f"type: {arguments['type']!r} is not one of {', '.join(types)}")
    if not key:
        raise Invalid(f"key: nothing is left of {arguments['key']!r}; use letters and digits")
    if len(canonical(given["content"])) > MAX_CONTENT:
        raise Invalid(f"content: longer than {MAX_CONTENT} bytes")
    return Append(
        "semantic",
        {"type": kind, "key": key, "content": given["content"]},
        parents=(parent,),
        resource_key=f"semantic:{kind}:{key}",
        advance=False,
    )


def only_remember(names: Sequence[str]) -> bool:
    """Whether a reply's calls are notes and nothing else."""
    return bool(names) and all(name == REMEMBER for name in names)

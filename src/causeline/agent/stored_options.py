"""Options as JSON, to be kept with a run. Functions and objects are kept by their names only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from causeline.agent.option_rules import is_model
from causeline.models.messages import Json
from causeline.tools.skills import Skill

OBJECT = "$object"
"""Stands for a Python object in a stored record: `{"$object": its name}`."""


def plain_option(value: Any) -> Any:
    """The value as JSON."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain_option(member) for key, member in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [plain_option(member) for member in cast(Sequence[Any], value)]
    if hasattr(value, "placements"):
        return plain_option(value.plain)
    name = value.name if is_model(value) else getattr(value, "__qualname__", type(value).__qualname__)
    return {OBJECT: name}


def lost_object(value: Any) -> str | None:
    """The name of the first object in a stored value that was kept by name only."""
    if isinstance(value, Mapping):
        table = cast(Mapping[str, Any], value)
        if set(table) == {OBJECT}:
            return str(table[OBJECT])
        return next((lost for member in table.values() if (lost := lost_object(member))), None)
    if isinstance(value, list):
        return next((lost for member in cast(list[Any], value) if (lost := lost_object(member))), None)
    return None


def memory_table(stored: Any) -> Json:
    """The stored option `memory` as the table that a manifest has for it."""
    return dict(cast("Json", stored)) if isinstance(stored, Mapping) and OBJECT not in stored else {"store": stored}


def plain_skill(skill: Skill) -> Json:
    """A skill, whole, as the table that `skills` takes."""
    allowed = None if skill.allowed_tools is None else list(skill.allowed_tools)
    return {
        "name": skill.name,
        "description": skill.description,
        "text": skill.text,
        "allowed_tools": allowed,
        "disallowed_tools": list(skill.disallowed_tools),
    }

"""Schemas for providers that promise to keep to them: `strict`.

Law: a strict schema asks for every field; one that may be left out may be null instead, and null then means that it was
left out. What such a schema cannot say is refused when the tool is put into use.
"""

from typing import Any, cast

from causeline.models.messages import Json
from causeline.tools.json_schema import Schema

_GROUPS = ("properties", "$defs", "definitions")
_LISTS = ("anyOf", "prefixItems")


def strict_schema(document: Json) -> tuple[Json, list[str]]:
    """The schema in the form strict providers take, and what of it they do not: open maps, `oneOf`, `allOf`, `not`."""
    findings: list[str] = []
    return _strict(document, "$", findings), findings


def without_nulls(schema: Schema, arguments: Json) -> Json:
    """The arguments without nulls where the schema takes none: those fields were left out."""
    faults = [path for path in schema.fault_places(arguments) if path]
    for path in faults:
        arguments = _dropped(arguments, path)
    return arguments


def _strict(schema: Any, place: str, findings: list[str]) -> Any:
    if schema in (True, {}):
        findings.append(f"{place}: anything at all; strict needs a type")
    if not isinstance(schema, dict):
        return schema
    made: Json = {key: value for key, value in cast(Json, schema).items() if key != "default"}
    findings.extend(f"{place}: {word} has no strict form" for word in ("oneOf", "allOf", "not", "patternProperties") if word in made)
    for key in _GROUPS:
        if isinstance(made.get(key), dict):
            made[key] = {name: _strict(each, f"{place}.{name}", findings) for name, each in made[key].items()}
    for key in _LISTS:
        if isinstance(made.get(key), list):
            made[key] = [_strict(each, place, findings) for each in made[key]]
    if "items" in made:
        made["items"] = _strict(made["items"], f"{place}[]", findings)
    if "properties" in made or made.get("type") == "object":
        _close(made, place, findings)
    if "$ref" in made and len(made) > 1:
        made = {"anyOf": [{"$ref": made.pop("$ref")}], **made}
    return made


def _close(made: Json, place: str, findings: list[str]) -> None:
    """Every field is there, and no other."""
    if made.get("additionalProperties") not in (None, False):
        findings.append(f"{place}: takes fields without a name; strict needs each by its name")
    properties: Json = made.get("properties", {})
    needed = set(made.get("required", ()))
    made["properties"] = {name: each if name in needed else _nullable(each) for name, each in properties.items()}
    made["required"] = list(properties)
    made["additionalProperties"] = False


def _nullable(schema: Any) -> Any:
    if not isinstance(schema, dict) or _takes_null(cast(Json, schema)):
        return cast(Any, schema)
    made: Json = {**cast(Json, schema)}
    if isinstance(made.get("type"), str) and "const" not in made:
        made["type"] = [made["type"], "null"]
        if "enum" in made:
            made["enum"] = [*made["enum"], None]
        return made
    kept = {key: made.pop(key) for key in ("description",) if key in made}
    inner = made["anyOf"] if list(made) == ["anyOf"] else [made]
    return {"anyOf": [*inner, {"type": "null"}], **kept}


def _takes_null(schema: Json) -> bool:
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return any(isinstance(each, dict) and _takes_null(cast(Json, each)) for each in schema.get("anyOf", ()))


def _dropped(value: Any, path: tuple[str | int, ...]) -> Any:
    """`value` without the member at `path`, if that is a null in an object."""
    step, rest = path[0], path[1:]
    if isinstance(value, dict) and step in value:
        members = cast(Json, value)
        if rest:
            return {**members, cast(str, step): _dropped(members[cast(str, step)], rest)}
        return {name: each for name, each in members.items() if name != step or each is not None}
    if isinstance(value, list) and rest and isinstance(step, int):
        entries = cast(list[Any], value)
        return [_dropped(each, rest) if index == step else each for index, each in enumerate(entries)]
    return cast(Any, value)

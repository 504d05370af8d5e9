"""Manifests in HCL (HashiCorp's configuration language), by python-hcl2.

Law: only plain values. A block is a table, `tools` blocks are a list, a label of the `agent` block is its name;
expressions such as `env("X")` are refused, because nothing evaluates them.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from causeline.agent.manifest.source import Place, UnreadableText
from causeline.errors import Missing
from causeline.models.messages import Json

_LISTS = ("tools", "mcp")
_BLOCK = "__is_block__"
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_OPENED = re.compile(r'\s*([A-Za-z_][\w-]*)(?:\s+"[^"]*")*\s*(=?)\s*\{')
_ENTRY = re.compile(r"\s*\"?([A-Za-z_][\w-]*)\"?\s*=")


def read_hcl(text: str) -> tuple[Json, Mapping[Place, int]]:
    """Data and line numbers of a manifest in HCL. Raises Missing without the package, UnreadableText for what is no manifest."""
    try:
        import hcl2
    except ImportError as error:
        raise Missing("Reading .hcl needs the package python-hcl2; install causeline[hcl], or write the file as TOML.") from error
    loads: Any = cast(Any, hcl2).loads
    options = hcl2.SerializationOptions(strip_string_quotes=True, preserve_heredocs=False, with_comments=False)
    try:
        parsed: Json = loads(text, serialization_options=options)
    except Exception as error:  # its errors are those of a parser library underneath
        line = getattr(error, "line", None)
        raise UnreadableText(f"not HCL: {str(error).splitlines()[0]}", line if isinstance(line, int) and line > 0 else None) from error
    lines = hcl_lines(text)
    return {str(key): _value(value, (str(key),), lines) for key, value in parsed.items()}, lines


def _value(value: Any, place: Place, lines: Mapping[Place, int]) -> Any:
    if isinstance(value, str):
        return _text(value, place, lines)
    if isinstance(value, dict):
        members = cast(Json, value)
        return {key.strip('"'): _value(member, (*place, key.strip('"')), lines) for key, member in members.items() if key != _BLOCK}
    if not isinstance(value, list):
        return value
    items = cast(list[Any], value)
    if not items or not all(isinstance(item, dict) and _is_block(cast(Json, item)) for item in items):
        return [_value(item, (*place, index), lines) for index, item in enumerate(items)]
    blocks = [_block(cast(Json, item), (*place, index) if place[-1] in _LISTS else place, lines) for index, item in enumerate(items)]
    return blocks[0] if len(blocks) == 1 and place[-1] not in _LISTS else blocks


def _is_block(item: Json) -> bool:
    return _BLOCK in item or (len(item) == 1 and all(isinstance(inner, dict) and _is_block(cast(Json, inner)) for inner in item.values()))


def _block(item: Json, place: Place, lines: Mapping[Place, int]) -> Any:
    if _BLOCK in item:
        return _value(item, place, lines)
    label, inner = next(iter(item.items()))
    return {"name": label.strip('"'), **_block(inner, place, lines)}


def _text(value: str, place: Place, lines: Mapping[Place, int]) -> Any:
    if value.startswith("${") and value.endswith("}") and _NUMBER.fullmatch(value[2:-1]):
        return float(value[2:-1])
    if re.search(r"(?<!\$)\$\{", value):
        name = ".".join(str(part) for part in place)
        raise UnreadableText(f"{name}: {value} is an expression; write a plain value ($${{ for a literal ${{)", lines.get(place))
    return value.replace("$${", "${")


def hcl_lines(text: str) -> dict[Place, int]:
    """The line, from 1, of each block and attribute that begins a line."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    stack: list[Place] = [()]
    for number, line in enumerate(text.splitlines(), 1):
        opened = _OPENED.match(line)
        entry = _ENTRY.match(line)
        if opened is not None:
            place: Place = (*stack[-1], opened.group(1))
            if opened.group(1) in _LISTS and not opened.group(2):
                counts[place] = counts.get(place, -1) + 1
                place = (*place, counts[place])
            lines.setdefault(place, number)
            if line.count("{") > line.count("}"):
                stack.append(place)
        elif entry is not None:
            lines.setdefault((*stack[-1], entry.group(1)), number)
        elif line.strip() == "}" and len(stack) > 1:
            stack.pop()
    return lines

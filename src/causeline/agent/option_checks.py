"""What each option of an agent may be: one rule an option, each answers with what it expected.

Law: pure. A rule never raises and never changes a value.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, cast, get_origin

from causeline.agent.system_prompt import template_findings
from causeline.tools.approval import approval_findings
from causeline.tools.skills import Skill

Rule = Callable[[Any], list[str]]
"""Gives one line for each thing wrong with a value."""

_NAME = re.compile(r"\w[\w .-]{0,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SEMANTIC_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,47}")
MAX_NODE_TYPES = 32
MIN_CONTEXT_TOKENS = 256


def _expected(what: str, value: Any) -> list[str]:
    shown = repr(value)
    return [f"expected {what}, got {shown if len(shown) <= 80 else shown[:80] + '...'}"]


def _one(what: str, test: Callable[[Any], object]) -> Rule:
    """A rule from a test."""
    return lambda value: [] if test(value) else _expected(what, value)


def _maybe(rule: Rule) -> Rule:
    """The same rule, with None allowed."""
    return lambda value: [] if value is None else rule(value)


def _whole(least: int) -> Rule:
    return _one(f"a whole number from {least}", lambda value: type(value) is int and value >= least)


def _choice(*words: str) -> Rule:
    return _one(f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words)


def _matching(what: str, pattern: re.Pattern[str]) -> Rule:
    return _one(what, lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def is_model(value: Any) -> bool:
    """Whether something is a Model, by what it can do."""
    return callable(getattr(value, "stream", None)) and isinstance(getattr(value, "name", None), str)


FLAG = _one("true or false", lambda value: type(value) is bool)
TEXT = _one("text", lambda value: isinstance(value, str))
FILLED = _one("text that is not empty", lambda value: isinstance(value, str) and bool(value.strip()))
POSITIVE = _one("a number above 0", lambda value: _is_number(value) and value > 0)
NOT_NEGATIVE = _one("a number from 0", lambda value: _is_number(value) and value >= 0)
FUNCTION = _one("a function", callable)
VARIABLE = _matching("the name of an environment variable", _VARIABLE)
_ADDRESS = _one(
    "an address that begins with http:// or https://", lambda value: isinstance(value, str) and value.startswith(("http://", "https://"))
)
PATH = _one("a path", lambda value: isinstance(value, str | Path) and bool(str(value)))
MODEL = _one('a model, such as "openai:gpt-5-mini" or a Model', lambda value: is_model(value) or (isinstance(value, str) and value.strip()))


def _url(value: Any) -> list[str]:
    """An address without a secret in it: agents are stored with their runs and exported. What is found does not repeat it."""
    if isinstance(value, str) and "@" in re.split(r"[/?#]", value.partition("://")[2], maxsplit=1)[0]:
        return ["an address without a user name or password; put the key into an environment variable and name that with api_key_env"]
    return _ADDRESS(value)


def _system(value: Any) -> list[str]:
    return template_findings(value) if isinstance(value, str) else _expected("text", value)


def _names(value: Any) -> list[str]:
    """A name, or a list of names."""
    if isinstance(value, str):
        return FILLED(value)
    if not _is_sequence(value):
        return _expected("a tool name or a list of them", value)
    return [f"[{index}]: {line}" for index, each in enumerate(value) for line in FILLED(each)]


def _skills(value: Any) -> list[str]:
    if not _is_sequence(value):
        return _expected("a list of skills", value)
    return [f"[{index}]: {line}" for index, each in enumerate(value) for line in _skill(each)]


def _skill(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        rules = {"name": FILLED, "description": TEXT, "text": FILLED, "allowed_tools": _maybe(_names), "disallowed_tools": _names}
        return _table(cast(Mapping[str, Any], value), rules, needed=("name", "description", "text"))
    return [] if isinstance(value, Skill) or not PATH(value) else _expected("a name, a path or a Skill", value)


def _fallbacks(value: Any) -> list[str]:
    if not _is_sequence(value):
        return _expected("a list of models", value)
    rules = {"model": FILLED, "base_url": _maybe(_url), "api_key_env": _maybe(VARIABLE)}
    lines: list[str] = []
    for index, each in enumerate(value):
        found = _table(cast(Mapping[str, Any], each), rules, needed=("model",)) if isinstance(each, Mapping) else MODEL(each)
        lines.extend(f"[{index}]: {line}" for line in found)
    return lines


def _recall(value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return _expected("a table with runs, k and max_tokens", value)
    return _table(cast(Mapping[str, Any], value), {"runs": _runs, "k": _whole(1), "max_tokens": _whole(1)}, needed=("runs",))


def _runs(value: Any) -> list[str]:
    if value in ("session", "owner") or (_is_sequence(value) and all(isinstance(each, str) and each for each in value)):
        return []
    return _expected('"session", "owner" or a list of run ids', value)


def _node_types(value: Any) -> list[str]:
    """A list of `{name, description}` or of names."""
    if not _is_sequence(value) or not 1 <= len(value) <= MAX_NODE_TYPES:
        return _expected(f"a list of 1 to {MAX_NODE_TYPES} types", value)
    name = _matching("a type name (a letter, then letters, digits, _ or -, in lower case)", _SEMANTIC_TYPE)
    rules = {"name": name, "description": TEXT}
    lines: list[str] = []
    for index, each in enumerate(value):
        found = _table(cast(Mapping[str, Any], each), rules, needed=("name",)) if isinstance(each, Mapping) else name(each)
        lines.extend(f"[{index}]: {line}" for line in found)
    return lines


def _response_format(value: Any) -> list[str]:
    """A JSON Schema, `{name, schema, strict?}`, or a provider's own `{type: ...}`."""
    if not isinstance(value, Mapping):
        return _expected("a JSON Schema, {name, schema} or {type: ...}", value)
    given = cast(Mapping[str, Any], value)
    if "schema" in given and not isinstance(given["schema"], Mapping):
        return _expected("a JSON Schema under schema", given["schema"])
    if not {"schema", "type", "properties", "$ref", "anyOf", "oneOf", "allOf"} & set(given):
        return _expected("a JSON Schema, {name, schema} or {type: ...}", value)
    return []


def _output_type(value: Any) -> list[str]:
    return [] if isinstance(value, type) or get_origin(value) is not None else _expected("a type", value)


def _memory(value: Any) -> list[str]:
    fits = isinstance(value, str | Mapping) or callable(getattr(value, "search", None))
    return [] if fits and value else _expected("the address of a store, a table, or a MemoryStore", value)


def _graph(value: Any) -> list[str]:
    fits = (isinstance(value, str | Path) and bool(str(value))) or isinstance(value, Mapping) or hasattr(value, "placements")
    return [] if fits else _expected('"react", "react-flat", a path, or a Document', value)


def _table(table: Mapping[str, Any], rules: Mapping[str, Rule], *, needed: Iterable[str] = ()) -> list[str]:
    lines = [f"{key}: unknown key; known are {', '.join(rules)}" for key in table if key not in rules]
    lines.extend(f"{key}: required" for key in needed if key not in table)
    lines.extend(f"{key}: {line}" for key, rule in rules.items() if key in table for line in rule(table[key]))
    return lines


RULES: Mapping[str, Rule] = {
    "model": MODEL,
    "name": _matching("a name of letters, digits, blanks, dots, _ and -", _NAME),
    "system": _maybe(_system),
    "use_tools": _maybe(_names),
    "skills": _skills,
    "skill_dir": _maybe(PATH),
    "input_key": FILLED,
    "output_key": FILLED,
    "messages_key": FILLED,
    "tool_call_key": FILLED,
    "human_key": FILLED,
    "temperature": _maybe(NOT_NEGATIVE),
    "max_tokens": _maybe(_whole(1)),
    "response_format": _maybe(_response_format),
    "output_type": _maybe(_output_type),
    "provider": _maybe(FILLED),
    "base_url": _maybe(_url),
    "api_key_env": _maybe(VARIABLE),
    "chat_path": _maybe(_one("a path that begins with /", lambda value: isinstance(value, str) and value.startswith("/"))),
    "auth_header": _maybe(_matching("the name of an HTTP header", _HEADER)),
    "auth_prefix": _maybe(_one("text on one line", lambda value: isinstance(value, str) and not {"\r", "\n"} & set(value))),
    "max_tool_rounds": _maybe(_whole(0)),
    "max_steps": _maybe(_whole(1)),
    "max_repeats": _whole(1),
    "tool_concurrency": _whole(1),
    "tool_mode": _choice("native", "text", "schema"),
    "parse_text_tool_calls": FLAG,
    "tool_error_mode": _choice("message", "raise"),
    "tool_timeout": _maybe(POSITIVE),
    "tool_retries": _whole(0),
    "max_retries": _whole(0),
    "fallbacks": _fallbacks,
    "tool_approval": approval_findings,
    "memory": _maybe(_memory),
    "recall": _maybe(_recall),
    "remember": FLAG,
    "graph": _graph,
    "context_mode": _choice("transcript", "causal"),
    "context_tokens": _maybe(_whole(MIN_CONTEXT_TOKENS)),
    "node_types": _maybe(_node_types),
    "allow_dynamic_node_types": FLAG,
    "stream": FLAG,
    "on_token": _maybe(FUNCTION),
    "base_dir": _maybe(PATH),
}
"""One rule for each field of Options."""

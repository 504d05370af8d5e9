"""What each option of an agent may be.

Law: pure. A rule never raises and never changes a value.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast, get_origin

from causeline.agent.answer_format import has_no_schema
from causeline.agent.system_prompt import SLOT, template_findings
from causeline.graph import Document, Node
from causeline.models.kinds import is_kind
from causeline.shapes import (
    FILLED,
    NOT_NEGATIVE,
    PATH,
    TEXT,
    Rule,
    expected,
    is_list,
    list_of,
    matching,
    maybe,
    table,
    table_or,
    test,
    whole,
)
from causeline.tools.skills import Skill

MIN_CONTEXT_TOKENS = 256
PROVIDER_FORMATS = ("json_object", "json_schema", "text")
STORES = ("memory://", "sqlite:///", "postgres://", "postgresql://")
SERVER_OPTIONS = ("provider", "base_url", "api_key_env", "chat_path", "auth_header", "auth_prefix")
"""Options that say where a model named by a text is, and how to get in."""
_MAX_NODE_TYPES = 32
_OTHER_WORDS = {
    "output": "output_type", "instructions": "system", "system_prompt": "system", "prompt": "system", "api_key": "api_key_env",
    "url": "base_url", "approval": "tool_approval", "timeout": "run_timeout", "retries": "max_retries", "rounds": "max_tool_rounds",
    "max_rounds": "max_tool_rounds", "fallback": "fallbacks", "response_model": "output_type", "settings": "model_settings",
    "dependencies": "deps",
}  # fmt: skip
"""What elsewhere is the word for an option."""


def is_model(value: Any) -> bool:
    """Whether something is a Model, by what it can do."""
    return callable(getattr(value, "stream", None)) and isinstance(getattr(value, "name", None), str)


NAME = matching("a name of letters, digits, blanks, dots, _ and -", r"\w[\w .-]{0,127}")
TOOL_NAME = matching("the name of a tool: 1 to 64 letters, digits, _ or -", r"[a-zA-Z0-9_-]{1,64}")
VARIABLE = matching("the name of an environment variable", r"[A-Za-z_][A-Za-z0-9_]*")
HEADER = matching("the name of an HTTP header", r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
ONE_LINE = test("text on one line", lambda value: isinstance(value, str) and not {"\r", "\n"} & set(value))
URL_PATH = test("a path that begins with /", lambda value: isinstance(value, str) and value.startswith("/"))
MODEL = test('a model, such as "openai:gpt-5-mini" or a Model', lambda value: is_model(value) or (isinstance(value, str) and value.strip()))
SETTINGS = test(
    "a table of settings by their names",
    lambda value: isinstance(value, Mapping) and all(isinstance(key, str) and key for key in cast("Mapping[object, Any]", value)),
)
_ADDRESS = test(
    "an address that begins with http:// or https://", lambda value: isinstance(value, str) and value.startswith(("http://", "https://"))
)
_SEMANTIC_TYPE = matching("a type name (a letter, then letters, digits, _ or -, in lower case)", r"[a-z][a-z0-9_-]{0,47}")
_NAMES = list_of(FILLED, "a tool name or a list of them")


def url(value: Any) -> list[str]:
    """An address without a secret in it: agents are stored with their runs and exported. What is found does not repeat it."""
    if isinstance(value, str) and "@" in re.split(r"[/?#]", value.partition("://")[2], maxsplit=1)[0]:
        return ["an address without a user name or password; put the key into an environment variable and name that with api_key_env"]
    return _ADDRESS(value)


def system(value: Any) -> list[str]:
    """A template, or a function that gives the text."""
    if callable(value):
        return []
    return template_findings(value) if isinstance(value, str) else expected("text, or a function that returns it", value)


def names(value: Any) -> list[str]:
    """A name, or a list of names."""
    return FILLED(value) if isinstance(value, str) else _NAMES(value)


_SKILL = table_or(
    test("a name, a path or a Skill", lambda value: isinstance(value, Skill) or not PATH(value)),
    {"name": FILLED, "description": TEXT, "text": FILLED, "allowed_tools": maybe(names), "disallowed_tools": names},
    needed=("name", "description", "text"),
)
skills: Rule = list_of(_SKILL, "a list of skills")
fallbacks: Rule = list_of(
    table_or(
        MODEL,
        {
            "model": FILLED, "provider": maybe(FILLED), "base_url": maybe(url), "api_key_env": maybe(VARIABLE),
            "chat_path": maybe(URL_PATH), "auth_header": maybe(HEADER), "auth_prefix": maybe(ONE_LINE),
        },
        needed=("model",),
    ),
    "a list of models",
)  # fmt: skip
_RUNS = test(
    '"session", "owner" or a list of run ids',
    lambda value: value in ("session", "owner") or (is_list(value) and all(isinstance(name, str) and name for name in value)),
)
recall: Rule = table({"runs": _RUNS, "k": whole(1), "max_tokens": whole(1)}, needed=("runs",))
node_types: Rule = list_of(
    table_or(_SEMANTIC_TYPE, {"name": _SEMANTIC_TYPE, "description": TEXT}, needed=("name",)),
    f"a list of 1 to {_MAX_NODE_TYPES} types", least=1, most=_MAX_NODE_TYPES,
)  # fmt: skip
graph_nodes: Rule = list_of(test("a node made by causeline.graph.node", lambda value: isinstance(value, Node)), "a list of nodes")
graph_documents: Rule = list_of(test("a Document", lambda value: isinstance(value, Document)), "a list of Documents")
_STORE_ADDRESS = test(
    "the address of a store (sqlite:///memories.db, postgresql://host/database, memory://), or a MemoryStore",
    lambda value: value.startswith(STORES) if isinstance(value, str) else callable(getattr(value, "search", None)),
)


def _store(value: Any) -> list[str]:
    """An address without a password in it, as with `url`."""
    if isinstance(value, str) and ":" in value.partition("://")[2].partition("/")[0].rpartition("@")[0]:
        return ["an address without a password; databases take it from the environment (PGPASSWORD, or a password file)"]
    return _STORE_ADDRESS(value)


def _namespace(value: Any) -> list[str]:
    """A text or a list of texts, with the variables of a namespace."""
    parts: list[Any] = [value] if isinstance(value, str) else list(cast("Sequence[Any]", value)) if is_list(value) else []
    if not parts or not all(isinstance(part, str) and part for part in parts):
        return expected("a list of texts", value)
    names = [slot.group(1) for part in parts for slot in SLOT.finditer(part)]
    known = "known are owner, session.id, context.<path>"
    return [
        f"unknown variable {name}; {known}" for name in names if name not in ("owner", "session.id") and not name.startswith("context.")
    ]


_EMBEDDER: Rule = table_or(
    test(
        'an embedder, such as "openai:text-embedding-3-small"',
        lambda value: ":" in value if isinstance(value, str) else callable(value) or callable(getattr(value, "embed", None)),
    ),
    {"model": FILLED, "base_url": maybe(url), "api_key_env": maybe(VARIABLE), "dimensions": maybe(whole(1))},
    needed=("model",),
)
_MEMORY: Rule = table(
    {
        "store": maybe(_store),
        "namespace": _namespace,
        "k": whole(1),
        "header": FILLED,
        "min_score": NOT_NEGATIVE,
        "embedder": maybe(_EMBEDDER),
    }
)


def memory(value: Any) -> list[str]:
    """A store, or a table that may name one."""
    return _MEMORY(value) if isinstance(value, Mapping) else _store(value)


completion: Rule = test('"keywords", or a function of task, nodes and answer', lambda value: value == "keywords" or callable(value))
graph: Rule = test(
    '"react", "react-flat", a path, or a Document',
    lambda value: isinstance(value, Mapping | Document) or (isinstance(value, str | Path) and bool(str(value))),
)


def response_format(value: Any) -> list[str]:
    """A JSON Schema, `{name, schema, strict?}`, or a provider's own `{type: ...}`."""
    wanted: Mapping[str, Any] = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
    if "schema" in wanted and not isinstance(wanted["schema"], Mapping):
        return expected("a JSON Schema under schema", wanted["schema"])
    if not {"schema", "type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"} & set(wanted):
        return expected("a JSON Schema, {name, schema} or {type: ...}", value)
    return []


def output_type(value: Any) -> list[str]:
    """Anything that has a JSON Schema."""
    fault = "" if isinstance(value, str) else has_no_schema(value)
    if fault is None:
        return []
    if isinstance(value, Mapping):
        return expected("a type (a JSON Schema is given as response_format)", value)
    return [fault] if isinstance(value, type) or get_origin(value) is not None else expected("a type", value)


def idle_together(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Options that do nothing, or contradict each other, beside other options."""
    findings: list[tuple[str, str]] = []
    if given.get("output_type") is not None and given.get("response_format") is not None:
        findings.append(("output_type", "cannot be given together with response_format"))
    model = given.get("model")
    if model is not None and not isinstance(model, str):
        findings.extend(
            (name, "does nothing beside a Model; it is for a model named by a text")
            for name in (*SERVER_OPTIONS, "model_settings")
            if name in given
        )
    kind = model.partition(":")[0] if isinstance(model, str) and ":" in model else ""
    if "provider" in given and is_kind(kind) and kind != given["provider"]:
        findings.append(("provider", f"the model {model!r} names its own; leave one of them out"))
    if given.get("parse_text_tool_calls") is False and given.get("tool_mode", "native") != "native":
        findings.append(("parse_text_tool_calls", f"does nothing in tool_mode {given['tool_mode']!r}, where every call is text"))
    remembers = given.get("remember", "memory" in given or "node_types" in given)
    if given.get("allow_dynamic_node_types") and not remembers:
        findings.append(("allow_dynamic_node_types", "does nothing without the tool remember; say remember=True"))
    return findings


def meant(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant by an unknown one."""
    word = _OTHER_WORDS.get(name)
    return word if word in known else next(iter(get_close_matches(name, known, n=1)), None)

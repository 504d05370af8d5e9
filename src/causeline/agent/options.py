"""Every option of an agent, checked, in one record.

Law: a wrong or unknown option is found when the record is made, together with all others. Nothing here opens a
model or runs anything; skill files are read when they are asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

from causeline.agent.option_checks import RULES, is_model
from causeline.errors import Invalid
from causeline.models.messages import Json
from causeline.models.model import Model, ToolMode
from causeline.tools.approval import ApprovalMode
from causeline.tools.skills import InvalidSkill, Skill, load_skills

OBJECT = "$object"
"""Stands for a Python object in a stored record: `{"$object": its name}`."""

_TYPE_DESCRIPTION = 240
_ALWAYS: Json = {}

DEFAULT_TYPES: Mapping[str, str] = {
    "memory": "Something that happened or is true and may matter later.",
    "preference": "How the user likes things done.",
    "wisdom": "A lesson that holds beyond this task.",
    "artifact": "A thing that was made, and where it is.",
}


class InvalidOptions(Invalid):
    """Options of an agent are wrong. `findings` has one line `option: fault` for each."""

    code = "invalid_options"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of an agent; make it with `Options.checked`. Times are in seconds.

    `system` may hold `{{ name }}` variables. `use_tools` None means all tools given, an empty list none. The `*_key` options are the state
    keys of the two nodes in a graph of one's own. `max_tool_rounds` counts per user turn (0: no tools). `max_steps` bounds a run's steps,
    `max_repeats` how often a call may have the same result in a row, `tool_concurrency` how many calls run at once. `tool_timeout`
    and `tool_retries` are for tools that have none of their own, `max_retries` is for the model. `context_tokens` bounds a `causal` view.
    Relative paths start at `base_dir` (default: the working directory).
    """

    model: str | Model
    name: str = "agent"
    system: str | None = None
    use_tools: str | tuple[str, ...] | None = None
    skills: tuple[Skill | str | Path | Mapping[str, Any], ...] = ()
    skill_dir: str | Path | None = None
    input_key: str = "input"
    output_key: str = "output"
    messages_key: str = "messages"
    tool_call_key: str = "_tool_call_name"
    human_key: str = "ask_human"
    temperature: float | None = None
    max_tokens: int | None = None
    response_format: Mapping[str, Any] | None = None
    output_type: Any = None
    provider: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    chat_path: str | None = None
    auth_header: str | None = None
    auth_prefix: str | None = None
    max_tool_rounds: int | None = None
    max_steps: int | None = None
    max_repeats: int = 5
    tool_concurrency: int = 8
    tool_mode: ToolMode = "native"
    parse_text_tool_calls: bool = True
    tool_error_mode: Literal["message", "raise"] = "message"
    tool_timeout: float | None = None
    tool_retries: int = 0
    max_retries: int = 2
    fallbacks: tuple[str | Model | Mapping[str, Any], ...] = ()
    tool_approval: ApprovalMode = "auto"
    memory: Any = None
    recall: Mapping[str, Any] | None = None
    remember: bool = True
    graph: Any = "react"
    context_mode: Literal["transcript", "causal"] = "transcript"
    context_tokens: int | None = None
    node_types: tuple[str | Mapping[str, Any], ...] | None = None
    allow_dynamic_node_types: bool = False
    stream: bool = True
    on_token: Callable[[str], Any] | None = None
    base_dir: Path | None = None

    @classmethod
    def checked(cls, **values: Any) -> "Options":
        """The record of these values. Raises InvalidOptions with every fault."""
        findings = option_findings(values)
        if findings:
            lines = [f"{name}: {line}" for name, line in findings]
            raise InvalidOptions(f"Agent options: {'; '.join(lines)}.", findings=lines)
        record: Any = cls
        return record(**{name: tuple(cast(list[Any], value)) if isinstance(value, list) else value for name, value in values.items()})

    def skill_set(self) -> tuple[Skill, ...]:
        """The skills, read from their files. Raises InvalidSkill with every fault."""
        given = [_skill(each) if isinstance(each, Mapping) else each for each in self.skills]
        return load_skills(given, None if self.skill_dir is None else Path(self.skill_dir), self.base_dir)

    def semantic_types(self) -> Mapping[str, str]:
        """Names of the types that can be remembered, with what they are for."""
        if self.node_types is None:
            return DEFAULT_TYPES
        pairs = [(each, "") if isinstance(each, str) else (each["name"], each.get("description", "")) for each in self.node_types]
        return {name: description.strip()[:_TYPE_DESCRIPTION] for name, description in pairs}

    def response_schema(self) -> Json | None:
        """What the model is asked for: `{"name", "schema", "strict"?}`, a provider's own format, or None."""
        if self.output_type is not None:
            return {"name": "answer", "schema": type_schema(self.output_type)}
        if self.response_format is None:
            return None
        given = dict(self.response_format)
        if "schema" in given:
            return {"name": "answer", **given}
        return given if _is_provider_format(given) else {"name": "answer", "schema": given}

    def output_schema(self) -> Json | None:
        """The JSON Schema an answer has to fit, {} for any JSON object, None for plain text."""
        asked = self.response_schema()
        if asked is None or asked.get("type") == "text":
            return None
        return asked.get("schema") or (asked.get("json_schema") or _ALWAYS).get("schema") or _ALWAYS

    def to_plain(self) -> Json:
        """The options as JSON, to be kept with a run. Skills are kept whole; functions and objects by their names only."""
        plain: Json = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}
        plain["skills"] = [_plain_skill(skill) for skill in self.skill_set()]
        plain["skill_dir"] = None
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], **given: Any) -> "Options":
        """The record `to_plain` was made from. What was kept by name only has to be `given` again. Raises InvalidOptions."""
        values = {**plain, **given}
        lost = [f"{name}: was {_lost(value)}, which is not stored; give it again" for name, value in values.items() if _lost(value)]
        if lost:
            raise InvalidOptions(f"Agent options: {'; '.join(lost)}.", findings=lost)
        base = values.get("base_dir")
        return cls.checked(**{**values, "base_dir": None if base is None else Path(base)})


OPTION_NAMES: tuple[str, ...] = tuple(each.name for each in fields(Options))


_OTHER_WORDS = {
    "output": "output_type", "instructions": "system", "system_prompt": "system", "prompt": "system", "api_key": "api_key_env",
    "url": "base_url", "approval": "tool_approval", "timeout": "tool_timeout", "retries": "max_retries", "rounds": "max_tool_rounds",
    "max_rounds": "max_tool_rounds", "fallback": "fallbacks", "response_model": "output_type",
}  # fmt: skip
"""What elsewhere is the word for an option."""


def meant(name: str, known: Sequence[str]) -> str | None:
    """The known name that was probably meant by an unknown one."""
    word = _OTHER_WORDS.get(name)
    return word if word in known else next(iter(get_close_matches(name, known, n=1)), None)


def option_findings(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(option, fault) for everything wrong with these values."""
    found: list[tuple[str, str]] = []
    for name in values:
        if name not in RULES:
            close = meant(name, OPTION_NAMES)
            found.append((name, "unknown option" + (f"; did you mean {close}?" if close else "")))
    if "model" not in values:
        found.append(("model", 'required; such as "openai:gpt-5-mini"'))
    found.extend((name, line) for name, value in values.items() if name in RULES for line in RULES[name](value))
    if values.get("output_type") is not None and not RULES["output_type"](values["output_type"]):
        found.extend(_output_findings(values))
    return found


def _output_findings(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    if values.get("response_format") is not None:
        return [("output_type", "cannot be given together with response_format")]
    try:
        schema = type_schema(values["output_type"])
    except Invalid as error:
        return [("output_type", error.message)]
    if schema.get("type") != "object" and not {"$ref", "anyOf", "oneOf"} & set(schema):
        return [("output_type", "an answer is a JSON object; put the value into a model or a dataclass")]
    return []


@lru_cache(maxsize=64)
def type_schema(output_type: Any) -> Json:
    """The JSON Schema of a Python type. Raises InvalidOptions if it has none."""
    import pydantic  # noqa: PLC0415 - slow to import, and only typed answers need it

    try:
        return pydantic.TypeAdapter[Any](output_type).json_schema()
    except (pydantic.PydanticUserError, TypeError) as error:
        raise InvalidOptions(f"the type has no JSON Schema: {str(error).splitlines()[0]}") from error


def _is_provider_format(given: Mapping[str, Any]) -> bool:
    return given.get("type") in ("json_object", "json_schema", "text")


def _skill(table: Mapping[str, Any]) -> Skill:
    allowed, banned = table.get("allowed_tools"), table.get("disallowed_tools", ())
    return Skill(table["name"], table["description"], table["text"], None if allowed is None else tuple(allowed), tuple(banned))


def _plain_skill(skill: Skill) -> Json:
    allowed = None if skill.allowed_tools is None else list(skill.allowed_tools)
    return {
        "name": skill.name,
        "description": skill.description,
        "text": skill.text,
        "allowed_tools": allowed,
        "disallowed_tools": list(skill.disallowed_tools),
    }


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in cast(Mapping[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in cast(Sequence[Any], value)]
    if hasattr(value, "placements"):
        return _plain(value.plain)
    name = value.name if is_model(value) else getattr(value, "__qualname__", type(value).__qualname__)
    return {OBJECT: name}


def _lost(value: Any) -> str | None:
    """The name of the first object in a stored value that was kept by name only."""
    if isinstance(value, Mapping):
        table = cast(Mapping[str, Any], value)
        if set(table) == {OBJECT}:
            return str(table[OBJECT])
        return next((lost for member in table.values() if (lost := _lost(member))), None)
    if isinstance(value, list):
        return next((lost for member in cast(list[Any], value) if (lost := _lost(member))), None)
    return None


def skill_findings(options: Options) -> list[str]:
    """What is wrong with the skill files, one line each."""
    try:
        options.skill_set()
    except InvalidSkill as error:
        return [str(line) for line in error.findings]
    return []

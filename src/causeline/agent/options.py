"""Every option of an agent, once: type, default, rule, who reads it, and a line of help.

Law: the signature of `Agent`, the keys of a manifest, the table of the reference page and the checks all come from the fields of
`Options`. A wrong, unknown or idle option is found when the record is made, together with all others. Nothing here opens a model or
runs anything; skill files are read when they are asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from causeline import shapes
from causeline.agent import option_rules as rules
from causeline.agent.answer_format import AnswerFormat, format_of_schema, format_of_type
from causeline.agent.stored_options import OBJECT, lost_object, plain_option, plain_skill
from causeline.errors import Invalid
from causeline.graph import Document, Node
from causeline.models.messages import Json
from causeline.models.model import Model, ToolMode
from causeline.shapes import Rule
from causeline.tools.approval import ApprovalMode, approval_findings
from causeline.tools.skills import InvalidSkill, Skill, load_skills

Reader = Literal["agent", "react_agent", "tool_exec", "file"]
"""Who reads an option: an Agent, the two nodes of `causeline.nodes`, a manifest."""

MAX_STEPS = 500
SKILL_DIR = "skills"
_TYPE_DESCRIPTION = 240

DEFAULT_TYPES: Mapping[str, str] = {
    "memory": "Something that happened or is true and may matter later.",
    "preference": "How the user likes things done.",
    "wisdom": "A lesson that holds beyond this task.",
    "artifact": "A thing that was made, and where it is.",
}


class InvalidOptions(Invalid):
    """Options of an agent are wrong. `findings` has one line `option: fault` for each."""

    code = "invalid_options"


@dataclass(frozen=True, slots=True)
class Option:
    """What is true of an option beside its type and default. `letters` say who reads it (see READERS), `unset` is what holds where it is
    not given, in words."""

    rule: Rule
    letters: str
    help: str
    unset: str = ""

    @property
    def readers(self) -> frozenset[Reader]:
        return frozenset(reader for letter, reader in READERS.items() if letter in self.letters)


READERS: Mapping[str, Reader] = {"a": "agent", "r": "react_agent", "t": "tool_exec", "f": "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of an agent; make it with `Options.checked`. Times are in seconds. Relative paths start at `base_dir` (default: the
    working directory)."""

    model: Annotated[str | Model, Option(rules.MODEL, "arf", "see Models; in Python also a Model")]
    name: Annotated[str, Option(rules.NAME, "af", "the agent's name, which runs remember")] = "agent"
    system: Annotated[
        str | Callable[..., Any] | None,
        Option(
            rules.system,
            "arf",
            "the system prompt. `{{ date }}`, `{{ now }}`, `{{ tools }}`, `{{ context }}`, `{{ context.PATH }}`, `{{ metadata.KEY }}`, "
            "`{{ agent.name }}`, `{{ session.id }}` and `{{ run.id }}` are filled in as of the start of the run; an unknown name is "
            "refused. In Python also a function of the run's scope that returns the text",
            unset="none",
        ),
    ] = None
    use_tools: Annotated[
        str | tuple[str, ...] | None, Option(rules.names, "artf", "names of the given tools to use, also with `*` and `?`", unset="all")
    ] = None
    skills: Annotated[
        tuple[Skill | str | Path | Mapping[str, Any], ...],
        Option(
            rules.skills,
            "artf",
            "names, paths or tables of skills: instructions that go with the system prompt and may narrow the tools",
            unset="none",
        ),
    ] = ()
    skill_dir: Annotated[
        str | Path | None, Option(shapes.PATH, "artf", "where named skills are; it need not exist", unset='`"skills"` beside the file')
    ] = None
    input_key: Annotated[
        str, Option(shapes.FILLED, "r", "for the two nodes in a graph of your own: the channel with the text a conversation begins with")
    ] = "input"
    output_key: Annotated[str, Option(shapes.FILLED, "r", "the nodes' channel for the answer")] = "output"
    messages_key: Annotated[str, Option(shapes.FILLED, "rt", "the nodes' channel for the history")] = "messages"
    tool_call_key: Annotated[str, Option(shapes.FILLED, "rt", 'the nodes\' channel that is `"pending"` while tools are to run')] = (
        "_tool_call_name"
    )
    human_key: Annotated[str, Option(rules.TOOL_NAME, "artf", "the name under which `ask_human` is offered")] = "ask_human"
    temperature: Annotated[float | None, Option(shapes.NOT_NEGATIVE, "arf", "sampling temperature", unset="the model's")] = None
    max_tokens: Annotated[int | None, Option(shapes.whole(1), "arf", "most tokens in a reply", unset="the model's")] = None
    model_settings: Annotated[
        Mapping[str, Any] | None,
        Option(
            rules.SETTINGS,
            "arf",
            "what goes to the provider as it is: `top_p`, `seed`, `stop`, `reasoning_effort`, `tool_choice`, "
            "`parallel_tool_calls`, `timeout`, `extra_body` ...",
            unset="none",
        ),
    ] = None
    response_format: Annotated[
        Mapping[str, Any] | None, Option(rules.response_format, "arf", "a JSON Schema that the answer has to fit", unset="text")
    ] = None
    output_type: Annotated[
        Any,
        Option(
            rules.output_type,
            "ar",
            "Python only: the type the answer has to fit, such as a Pydantic model, a dataclass, `int`, `list[str]` or a "
            "union; `result.output` is one",
            unset="none",
        ),
    ] = None
    provider: Annotated[str | None, Option(shapes.FILLED, "arf", "the kind of a `model` that names none", unset="by the model's name")] = (
        None
    )
    base_url: Annotated[str | None, Option(rules.url, "arf", "where the API is", unset="the model's")] = None
    api_key_env: Annotated[str | None, Option(rules.VARIABLE, "arf", "the variable that holds the key", unset="the model's")] = None
    chat_path: Annotated[str | None, Option(rules.URL_PATH, "arf", "the path of the chat call below `base_url`", unset="the model's")] = (
        None
    )
    auth_header: Annotated[str | None, Option(rules.HEADER, "arf", "the header that carries the key", unset="the model's")] = None
    auth_prefix: Annotated[str | None, Option(rules.ONE_LINE, "arf", "what stands before the key in it", unset="the model's")] = None
    max_tool_rounds: Annotated[
        int | None, Option(shapes.whole(0), "arf", "rounds of tool calls in a user turn; 0 means no tools", unset="no limit")
    ] = None
    max_steps: Annotated[int | None, Option(shapes.whole(1), "af", "steps in a run", unset=str(MAX_STEPS))] = None
    max_repeats: Annotated[
        int, Option(shapes.whole(1), "af", "the same call with the same result so often in a row ends the run as `loop`")
    ] = 5
    run_timeout: Annotated[float | None, Option(shapes.POSITIVE, "af", "seconds a run may take", unset="no limit")] = None
    max_total_tokens: Annotated[
        int | None, Option(shapes.whole(1), "af", "tokens, in and out, that a run may use, those of its sub-agents too", unset="no limit")
    ] = None
    max_cost: Annotated[
        float | None,
        Option(shapes.POSITIVE, "af", "US dollars that a run may cost, as far as the provider or the price table says", unset="no limit"),
    ] = None
    tool_concurrency: Annotated[int, Option(shapes.whole(1), "artf", "calls that run at the same time")] = 8
    tool_mode: Annotated[
        ToolMode,
        Option(
            shapes.choice("native", "text", "schema"), "arf", '`"text"` and `"schema"` are for models that cannot call tools themselves'
        ),
    ] = "native"
    parse_text_tool_calls: Annotated[bool, Option(shapes.FLAG, "arf", "take calls that a model wrote as text")] = True
    tool_error_mode: Annotated[
        Literal["message", "raise"],
        Option(shapes.choice("message", "raise"), "artf", 'a tool\'s failure is told to the model; `"raise"` ends the run'),
    ] = "message"
    tool_timeout: Annotated[float | None, Option(shapes.POSITIVE, "artf", "seconds, for tools without their own", unset="none")] = None
    tool_retries: Annotated[int, Option(shapes.whole(0), "artf", "further tries, for tools without their own")] = 0
    max_retries: Annotated[int, Option(shapes.whole(0), "arf", "further tries of a model call")] = 2
    fallbacks: Annotated[
        tuple[str | Model | Mapping[str, Any], ...],
        Option(rules.fallbacks, "arf", "models to take when this one fails; see Models", unset="none"),
    ] = ()
    tool_approval: Annotated[
        ApprovalMode,
        Option(
            approval_findings,
            "artf",
            '`"ask"`, `"deny"`, `"interactive"`, `{"pay*": "ask"}`, or in Python a function of name and arguments',
        ),
    ] = "auto"
    memory: Annotated[
        Any, Option(rules.memory, "arf", "[long-term memory](memory.md#memory-of-an-agent); in a file `[memory]`", unset="none")
    ] = None
    recall: Annotated[
        Mapping[str, Any] | None,
        Option(
            rules.recall,
            "af",
            '`{runs, k, max_tokens}`: put what earlier runs say before the model; `runs` is `"session"`, `"owner"` or a list of run ids',
            unset="none",
        ),
    ] = None
    remember: Annotated[
        bool | None, Option(shapes.FLAG, "af", "offer the tool `remember` (see below)", unset="where `memory` or `node_types` is given")
    ] = None
    node_types: Annotated[
        tuple[str | Mapping[str, Any], ...] | None, Option(rules.node_types, "af", "the types that `remember` knows", unset="built-in ones")
    ] = None
    allow_dynamic_node_types: Annotated[bool, Option(shapes.FLAG, "af", "let the model make up further types")] = False
    completion: Annotated[
        str | Callable[..., Any] | None,
        Option(
            rules.completion,
            "af",
            'what an answer has to be backed by: `"keywords"`, or in Python a function that says what is missing (see below)',
            unset="nothing",
        ),
    ] = None
    graph: Annotated[Any, Option(rules.graph, "a", '`"react-flat"`, the path of a document, or a Document; in a file `[graph] type`')] = (
        "react"
    )
    nodes: Annotated[
        tuple[Node, ...], Option(rules.graph_nodes, "a", "Python only: nodes of your own, for a `graph` of your own", unset="none")
    ] = ()
    documents: Annotated[
        tuple[Document, ...], Option(rules.graph_documents, "a", "Python only: further documents that `graph` embeds", unset="none")
    ] = ()
    deps: Annotated[
        Any,
        Option(
            shapes.anything,
            "a",
            "Python only: an object of yours that tools and nodes find as `ctx.deps`; it is never stored",
            unset="none",
        ),
    ] = None
    context_mode: Annotated[
        Literal["transcript", "causal"],
        Option(
            shapes.choice("transcript", "causal"),
            "af",
            '`"causal"` shows the model a bounded choice of the log instead of the whole conversation: what bears on the question',
        ),
    ] = "transcript"
    context_tokens: Annotated[
        int | None,
        Option(
            shapes.whole(rules.MIN_CONTEXT_TOKENS),
            "af",
            "the most tokens, estimated, of what a model is shown; of a transcript the oldest rounds are left out",
            unset='16,000 for `"causal"`',
        ),
    ] = None
    stream: Annotated[bool, Option(shapes.FLAG, "arf", "ask the model for a stream, and tell of a reply while it comes")] = True
    on_token: Annotated[
        Callable[[str], Any] | None, Option(shapes.FUNCTION, "ar", "Python only: called with each piece of text", unset="none")
    ] = None
    on_request: Annotated[
        Callable[[Json], Any] | None,
        Option(
            shapes.FUNCTION,
            "ar",
            "Python only: called with `{model, url, body}` of each request to a server as it is sent; what it raises ends the run",
            unset="none",
        ),
    ] = None
    base_dir: Annotated[Path | None, Option(shapes.PATH, "art", "where relative paths start", unset="the working directory")] = None

    @classmethod
    def checked(cls, reader: Reader = "agent", /, **values: Any) -> "Options":
        """The record of these values; None means not given. Raises InvalidOptions with every fault."""
        findings = option_findings(values, reader)
        if findings:
            lines = [f"{name}: {line}" for name, line in findings]
            raise InvalidOptions(f"{_TITLES[reader]}: {'; '.join(lines)}.", findings=lines)
        record: Any = cls
        given = {name: value for name, value in values.items() if value is not None}
        given.setdefault("model", "")  # only the tools node has none
        return record(**{name: tuple(cast(list[Any], value)) if isinstance(value, list) else value for name, value in given.items()})

    @property
    def offers_remember(self) -> bool:
        """Whether the tool `remember` is among the agent's."""
        return self.remember if self.remember is not None else self.memory is not None or self.node_types is not None

    def skill_set(self) -> tuple[Skill, ...]:
        """The skills, read from their files. Raises InvalidSkill with every fault."""
        skills = [_skill(each) if isinstance(each, Mapping) else each for each in self.skills]
        return load_skills(skills, Path(self.skill_dir or SKILL_DIR), self.base_dir)

    def semantic_types(self) -> Mapping[str, str]:
        """Names of the types that can be remembered, with what they are for."""
        if self.node_types is None:
            return DEFAULT_TYPES
        pairs = [(each, "") if isinstance(each, str) else (each["name"], each.get("description", "")) for each in self.node_types]
        return {name: description.strip()[:_TYPE_DESCRIPTION] for name, description in pairs}

    def answer_format(self) -> AnswerFormat | None:
        """What an answer has to be; None for plain text."""
        if self.output_type is not None:
            return format_of_type(self.output_type)
        return None if self.response_format is None else format_of_schema(self.response_format)

    def to_plain(self) -> Json:
        """The options as JSON, to be kept with a run. Skills are kept whole; functions and objects by their names only."""
        plain: Json = {name: plain_option(getattr(self, name)) for name in OPTIONS if name != "deps"}
        plain["skills"] = [plain_skill(skill) for skill in self.skill_set()]
        plain["skill_dir"] = None
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], **given: Any) -> "Options":
        """The record `to_plain` was made from. What was kept by name only has to be `given` again. Raises InvalidOptions."""
        values = {**plain, **given}
        lost = [
            f"{name}: was {lost_object(value)}, which is not stored; give it again" for name, value in values.items() if lost_object(value)
        ]
        if lost:
            raise InvalidOptions(f"Agent options: {'; '.join(lost)}.", findings=lost)
        base = values.get("base_dir")
        return cls.checked(**{**values, "base_dir": None if base is None else Path(base)})


OPTIONS: Mapping[str, Option] = {each.name: cast("Any", each.type).__metadata__[0] for each in fields(Options)}
"""The table: what is true of each option."""
OPTION_NAMES: tuple[str, ...] = tuple(OPTIONS)
_DEFAULTS: Mapping[str, Any] = {each.name: each.default for each in fields(Options)}
_TITLES: Mapping[Reader, str] = {
    "agent": "Agent options",
    "react_agent": "Options of react_agent",
    "tool_exec": "Options of tool_exec",
    "file": "Agent options",
}


def option_findings(values: Mapping[str, Any], reader: Reader = "agent") -> list[tuple[str, str]]:
    """(option, fault) for everything wrong with these values, where None means not given."""
    findings: list[tuple[str, str]] = []
    for name in values:
        if name not in OPTIONS:
            close = rules.meant(name, readable(reader))
            findings.append((name, "unknown option" + (f"; did you mean {close}?" if close else "")))
    given = {name: value for name, value in values.items() if name in OPTIONS and value is not None}
    if "model" not in given and reader != "tool_exec":
        findings.append(("model", 'required; such as "openai:gpt-5-mini"'))
    findings.extend((name, line) for name, value in given.items() for line in OPTIONS[name].rule(value))
    if not findings:
        findings.extend(_idle(given, reader))
    return findings


def readable(reader: Reader) -> tuple[str, ...]:
    """The options somebody reads."""
    return tuple(name for name, info in OPTIONS.items() if reader in info.readers)


def _idle(given: Mapping[str, Any], reader: Reader) -> list[tuple[str, str]]:
    """Options that would do nothing where they are given."""
    findings: list[tuple[str, str]] = []
    for name, value in given.items():
        readers = OPTIONS[name].readers
        if reader not in readers and value != _DEFAULTS[name]:
            others = ", ".join(sorted(_PLACES[each] for each in readers if each != "file"))
            findings.append((name, f"does nothing here; it is an option of {others}"))
    idle = {name for name, _ in findings}
    findings.extend(finding for finding in rules.idle_together(given) if finding[0] not in idle)
    return findings


_PLACES: Mapping[Reader, str] = {
    "agent": "causeline.Agent",
    "react_agent": "nodes.react_agent",
    "tool_exec": "nodes.tool_exec",
    "file": "a file",
}


def skill_findings(options: Options) -> list[str]:
    """What is wrong with the skill files, one line each."""
    try:
        options.skill_set()
    except InvalidSkill as error:
        return [str(line) for line in error.findings]
    return []


def _skill(table: Mapping[str, Any]) -> Skill:
    allowed, banned = table.get("allowed_tools"), table.get("disallowed_tools", ())
    return Skill(table["name"], table["description"], table["text"], None if allowed is None else tuple(allowed), tuple(banned))


__all__ = ["OBJECT", "OPTIONS", "OPTION_NAMES", "InvalidOptions", "Option", "Options", "Reader", "Sequence", "option_findings"]

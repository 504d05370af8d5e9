"""What a tool is: a name, a JSON Schema, a policy, and a body that runs.

Law: a tool describes itself without running, and its body only ever runs with arguments in which
`findings` found nothing. How a call is validated, timed, tried again and recorded is `execute`'s work.
"""

import copy
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast, get_args

from causeline.errors import Invalid, Refused
from causeline.models.messages import Json, ToolSpec
from causeline.run.scope import Recalled, SubRun
from causeline.tools.approval import ApprovalMode, approval_findings
from causeline.tools.json_schema import Schema
from causeline.tools.output_schema import OutputSchema
from causeline.tools.strict import strict_schema, without_nulls

OnUnknown = Literal["report", "retry", "ask"]
"""What becomes of a call that was started and whose outcome nobody knows."""

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every provider accepts as the name of a tool."""

MAX_CHARS = 50_000
POLICY: tuple[str, ...] = ("strict", "effects", "idempotent", "exclusive", "timeout", "retries", "approval", "on_unknown", "max_chars")
"""The fields of a Tool that say how its calls are treated."""


class InvalidTool(Invalid):
    """A tool's declaration is wrong. `findings` has one line for each fault."""

    code = "invalid_tool"


class ToolError(Refused):
    """Raise it in a tool to give the model an error text in your own words. The call is not tried again."""

    code = "tool_error"
    retryable = False


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tool is written: absolute file path, and qualified name inside the file."""

    path: str
    qualname: str


@dataclass(frozen=True, slots=True)
class Resource:
    """Something a call read or changed. `path` is relative to the tool's own root, `content_hash` 64 hex of SHA-256."""

    path: str
    operation: str
    content_hash: str | None = None
    bytes: int | None = None
    succeeded: bool = True
    value: Any = None

    @property
    def key(self) -> str:
        """The resource key of the log."""
        return f"resource:file:{self.path}"

    def to_payload(self) -> Json:
        """The payload of a `resource` node; what is not known is left out."""
        payload: Json = {"path": self.path, "operation": self.operation, "succeeded": self.succeeded}
        for name, value in (("contentHash", self.content_hash), ("bytes", self.bytes), ("value", self.value)):
            if value is not None:
                payload[name] = value
        return payload


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool returns when a plain value does not say enough.

    `context_patch` changes the run's context object key by key (None deletes a key), `resources` become resource nodes,
    `verification` ({"method": ...}) a verification node. `ok = False` is a failure in the tool's own words; it is not tried again.
    """

    value: Any = None
    ok: bool = True
    context_patch: Mapping[str, Any] | None = None
    resources: Sequence[Resource] = ()
    verification: Mapping[str, Any] | None = None


def checked_tools(tools: Any) -> Iterable[Any]:
    """The tools, if they are a list of anything. Raises InvalidTool."""
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise InvalidTool(f"tools: expected a list of tools, got {tools!r:.80}", findings=["tools"])
    return cast("Iterable[Any]", tools)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a tool returns whose result is still to come: the run below it has stopped with these open questions to people; with none, it
    was handed back, to be gone on with elsewhere."""

    questions: Sequence[Mapping[str, Any]]


def _unseen(_data: Mapping[str, Any]) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may know of its call; given to functions that have a parameter annotated `ToolContext`.

    `idempotency_key` is the same for every attempt of this call, also after a crash, and no other call has it: give it to services that
    take such a key. `attempt` counts from 1. `deadline` is on the clock of `time.monotonic`. `context` is the run's client-visible object:
    read it, and change it by returning `ToolResult(context_patch=...)`. `timeout` and `retries`, where given, stand in for the tool's own.
    `deps` is the object of the caller's that the run was started with, `memory` the agent's MemoryStore, where it has one.
    `sub_run` starts a program, such as an agent, on a prompt as the run below this call, and waits for its end. `history` finds at most
    so many earlier runs of the same owner by words.
    """

    call_id: str
    idempotency_key: str = ""
    run_id: str = ""
    session_id: str = ""
    attempt: int = 1
    deadline: float | None = None
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    progress: Callable[[Mapping[str, Any]], None] = _unseen
    retrying: Callable[[Mapping[str, Any]], None] = _unseen
    sub_run: Callable[[Any, str], Awaitable[SubRun]] | None = None
    timeout: float | None = None
    retries: int | None = None
    deps: Any = None
    memory: Any = None
    history: Callable[[str, int], Awaitable[Recalled]] | None = None

    def emit_progress(self, data: Mapping[str, Any]) -> None:
        """Show progress to whoever follows the run. `data` is a JSON object; it is not kept in the log."""
        self.progress(data)

    def private(self, progress: Callable[[Mapping[str, Any]], None]) -> "ToolContext":
        """A copy whose context object is the tool's own, so that changing it changes nothing else."""
        return replace(self, context=copy.deepcopy(dict(self.context)), progress=progress)


class Body(Protocol):
    """The part of a tool that knows its arguments and runs.

    `findings` lists what is wrong with arguments, one line each with the place (`$.limit: ...`). `run` returns a value
    with a JSON form, or a ToolResult; whatever it raises becomes an error result.
    """

    @property
    def schema(self) -> Schema: ...

    @property
    def origin(self) -> Origin | None: ...

    def findings(self, arguments: Json) -> list[str]: ...

    async def run(self, arguments: Json, context: ToolContext) -> Any: ...


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """Something a model can call. `dataclasses.replace` gives the same tool with another name, description or policy.

    `effects`: it changes something outside. `idempotent`: running it twice with one idempotency key does what once does.
    `exclusive`: no other call runs beside it. `timeout`: seconds for one attempt. `retries`: further attempts after an error.
    `approval`: see `causeline.tools.approval`; None leaves it to the agent. `max_chars`: how much of a result a model is shown.
    `output`: a JSON Schema or a type that every result has to fit. `strict`: providers that can are held to the schema of the arguments,
    in which a field that may be left out is null instead.
    `program` is what a call of it runs as a run of its own, such as an agent.
    A `client` tool runs at the client, a `human` one is a question to a person; neither is ever run here.
    Raises InvalidTool with every fault.
    """

    name: str
    description: str
    body: Body
    effects: bool = True
    idempotent: bool = False
    exclusive: bool = False
    timeout: float | None = None
    retries: int = 0
    approval: ApprovalMode | None = None
    on_unknown: OnUnknown = "report"
    max_chars: int = MAX_CHARS
    client: bool = False
    human: bool = False
    output: Any = None
    strict: bool = False
    program: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.output is not None and not isinstance(self.output, OutputSchema):
            object.__setattr__(self, "output", OutputSchema(self.output))
        lines = declaration_findings(self)
        if lines:
            raise InvalidTool(f"Tool {self.name!r}: {'; '.join(lines)}.", findings=lines)

    @property
    def parameters(self) -> Json:
        """The JSON Schema of the arguments."""
        return strict_schema(self.body.schema.document)[0] if self.strict else self.body.schema.document

    @property
    def output_schema(self) -> Json | None:
        """The JSON Schema of the results, where the tool promises any."""
        return None if self.output is None else self.output.schema.document

    def compile(self) -> None:
        """Make the schemas ready. Raises Invalid where they cannot be used."""
        self.body.schema.compile()
        if self.output is not None:
            self.output.schema.compile()
        lines = strict_schema(self.body.schema.document)[1] if self.strict else []
        if lines:
            raise InvalidTool(f"Tool {self.name!r}: strict: {'; '.join(lines)}.", findings=[f"strict: {line}" for line in lines])

    def findings(self, arguments: Json) -> tuple[Json, list[str]]:
        """The arguments as the body takes them, and what is wrong with them, one line each."""
        if self.strict:
            arguments = without_nulls(self.body.schema, arguments)
        return arguments, self.body.findings(arguments)

    @property
    def origin(self) -> Origin | None:
        return self.body.origin

    @property
    def needs_started(self) -> bool:
        """Whether a second run of the same call could do harm, so that its start must be on record before it."""
        return self.effects and not self.idempotent

    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(self.name, self.description, self.parameters, self.strict)


Runner = Callable[[Json, ToolContext], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class SchemaBody:
    """A body given by a JSON Schema and a coroutine function of (arguments, context)."""

    schema: Schema
    function: Runner
    origin: Origin | None = None

    def findings(self, arguments: Json) -> list[str]:
        return self.schema.findings(arguments)

    async def run(self, arguments: Json, context: ToolContext) -> Any:
        return await self.function(arguments, context)


def schema_tool(name: str, description: str, parameters: Mapping[str, Any], run: Runner, **policy: Any) -> Tool:
    """A tool whose arguments are described by a JSON Schema of type object. `policy` are further fields of Tool.

    Raises InvalidTool.
    """
    return Tool(name, description, SchemaBody(argument_schema(name, parameters), run), **policy)


def argument_schema(name: str, parameters: object) -> Schema:
    """The schema of a tool's arguments, compiled when first used. Raises InvalidTool unless it is of type object."""
    if not isinstance(parameters, Mapping):
        raise InvalidTool(f"Tool {name!r}: parameters: expected a JSON Schema object, got {type(parameters).__name__}.")
    given = cast(Mapping[str, Any], parameters)
    if given.get("type", "object") != "object":
        raise InvalidTool(f"Tool {name!r}: parameters: the type of the schema must be object, got {given['type']!r}.")
    return Schema({"type": "object", "properties": {}, **given})


def declaration_findings(tool: Tool) -> list[str]:
    """What is wrong with a tool's fields, one line each, beginning with the field's name."""
    lines: list[str] = []
    if not _is(tool.name, str) or not TOOL_NAME.fullmatch(tool.name):
        lines.append("name: expected 1 to 64 letters, digits, _ or -")
    if not _is(tool.description, str):
        lines.append("description: expected text")
    flags = ("effects", "idempotent", "exclusive", "client", "human", "strict")
    lines.extend(f"{name}: expected true or false, got {getattr(tool, name)!r}" for name in flags if not _is(getattr(tool, name), bool))
    if tool.timeout is not None and not (_is(tool.timeout, float, int) and 0 < tool.timeout < float("inf")):
        lines.append(f"timeout: expected seconds above 0, or none, got {tool.timeout!r}")
    if not _is(tool.retries, int) or tool.retries < 0:
        lines.append(f"retries: expected a whole number from 0, got {tool.retries!r}")
    if tool.on_unknown not in get_args(OnUnknown):
        lines.append(f"on_unknown: expected one of {', '.join(get_args(OnUnknown))}, got {tool.on_unknown!r}")
    if not _is(tool.max_chars, int) or tool.max_chars < 1:
        lines.append(f"max_chars: expected a whole number from 1, got {tool.max_chars!r}")
    if tool.approval is not None:
        lines.extend(f"approval: {line}" for line in approval_findings(tool.approval))
    return lines


def _is(value: object, *kinds: type) -> bool:
    """Whether a value is of exactly one of these types; a bool is no int here."""
    return type(value) in kinds

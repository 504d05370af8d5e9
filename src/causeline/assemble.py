"""Where names meet things: settings and strings become stores, models, tools and agents.

The only module that names concrete adapters.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Never

from causeline import graph, shapes
from causeline.adapters.hcl import read_hcl
from causeline.adapters.memory.query_process import QueryProcess
from causeline.adapters.models.model_names import Candidate, Fault, candidates
from causeline.adapters.stores import open_store
from causeline.adapters.stores.opened_memory import MemoryStore
from causeline.adapters.tools.mcp_tools import mcp
from causeline.agent.definition import AgentDefinition
from causeline.agent.earlier_messages import log_to_go_on_from
from causeline.agent.manifest.manifest import GRAPHS, InvalidManifest, Manifest, ManifestFinding, manifest_from_plain, read_manifest
from causeline.agent.manifest.modules import attribute, modules_beside
from causeline.agent.manifest.source import read_source
from causeline.agent.option_rules import SERVER_OPTIONS
from causeline.agent.options import OPTION_NAMES, InvalidOptions, Options
from causeline.causal import AgentState, canonical
from causeline.errors import CauselineError, Invalid, Misuse, check_argument
from causeline.graph import Document, Node
from causeline.models.emulated_tools import in_mode
from causeline.models.fallback_model import FallbackModel
from causeline.models.model import Model, ToolMode
from causeline.models.retry_model import MAX_WAIT, RetryModel
from causeline.models.thinking_model import ThinkingModel
from causeline.policy import RetryPolicy
from causeline.runtime.engine_room import GRACE_SECONDS
from causeline.runtime.handle import RunResult
from causeline.runtime.inputs import Prompt
from causeline.runtime.program import IS_PROGRAM, GraphProgram, Program
from causeline.runtime.run_names import checked_owner
from causeline.runtime.runtime import Runtime
from causeline.runtime.times import SystemClock
from causeline.tools.approval import ApprovalMode
from causeline.tools.recorded_calls import BUILT_IN, RecordedCalls
from causeline.tools.skills import Skill
from causeline.tools.tool import Tool
from causeline.tools.toolbox import ToolLike


class Agent(AgentDefinition):
    """A ReAct agent: a model, a system prompt, tools, and the rules of their loop.

    `model` is `"openai:NAME"`, `"local:smollm2"`, `"scripted:FILE"` or a Model. `tools` are functions marked with
    `causeline.tool`, plain functions, or Tool records; `use_tools` picks some of them by name. `system` may hold `{{ name }}`
    variables. `output_type` is a Pydantic model or a dataclass that the answer has to fit. `max_tool_rounds` counts rounds a user
    turn, `max_steps` steps a run, `max_repeats` equal calls with equal results in a row. Times are in seconds. `tool_approval` is
    `"auto"`, `"ask"`, `"deny"`, `{pattern: mode}` or a function. The tool `remember` is offered unless `remember=False`.
    `docs/reference/agent.md` has a line for each option. Raises Invalid with every wrong option at once.
    """

    def __init__(  # the values an option has when it is not given are those of Options
        self,
        model: str | Model,
        *,
        name: str = "agent",
        system: str | Callable[..., Any] | None = None,
        tools: Iterable[ToolLike] = (),
        use_tools: str | Sequence[str] | None = None,
        skills: Sequence[Skill | str | Path | Mapping[str, Any]] = (),
        skill_dir: str | Path | None = None,
        input_key: str = "input",
        output_key: str = "output",
        messages_key: str = "messages",
        tool_call_key: str = "_tool_call_name",
        human_key: str = "ask_human",
        temperature: float | None = None,
        max_tokens: int | None = None,
        model_settings: Mapping[str, Any] | None = None,
        response_format: Mapping[str, Any] | None = None,
        output_type: Any = None,
        provider: str | None = None,
        base_url: str | None = None,
        api_key_env: str | None = None,
        chat_path: str | None = None,
        auth_header: str | None = None,
        auth_prefix: str | None = None,
        max_tool_rounds: int | None = None,
        max_steps: int | None = None,
        max_repeats: int = 5,
        run_timeout: float | None = None,
        max_total_tokens: int | None = None,
        max_cost: float | None = None,
        tool_concurrency: int = 8,
        tool_mode: ToolMode = "native",
        parse_text_tool_calls: bool = True,
        tool_error_mode: Literal["message", "raise"] = "message",
        tool_timeout: float | None = None,
        tool_retries: int = 0,
        max_retries: int = 2,
        fallbacks: Sequence[str | Model | Mapping[str, Any]] = (),
        tool_approval: ApprovalMode = "auto",
        memory: Any = None,
        recall: Mapping[str, Any] | None = None,
        remember: bool | None = None,
        completion: str | Callable[..., Any] | None = None,
        graph: Any = "react",
        nodes: Sequence[Node] = (),
        documents: Sequence[Document] = (),
        deps: Any = None,
        context_mode: Literal["transcript", "causal"] = "transcript",
        context_tokens: int | None = None,
        node_types: Sequence[str | Mapping[str, Any]] | None = None,
        allow_dynamic_node_types: bool = False,
        stream: bool = True,
        on_token: Callable[[str], Any] | None = None,
        on_request: Callable[[Mapping[str, Any]], Any] | None = None,
        **unknown: Never,  # a misspelt option is a finding beside the others, with the name that was meant
    ) -> None:
        given = {option: value for option, value in locals().items() if option in OPTION_NAMES}
        super().__init__(with_models(Options.checked(**given, **unknown)), tools, opened, open_memory=MemoryStore.open)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> "Agent":
        """The agent a manifest describes; its runs store the manifest, so that any process can take them over."""
        agent = cls.__new__(cls)
        plain = manifest.to_plain()
        AgentDefinition.__init__(
            agent,
            with_models(manifest.options),
            manifest.tools,
            opened,
            open_memory=MemoryStore.open,
            manifest=plain,
            context=manifest.context,
        )
        return agent

    def __repr__(self) -> str:
        model = self.options.model if isinstance(self.options.model, str) else self.options.model.name
        return f"<agent {self.name}: {model}, tools {', '.join(self.toolbox.names()) or 'none'}>"

    async def run(
        self, prompt: Prompt = None, *, state: AgentState | None = None, history: Sequence[Any] = (), deps: Any = None
    ) -> RunResult:
        """Run once, in memory, and say how it ended. `state` is a log to go on from, `history` earlier messages (user, assistant, tool);
        the result's `state` is the log, its `messages` are the whole conversation, so either goes into the next call. `deps` is what
        tools and nodes find as `ctx.deps`. Raises Invalid for messages that are none, and where both state and history are given."""
        async with open("memory://", agents=[self], grace=0) as runtime:
            before = log_to_go_on_from(state, history)
            session = None if before is None else await runtime.import_(canonical(before.to_json()))
            result = await (await runtime.start(self, prompt, session=session, deps=deps)).result()
            branch = await runtime.branch(result.session)
        return replace(result, state=branch.state, messages=tuple(branch.messages()))

    def run_sync(
        self, prompt: Prompt = None, *, state: AgentState | None = None, history: Sequence[Any] = (), deps: Any = None
    ) -> RunResult:
        """`run` for code that is not async. Raises Misuse inside a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(prompt, state=state, history=history, deps=deps))
        raise Misuse("run_sync was called inside a running event loop; use `await agent.run(...)`")

    async def _run_and_close(self, prompt: Prompt, **more: Any) -> RunResult:
        try:
            return await self.run(prompt, **more)
        finally:
            await self.aclose()

    async def stream_text(self, prompt: Prompt = None, *, deps: Any = None) -> AsyncIterator[str]:
        """Run once, in memory, and yield the text of replies piece by piece. Raises RunFailed where the run fails."""
        async with open("memory://", agents=[self], grace=0) as runtime:
            run = await runtime.start(self, prompt, deps=deps)
            async for event in run.events():
                if event["type"] == "text_message_content":
                    yield event["delta"]
            (await run.result()).raise_if_failed()


def opened(options: Options) -> Model:
    """The model of an agent: each candidate with its retries and in its tool mode, then the fallbacks in order."""
    clock = SystemClock()
    policy = RetryPolicy(max_attempts=options.max_retries + 1, base_delay=0.5, max_delay=60.0, max_wait=MAX_WAIT)
    mode = None if options.tool_mode == "native" else options.tool_mode
    models = [
        in_mode(
            RetryModel(
                ThinkingModel(named.open(base=options.base_dir, stream=options.stream, on_request=options.on_request)), policy, clock=clock
            ),
            mode,
        )
        for named in check_models(options)
    ]
    return models[0] if len(models) == 1 else FallbackModel(models)


def with_models(options: Options) -> Options:
    """These options, whose models can be found. Raises as `check_models` does."""
    check_models(options)
    return options


def check_models(options: Options) -> list[Candidate]:
    """The models an agent may ask, none of them open. Raises InvalidOptions for each kind there is not, and each option that one
    has no use for."""
    found, faults = _candidates(options)
    if options.on_request is not None and not any(named.takes("on_request") for named in found):
        faults = [*faults, ("on_request", Invalid("does nothing here: none of these models sends requests to a server"))]
    if not options.stream and found and not any(named.takes("stream") for named in found):
        faults = [*faults, ("stream", Invalid("does nothing here: none of these models can be asked for a whole reply"))]
    if options.max_cost is not None:
        unpriced = [f"{named.kind}:{named.name}" for named in found if not named.has_price()]
        words = "no price is known of {}, so it is no limit; give one: causeline.models.prices[NAME] = {{input, output}}"
        faults = [*faults, *(("max_cost", Invalid(words.format(name))) for name in unpriced)]
    if faults:
        findings = [f"{place}: {error.message}" for place, error in faults]
        raise InvalidOptions(f"Options of an agent: {' '.join(findings)}", findings=findings)
    return found


def _candidates(options: Options) -> tuple[list[Candidate], list[Fault]]:
    server = {name: getattr(options, name) for name in (*SERVER_OPTIONS, "model_settings")}
    return candidates(options.model, options.fallbacks, **server)


def open(
    url: str = "memory://",
    *,
    owner: str = "default",
    agents: Sequence[Program] = (),
    deps: Any = None,
    adopts: bool | None = None,
    grace: float = GRACE_SECONDS,
) -> Runtime:
    """A runtime over the store at `url` (`memory://`, `sqlite:///path`, `postgresql://...`), to be used as `async with`.

    `deps` is an object for tools and nodes of runs that come with none. Runs of the given agents that nobody drives any more, since their
    process is gone, go on here at once, unless `adopts` is False. Leaving takes nothing new, lets calls that have begun finish for at most
    `grace` seconds, and hands the runs back. Raises Invalid for arguments that are none.
    """
    check_argument("url", shapes.FILLED(url))
    check_argument("agents", shapes.list_of(IS_PROGRAM)(agents))
    check_argument("grace", shapes.NOT_NEGATIVE(grace))
    return Runtime(
        open_store(url),
        owner=checked_owner(owner),
        programs=agents,
        build=agent_of,
        deps=deps,
        adopts=bool(agents) if adopts is None else adopts,
        heart_store=None if url.startswith("memory:") else lambda: open_store(url),
        grace=grace,
        queries=QueryProcess(),
    )


def load_agent(path: str | Path, **overrides: Any) -> Agent:
    """The agent of a manifest file (`agent.toml`, `.json`, `.hcl`). `overrides` stand in for options of the file; relative paths in
    them start at the working directory, those in the file beside it. Raises Invalid with every finding, by line."""
    check_argument("path", shapes.PATH(path))
    manifest = read_manifest(path, _from_here(overrides), readers={".hcl": read_hcl}, connect=mcp)
    faults = _candidates(manifest.options)[1]
    if faults:
        findings = _placed(Path(path), faults)
        raise InvalidManifest("The agent cannot be built:\n" + "\n".join(map(str, findings)), findings=findings)
    return Agent.from_manifest(manifest)


def load_program(target: str | Path, **overrides: Any) -> Program:
    """What the command line calls an agent: a manifest file, or `module:name` or `file.py:name` for an Agent or a GraphProgram made in
    Python. `overrides` stand in for options of a manifest. Raises Missing, Invalid."""
    python = _python_name(target)
    if python is None:
        return load_agent(target, **overrides)
    module, name = python
    if overrides:
        raise Invalid(f"{target} is made in Python, so {', '.join(overrides)} cannot be set from outside; change it where it is made")
    place = Path(module)
    with modules_beside(place.parent if module.endswith(".py") else Path.cwd()) as modules:
        program: Any = attribute(modules.load(place.name if module.endswith(".py") else module), name, module)
    if not isinstance(program, AgentDefinition | GraphProgram):
        raise Invalid(f"{target} is {type(program).__name__}; an agent is a causeline.Agent or a causeline.GraphProgram")
    return program


def _python_name(target: str | Path) -> tuple[str, str] | None:
    """The module (or file) and the name in `module:name`; None for a manifest file."""
    module, divider, name = str(target).rpartition(":")
    return (module, name) if divider and name.isidentifier() and not Path(target).is_file() else None


def _placed(path: Path, faults: Iterable[tuple[str, CauselineError]]) -> list[ManifestFinding]:
    """What is wrong with the models of a manifest, each with its line."""
    source = read_source(path, {".hcl": read_hcl})
    return [
        ManifestFinding(error.message, f"agent.{place}", source.name, source.line(("agent", place.partition("[")[0])))
        for place, error in faults
    ]


def _from_here(overrides: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same overrides with absolute paths; what is wrong with them is found later."""
    found = dict(overrides)
    if "model" in found:
        found["model"] = _script_from_here(found["model"])
    if isinstance(found.get("fallbacks"), list | tuple):
        found["fallbacks"] = [
            {**one, "model": _script_from_here(one["model"])} if isinstance(one, dict) and "model" in one else _script_from_here(one)
            for one in found["fallbacks"]
        ]
    if isinstance(found.get("skill_dir"), str | Path):
        found["skill_dir"] = Path(found["skill_dir"]).absolute()
    if isinstance(found.get("skills"), list | tuple):
        found["skills"] = [_path_from_here(one) for one in found["skills"]]
    if "graph" in found and found["graph"] not in GRAPHS:
        found["graph"] = _path_from_here(found["graph"])
    return found


def _script_from_here(model: Any) -> Any:
    name = model.removeprefix("scripted:") if isinstance(model, str) else ""
    return f"scripted:{Path(name).absolute()}" if name != model and name.endswith(".json") else model


def _path_from_here(path: Any) -> Any:
    """Names, which are looked for elsewhere, and things that are no paths stay as they are."""
    return Path(path).absolute() if isinstance(path, str | Path) and Path(path).is_file() else path


async def examine_agent(path: str | Path) -> tuple[str | None, Sequence[Any]]:
    """The name of an agent (None if it cannot be built) and every finding: those of its file or its graph, and each model that
    cannot be opened here, for want of such a kind, a script, a key or a package. Nothing is sent anywhere. Raises Missing."""
    try:
        if _python_name(path) is not None:
            program = load_program(path)
            return program.name, graph.check(program.document, program.nodes, program.documents)
        manifest = read_manifest(path, readers={".hcl": read_hcl}, connect=mcp)
    except Invalid as error:
        return None, error.findings or (error.message,)
    found, wrong = _candidates(manifest.options)
    faults: list[tuple[str, CauselineError]] = [*wrong]
    for named in found:
        try:
            opened = named.open(base=manifest.options.base_dir, stream=manifest.options.stream)
        except CauselineError as error:
            faults.append((named.place, error))
        else:
            await opened.aclose()
    findings: list[Any] = _placed(Path(path), sorted(faults, key=lambda fault: (fault[0] != "model", fault[0])))
    if wrong:
        return None, findings
    try:
        return Agent.from_manifest(manifest).name, findings
    except Invalid as error:
        return None, [*findings, *(error.findings or (error.message,))]


def agent_of(stored: Mapping[str, Any], **overrides: Any) -> Agent:
    """The agent of a run, from what the run has stored, with the tools' files as they are now. `overrides` stand in for its options."""
    return Agent.from_manifest(manifest_from_plain(stored, _from_here(overrides), connect=mcp))


def recorded_agent(agent: AgentDefinition, calls: RecordedCalls, client_tools: Iterable[Tool] = ()) -> Agent:
    """The same agent with tools that answer from a recording: nothing is run, nobody is asked, and no memory is written.

    `client_tools` are those that the run was given by its client.
    """
    values = {name: getattr(agent.options, name) for name in OPTION_NAMES}
    tools = calls.tools([*(tool for tool in agent.toolbox if tool.name not in BUILT_IN), *client_tools])
    options = {**values, "use_tools": None, "tool_approval": "auto", "memory": None, "remember": agent.options.offers_remember}
    made = Agent.__new__(Agent)
    AgentDefinition.__init__(made, Options.checked(**options), tools, opened, context=agent.context)
    return made

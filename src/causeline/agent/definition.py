"""The agent: options, tools and a model, as something a runtime can run.

Law: everything that can be wrong is found when the agent is built, all of it at once. Nothing of a run is kept
here, so one agent serves any number of runs at the same time.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from causeline.agent.direct_execution import walk
from causeline.agent.options import MAX_STEPS, InvalidOptions, Options
from causeline.agent.react.agent_memory import MemoryPlace
from causeline.agent.react.conversation import Conversation
from causeline.agent.react.flat import FLAT_NODES, flat_document, tool_documents, with_tools
from causeline.agent.react.loop import call_model, call_tools, entrypoint, leave
from causeline.agent.react.remember import REMEMBER, parameters
from causeline.agent.react.structured_answer import typed
from causeline.agent.react.sub_agents import sub_run_tool
from causeline.causal import AgentState
from causeline.graph import Document, Execution, Limits, Node, load
from causeline.memory.shared import OpenMemory
from causeline.models.messages import Message
from causeline.models.model import Model
from causeline.run.scope import Notes, RunScope
from causeline.tools.decision_check import check_decision_on
from causeline.tools.human import ASK_HUMAN, with_human_key
from causeline.tools.tool import Tool, ToolContext, schema_tool
from causeline.tools.toolbox import Toolbox, ToolLike

OpenModel = Callable[[Options], Model]
REACT = "urn:causeline:dag:react"
_NODES: tuple[Node, ...] = (entrypoint, call_model, call_tools, leave, *FLAT_NODES)


class AgentDefinition:
    """A program for `causeline.runtime` (see `causeline.runtime.program`)."""

    fresh = True

    def __init__(
        self,
        options: Options,
        tools: Iterable[ToolLike],
        open_model: OpenModel,
        *,
        open_memory: OpenMemory | None = None,
        manifest: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> None:
        self.options = options
        own = Toolbox(with_human_key(tools, options.human_key), use=options.use_tools, skills=options.skill_set())
        if options.human_key != ASK_HUMAN and options.human_key not in own and own.settled:
            fault = "human_key: does nothing here; ask_human is not among the tools"
            raise InvalidOptions(f"Agent options: {fault}.", findings=[fault])
        self.toolbox = own.with_tools([remember_tool(options)]) if options.offers_remember else own
        self._open_model = open_model
        self._memory = MemoryPlace(options.memory, open_memory)
        self._manifest = manifest
        self.context = context
        self._model: Model | None = None
        self.document: Document = with_tools(_document(options), self.toolbox)
        documents, tool_nodes = tool_documents(self.toolbox) if self.document.id != REACT else ((), ())
        self.documents: Sequence[Document] = (*documents, *options.documents)
        self.nodes: Sequence[Node] = (*_NODES, *tool_nodes, *options.nodes)
        self.limits = Limits(visits=options.max_steps or MAX_STEPS, wall=options.run_timeout)

    @property
    def name(self) -> str:
        return self.options.name

    @property
    def model(self) -> Model:
        """The model with its retries and fallbacks, opened once and shared by all runs."""
        if self._model is None:
            self._model = self._open_model(self.options)
        return self._model

    def manifest(self) -> Mapping[str, Any] | None:
        """The definition as plain JSON; None if a part of it (a tool, a model object) is not in a file."""
        return self._manifest

    def programs(self) -> Mapping[str, Any]:
        """The agents, or other programs, that its tools run as runs of their own, by the name of the tool."""
        return {tool.name: tool.program for tool in self.toolbox if tool.program is not None}

    def services(self, scope: RunScope) -> Mapping[type, object]:
        """A Conversation for one run. Raises Invalid if the run's client tools clash with the agent's own."""
        toolbox = self.toolbox.with_client(scope.client_tools) if scope.client_tools else self.toolbox
        # Only the compact document is known to start a whole group at once; in others a call is `started` when its item begins.
        at_once = self.options.tool_concurrency if self.document.id == REACT else 1
        memory = self._memory.of(scope)
        talk = Conversation(self.options, toolbox, self.model, scope, at_once=at_once, memory=memory)
        return {Conversation: talk} if memory is None else {Conversation: talk, Notes: memory}

    def execution(self, prompt: str | Sequence[Message], *, state: AgentState | None = None, recall_hint: str = "") -> Execution:
        """The agent's own graph as an execution: to be awaited for its result, whose channel `log` is the AgentState, or iterated for its
        steps. `state` is a log to go on from, `recall_hint` text of an earlier run that is put before the model as data. Nothing is
        stored."""
        return walk(self, prompt, state, recall_hint)

    def check_answer(self, name: str, arguments: Any, decision: Mapping[str, Any]) -> None:
        """Raises Invalid if a decision that lets a call run cannot be carried out: the tool is gone, or does not take the arguments."""
        check_decision_on(self.toolbox, name, arguments, decision)

    async def open(self) -> None:
        """Open the toolsets and the memory, for one run. Raises ToolsetFailed."""
        await self.toolbox.open()
        await self._memory.open()

    async def close(self) -> None:
        """A run has ended: close the toolsets and the memory, unless another one needs them."""
        await self._memory.close()
        await self.toolbox.close()

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        max_steps: int | None = None,
        max_total_tokens: int | None = None,
        run_timeout: float | None = None,
    ) -> Tool:
        """This agent as a tool of another one: a call of it is a run of its own, below the run that calls. Budgets given here bound each
        such run. Raises InvalidOptions."""
        budgets = {"max_steps": max_steps, "max_total_tokens": max_total_tokens, "run_timeout": run_timeout}
        given = {option: value for option, value in budgets.items() if value is not None}
        if not given:
            return sub_run_tool(self, name, description)
        Options.checked(model=self.options.model, **given)
        bounded = copy.copy(self)
        bounded.options = replace(self.options, **given)
        bounded.limits = Limits(visits=bounded.options.max_steps or MAX_STEPS, wall=bounded.options.run_timeout)
        return sub_run_tool(bounded, name, description)

    def typed_output(self, answer: Any) -> Any:
        """The answer as the agent's output type."""
        return typed(self.options, answer)

    async def aclose(self) -> None:
        """Give back what the model holds open."""
        if self._model is not None:
            await self._model.aclose()
            self._model = None


def remember_tool(options: Options) -> Tool:
    """The built-in tool; the step that runs tools knows it by name."""
    types = options.semantic_types()

    async def kept(_arguments: Any, _context: ToolContext) -> str:
        return "kept"

    return schema_tool(
        REMEMBER,
        "Keep something worth knowing later. Call it beside your answer; it costs no extra turn.",
        parameters(types, dynamic=options.allow_dynamic_node_types),
        kept,
        effects=False,
    )


@cache
def _react() -> Document:
    """Read once a process; documents do not change."""
    return load(resources.files("causeline.agent.react").joinpath("react.jsonld").read_bytes())


@cache
def _react_flat() -> Document:
    return flat_document()


def _document(options: Options) -> Document:
    """The document an agent runs on: one of the two that come with causeline, or the caller's own."""
    if options.graph == "react":
        return _react()
    if options.graph == "react-flat":
        return _react_flat()
    if isinstance(options.graph, Document):
        return options.graph
    path = Path(options.graph)
    return load(path if options.base_dir is None else options.base_dir / path)

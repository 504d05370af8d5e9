"""The two nodes of a ReAct loop for a graph of one's own: `agent --(_tool_call_name!=)--> tools --> agent`.

    agent = nodes.react_agent(model="openai:gpt-5-mini", tools=[lookup], system="...")
    graph = (Graph("urn:example:loop").node("agent", agent).node("tools", nodes.tool_exec(tools=[lookup]))
             .edge("agent", "tools", when="_tool_call_name!=").edge("tools", "agent").entry("main", "agent"))

They work on plain channels: `input` (text), `messages` (a list of `{role, content, tool_calls, tool_call_id, is_error}`; OpenAI's
shape is read too; both nodes declare the reducer `append` for it, under `override` they write the whole history), `output`,
`_tool_call_name`, `_tool_calls` (`{id, name, args}`) and `_tool_policy`. In a run of a runtime (`causeline.GraphProgram`) they use ledger
and log as an Agent does; in a bare Dispatcher they run without.
"""

from collections.abc import Iterable
from typing import Any

from causeline.adapters.stores.opened_memory import MemoryStore
from causeline.agent.options import Options
from causeline.agent.own_graph import pipeline
from causeline.agent.own_graph.agent_node import AgentNode
from causeline.agent.own_graph.call_channels import CallChannels
from causeline.agent.own_graph.tools_node import ToolItem, ToolsNode
from causeline.agent.react.flat import tool_document
from causeline.assemble import check_models, opened
from causeline.graph.documents.document import Document
from causeline.graph.node import Node, node
from causeline.tools.human import with_human_key
from causeline.tools.toolbox import Toolbox, ToolLike

__all__ = ["pipeline", "react_agent", "tool_documents", "tool_exec"]
_LOG = ("log", "calls")
"""What the nodes write besides in a run of a runtime."""


def react_agent(*, iri: str = "urn:causeline:node:react_agent", tools: Iterable[ToolLike] = (), **options: Any) -> Node:
    """A node that calls the model once. It leaves by `done`; `_tool_call_name` is "pending" when tools are to run, else "".

    Options are those of `causeline.Agent` that docs/reference/agent.md lists for it; the tool options are handed to the tools node in
    `_tool_policy`, and the stricter of both nodes holds. Raises Invalid for wrong ones, at once.
    """
    checked = Options.checked("react_agent", **options)
    check_models(checked)
    toolbox = Toolbox(with_human_key(tools, checked.human_key), use=checked.use_tools, skills=checked.skill_set())
    hands = CallChannels.beside(checked.tool_call_key)
    writes = (checked.messages_key, checked.output_key, checked.tool_call_key, hands.calls, hands.policy, *_LOG)
    return node(iri, ports=("done",), writes=writes, reducers={checked.messages_key: "append"})(
        AgentNode(checked, toolbox, opened, MemoryStore.open).visit
    )


def tool_exec(*, iri: str = "urn:causeline:node:tool_exec", tools: Iterable[ToolLike] = (), **options: Any) -> Node:
    """A node that runs the calls the agent node asked for. It leaves by `done`, or pauses for approvals and questions; with
    `tool_error_mode="raise"` by `error` after a tool failed.

    Options: `use_tools`, `skills`, `skill_dir`, `tool_approval`, `tool_error_mode`, `tool_timeout`, `tool_retries`, `tool_concurrency`,
    `human_key` and the state keys. An answer is a decision `{decision, value?, reason?}`, or a map from call id to decision where several
    are open; to a question also the plain value. Raises Invalid for wrong options, at once.
    """
    checked = Options.checked("tool_exec", **options)
    toolbox = Toolbox(with_human_key(tools, checked.human_key, always=True), use=checked.use_tools, skills=checked.skill_set())
    hands = CallChannels.beside(checked.tool_call_key)
    writes = (checked.messages_key, checked.tool_call_key, hands.calls, hands.results, hands.policy, "context", "result", *_LOG)
    ports = ("done", "error") if checked.tool_error_mode == "raise" else ("done",)
    return node(iri, ports=ports, writes=writes, reducers={checked.messages_key: "append"})(ToolsNode(checked, toolbox).visit)


def tool_documents(tools: Iterable[ToolLike]) -> tuple[list[Document], list[Node]]:
    """Each tool as a child document `urn:noocodec:tool:NAME`, with the nodes they need, for a scatter that chooses tools by name."""
    pairs = [tool_document(tool.name, ToolItem(tool).visit) for tool in Toolbox(tools)]
    return [document for document, _ in pairs], [runs for _, runs in pairs]

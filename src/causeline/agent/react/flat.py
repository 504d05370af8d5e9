"""`react-flat`: the same agent with its pipeline laid out as placements, after the Dagonizer ReAct document.

Law: the placements call the same functions as the compact `react` document, so both write the same log. Tools are
child documents, one for each, which a scatter chooses by name; nothing of one turn is left for the next.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import quote

from causeline.agent.react.call_results import announce
from causeline.agent.react.caller_input import take_in
from causeline.agent.react.conversation import Conversation
from causeline.agent.react.model_turn import ask_model
from causeline.agent.react.tool_step import ToolStep
from causeline.causal import Append
from causeline.events import RunEvent
from causeline.graph import Context, Document, Graph, Node, Outcome, load, node
from causeline.graph.documents.document import DagReference
from causeline.graph.node import NodeFunction
from causeline.run.ledger import Call, Ledger
from causeline.tools.tool import Tool

SEED = "urn:noocodec:dag:react-agent"
TOOL = "urn:noocodec:tool:"
TOOL_NODE = "urn:noocodec:tool-node:"
UNKNOWN = "urn:causeline:tool:unknown"
"""The document for a call of a tool that has none of its own: one that a toolset offers, or one that is not there, which its
result then says to the model."""
_ALIASES = {
    "urn:causeline:node:build-request": "urn:noocodec:node:build-request",
    "urn:causeline:node:call-model": "urn:noocodec:node:call-model",
    "urn:causeline:node:normalize-response": "urn:noocodec:node:normalize-response",
    "urn:causeline:node:append-assistant": "urn:noocodec:node:append-assistant",
    "urn:causeline:node:decode-tools": "urn:noocodec:node:decode-tools",
    "urn:causeline:node:normalize-tools": "urn:noocodec:node:normalize-tools",
    "urn:causeline:node:build-worksets": "urn:noocodec:node:build-worksets",
    "urn:causeline:node:collect-results": "urn:noocodec:node:collect-results",
}


@node("urn:causeline:node:build-request", ports=("ready", "error"))
async def build_request(ctx: Context) -> Outcome:
    """The first visit of a run takes in what the caller said; every visit leaves the view to the model call."""
    if ctx.step:
        return Outcome("ready")
    entered = await take_in(ctx, Conversation.of(ctx))
    return Outcome("ready", {channel: value for channel, value in entered.writes.items() if channel != "result"})


@node("urn:causeline:node:call-model", ports=("text", "tools", "mixed", "error"))
async def ask(ctx: Context) -> Outcome:
    """One model call, with what follows from its reply in the log. None where the client's calls end the run, nor where it
    begins at calls without results: what follows treats those as those of a reply."""
    talk = Conversation.of(ctx)
    if "result" in ctx.state or talk.transcript.open:
        return Outcome("text" if "result" in ctx.state else "tools", {"reply": {"text": ""}})
    outcome = await _ask_until_usable(ctx, talk)
    result: Mapping[str, Any] = outcome.writes.get("result") or {}
    if outcome.port == "exit" and result.get("failed"):
        return Outcome("error", outcome.writes)
    said: dict[str, Any] = next(one.payload for one in reversed(outcome.writes["log"]) if one.kind == "inference")
    port = "text" if outcome.port != "tools" else "mixed" if said["text"].strip() else "tools"
    return Outcome(port, {**outcome.writes, "reply": {"text": said["text"]}})


async def _ask_until_usable(ctx: Context, talk: Conversation) -> Outcome:
    """One visit asks again where a reply cannot be used, as often as the compact document does: this one has no way back to the model."""
    log: list[Append] = []
    calls: list[Call] = []
    while True:
        outcome = await ask_model(ctx, talk)
        appends = outcome.writes.get("log") or ()
        log += appends
        calls += outcome.writes.get("calls") or ()
        if outcome.port != "retry":
            return Outcome(outcome.port, {**outcome.writes, "log": log, **({"calls": calls} if calls else {})})
        talk.go_on(appends)


@node("urn:causeline:node:normalize-response", ports=("text", "tools", "mixed", "empty", "error"), inline=True)
def normalize_response(ctx: Context) -> Outcome:
    """Tell replies apart."""
    if ctx.use(Ledger).open_calls() and "result" not in ctx.state:
        return Outcome("mixed" if ctx.state["reply"]["text"].strip() else "tools")
    return Outcome("text")


@node("urn:causeline:node:append-assistant", ports=("done", "error"), inline=True)
def append_assistant(ctx: Context) -> Outcome:
    """The reply is in the log since it came; announce the whole history."""
    ctx.emit(RunEvent(type="messages_snapshot"))
    return Outcome("done")


@node("urn:causeline:node:decode-tools", ports=("decoded", "empty", "error"), inline=True)
def decode_tools(ctx: Context) -> Outcome:
    """Calls, native or written as text, are decoded with the reply."""
    return Outcome("decoded" if ctx.use(Ledger).open_calls() else "empty")


@node("urn:causeline:node:normalize-tools", ports=("valid", "empty", "error"), inline=True)
def normalize_tools(ctx: Context) -> Outcome:
    """Every call has an id of its own; one with malformed arguments stays, so that the model is told."""
    return Outcome("valid" if ctx.use(Ledger).open_calls() else "empty")


@node("urn:causeline:node:build-worksets", ports=("ready", "empty", "error"), inline=True)
def build_worksets(ctx: Context) -> Outcome:
    """The calls, announced, as scatter items; the client's are left to it. Exclusive ones are among them: the scatter of this
    document runs one at a time."""
    talk = Conversation.of(ctx)
    unanswered = talk.transcript.open
    calls = [call for call in ctx.use(Ledger).open_calls() if call.call_id in unanswered]
    for call in calls:
        announce(ctx, call, talk.scope)
    items = [
        {"id": call.call_id, "name": call.name, "dagIri": tool_iri(call.name) if talk.toolbox.is_fixed(call.name) else UNKNOWN}
        for call in calls
        if not call.client
    ]
    return Outcome("ready" if calls else "empty", {"safeWorkset": items, "toolOutputs": []})


@node("urn:causeline:node:collect-results", ports=("done", "empty", "error"), inline=True)
def collect_results(ctx: Context) -> Outcome:
    """Results become nodes, in call order. Where the client has calls to execute the run ends by way of the placements behind."""
    outcome = ToolStep.of(ctx, Conversation.of(ctx)).outcome()
    result: Mapping[str, Any] = outcome.writes.get("result") or {}
    return Outcome("error" if result.get("failed") else "done", outcome.writes)


async def run_call(ctx: Context) -> Outcome:
    """The call of one scatter item. A failed tool is a result; only a fault of the engine leaves by `error`."""
    step = ToolStep.of(ctx, Conversation.of(ctx), only=ctx.item["id"])
    await step.run()
    if step.questions:
        return step.outcome()
    call = step.calls[ctx.item["id"]]
    return Outcome("done", {"output": {"call_id": call.call_id, "ok": bool(call.ok), "result": call.result}})


_PIPELINE = (build_request, ask, normalize_response, append_assistant, decode_tools, normalize_tools, build_worksets, collect_results)
FLAT_NODES: tuple[Node, ...] = (*_PIPELINE, *(replace(one, iri=_ALIASES[one.iri]) for one in _PIPELINE))
"""The pipeline as nodes, under causeline's own IRIs and the seed's."""


def tool_iri(name: str) -> str:
    """The document that runs a tool."""
    return TOOL + quote(name, safe="")


def tool_documents(tools: Iterable[Tool]) -> tuple[Sequence[Document], Sequence[Node]]:
    """A child document for each tool, and one for calls of any other, with their nodes."""
    pairs = [tool_document(tool.name, run_call) for tool in tools]
    pairs.insert(0, _runs(UNKNOWN, "urn:causeline:tool-node:unknown", run_call))
    return [document for document, _ in pairs], [runs for _, runs in pairs]


def tool_document(name: str, run: NodeFunction) -> tuple[Document, Node]:
    """The child document of one tool, and the node that runs it."""
    return _runs(tool_iri(name), TOOL_NODE + quote(name, safe=""), run)


def _runs(iri: str, node_iri: str, run: NodeFunction) -> tuple[Document, Node]:
    graph = Graph(iri).node("run", node_iri, {"done": "end", "error": "end-fail"})
    document = graph.terminal("end").terminal("end-fail", "failed").entry("main", "run").build()
    return document, node(node_iri, ports=("done", "error"))(run)


def with_tools(document: Document, tools: Iterable[Tool]) -> Document:
    """The document with the tools' documents in the place of the candidates its scatters choose tools from."""
    plain = document.to_json()
    candidates = [UNKNOWN, *(tool_iri(one.name) for one in tools)]
    for placement in plain["nodes"]:
        dag: Any = placement.get("body", {}).get("dag")
        if isinstance(dag, dict):
            reference = cast("dict[str, Any]", dag)
            if all(str(one).startswith((TOOL, UNKNOWN)) for one in reference.get("candidates", ())):
                reference["candidates"] = candidates
    return load(plain)


def flat_document() -> Document:
    """The twelve placements; `with_tools` gives the scatter its candidates."""
    error = "end-error"
    joined: dict[str, str] = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join-tool-results")
    graph = Graph(SEED, name="react-agent", version="1")
    graph.node("build-request", "urn:noocodec:node:build-request", {"ready": "call-model", "error": error})
    graph.node(
        "call-model", "urn:noocodec:node:call-model", {**dict.fromkeys(("text", "tools", "mixed"), "normalize-response"), "error": error}
    )
    graph.node(
        "normalize-response",
        "urn:noocodec:node:normalize-response",
        {"text": "append-assistant", "tools": "decode-tools", "mixed": "decode-tools", "empty": error, "error": error},
    )
    graph.node("append-assistant", "urn:noocodec:node:append-assistant", {"done": "end-done", "error": error})
    graph.node("decode-tools", "urn:noocodec:node:decode-tools", {"decoded": "normalize-tools", "empty": error, "error": error})
    graph.node("normalize-tools", "urn:noocodec:node:normalize-tools", {"valid": "worksets", "empty": error, "error": error})
    graph.node("worksets", "urn:noocodec:node:build-worksets", {"ready": "dispatch-tools", "empty": error, "error": error})
    graph.scatter(
        "dispatch-tools", "safeWorkset", joined, dag=DagReference("item", "dagIri", (UNKNOWN,)), item_key="currentItem", reducer="aggregate"
    )
    graph.gather(
        "join-tool-results",
        ["dispatch-tools"],
        "map",
        mapping={"output": "toolOutputs"},
        outputs={"success": "collect-results", "error": error, "empty": "collect-results"},
    )
    graph.node("collect-results", "urn:noocodec:node:collect-results", {"done": "build-request", "empty": "build-request", "error": error})
    return graph.terminal("end-done").terminal(error, "failed").entry("main", "build-request").build()

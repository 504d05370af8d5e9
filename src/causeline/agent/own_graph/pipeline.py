"""The eight nodes of the Dagonizer ReAct document on plain channels, each with hooks that a subclass may override.

    class Careful(pipeline.CallModel):
        def get_request(self, ctx):
            return replace(super().get_request(ctx), temperature=0)

    nodes = pipeline.nodes(model, tools=[lookup], call_model=Careful)

Channels: `prompt` or `messages`, `recallHint`, `request`, `response`, `toolCalls`, `safeWorkset`, `exclusiveWorkset`, `toolOutputs`,
`output` and `error`.

Law: what is wrong in a hook leaves by `error` and is written to the channel `error`; nothing of one turn is left for the next, and every
call has one result, in call order.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from causeline.agent.own_graph.channel_messages import read_messages
from causeline.agent.react.flat import tool_iri
from causeline.errors import fault_of
from causeline.graph.node import Context, Node, Outcome, node
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import Model, Reply, Request, TextDelta
from causeline.models.stream import Fold
from causeline.models.text_calls import decode_calls
from causeline.models.transcript import result_text
from causeline.tools.toolbox import Toolbox

IRI = "urn:noocodec:node:"
Json = dict[str, Any]


class PipelineNode:
    """One node. `ports` and `writes` are declared; `name` is the end of its IRI; `role` is what a trace takes it for."""

    name: ClassVar[str]
    ports: ClassVar[tuple[str, ...]]
    writes: ClassVar[tuple[str, ...]] = ()
    role: ClassVar[str] = ""

    def node(self, iri: str | None = None) -> Node:
        """The node, under the seed's IRI unless another one is given."""
        roles = (self.role,) if self.role else ()
        return node(iri or IRI + self.name, ports=self.ports, writes=(*self.writes, "error"), roles=roles)(self._visit)

    async def _visit(self, ctx: Context) -> Outcome:
        try:
            outcome = self.visit(ctx)
            return await outcome if inspect.isawaitable(outcome) else outcome
        except Exception as error:  # noqa: BLE001 - whatever a hook does wrong is told by a port of its own
            return Outcome("error", {"error": {**fault_of(error), "node": self.name}})

    def visit(self, ctx: Context) -> Outcome | Awaitable[Outcome]:
        """What the node does."""
        raise NotImplementedError


class BuildRequest(PipelineNode):
    """Says what the model is shown: `build_request` gives `{system, recall, messages}`."""

    name, ports, writes = "build-request", ("ready", "error"), ("request", "messages")

    def __init__(self, *, system: str | None = None) -> None:
        self.system = system

    def build_request(self, ctx: Context, messages: Sequence[Json]) -> Json:
        """The request as JSON, of the whole history."""
        return {"system": self.system, "recall": ctx.state.get("recallHint") or None, "messages": list(messages)}

    def visit(self, ctx: Context) -> Outcome:
        messages: list[Json] = list(ctx.state.get("messages") or ())
        if not messages:
            messages = [Message("user", str(ctx.state.get("prompt") or "")).to_json()]
        return Outcome("ready", {"request": self.build_request(ctx, messages), "messages": messages})


class CallModel(PipelineNode):
    """One model call. `sink` is called with each piece of text."""

    name, ports, writes, role = "call-model", ("text", "tools", "mixed", "error"), ("response",), "thought"

    def __init__(self, model: Model, *, tools: Iterable[ToolSpec] = (), sink: Callable[[str], Any] | None = None) -> None:
        self.model = model
        self.tools = tuple(tools)
        self.sink = sink

    def get_request(self, ctx: Context) -> Request:
        """What the model is asked."""
        asked: Mapping[str, Any] = ctx.state["request"]
        messages = read_messages(asked["messages"], "messages")
        return Request(messages=messages, system=asked.get("system"), recall=asked.get("recall"), tools=self.tools)

    def store_response(self, ctx: Context, reply: Reply) -> Json:
        """What is written of a reply; the channel `response` is what the nodes behind read."""
        calls = [call.to_json() for call in reply.calls]
        return {"response": {"text": reply.text, "calls": calls, "finish": reply.finish, "usage": reply.usage.to_json()}}

    async def visit(self, ctx: Context) -> Outcome:
        state = Fold()
        async for delta in self.model.stream(self.get_request(ctx)):
            state.add(delta)
            if self.sink is not None and isinstance(delta, TextDelta):
                self.sink(delta.text)
        reply = state.reply()
        return Outcome(_port(reply.text, reply.calls) or "text", self.store_response(ctx, reply))


class NormalizeResponse(PipelineNode):
    """Tells replies apart: text, calls, both, nothing."""

    name, ports = "normalize-response", ("text", "tools", "mixed", "empty", "error")

    def __init__(self, *, tools: Iterable[ToolSpec] = ()) -> None:
        self.tools = tuple(tools)

    def get_response(self, ctx: Context) -> Json | None:
        """The reply; None stands for an empty one."""
        return ctx.state.get("response")

    def visit(self, ctx: Context) -> Outcome:
        reply = self.get_response(ctx) or {}
        text = str(reply.get("text") or "")
        calls = reply.get("calls") or decode_calls(text, self.tools).calls
        return Outcome(_port(text, calls) or "empty")


class DecodeToolCalls(PipelineNode):
    """The calls of a reply, native or written as text."""

    name, ports, writes, role = "decode-tools", ("decoded", "empty", "error"), ("toolCalls",), "action"

    def __init__(self, *, tools: Iterable[ToolSpec] = (), id_prefix: str = "agent") -> None:
        self.tools = tuple(tools)
        self.id_prefix = id_prefix

    def get_text(self, ctx: Context) -> str:
        """The text that calls may stand in."""
        return str(ctx.state["response"].get("text") or "")

    def store_tool_calls(self, ctx: Context, calls: Sequence[Json]) -> Json:
        """What is written of the calls, `{id, name, arguments}` each."""
        return {"toolCalls": list(calls)}

    def visit(self, ctx: Context) -> Outcome:
        calls: list[Json] = list(ctx.state["response"].get("calls") or ())
        if not calls:
            calls = [call.to_json() for call in decode_calls(self.get_text(ctx), self.tools).calls]
        calls = [{**call, "id": call.get("id") or f"{self.id_prefix}-{ctx.step}-{place}"} for place, call in enumerate(calls)]
        return Outcome("decoded" if calls else "empty", self.store_tool_calls(ctx, calls))


class NormalizeToolCalls(PipelineNode):
    """Drops what is no call. One whose arguments are text that did not parse stays, so that the model is told."""

    name, ports, writes = "normalize-tools", ("valid", "empty", "error"), ("toolCalls",)

    def get_tool_calls(self, ctx: Context) -> Sequence[Json]:
        """The calls as they were decoded."""
        return ctx.state.get("toolCalls") or ()

    def write_normalized(self, ctx: Context, calls: Sequence[Json]) -> Json:
        """What is written of those that are left."""
        return {"toolCalls": list(calls)}

    def visit(self, ctx: Context) -> Outcome:
        seen: set[str] = set()
        calls: list[Json] = []
        for call in self.get_tool_calls(ctx):
            if call.get("name") and call.get("id") and "arguments" in call and call["id"] not in seen:
                seen.add(call["id"])
                calls.append(call)
        return Outcome("valid" if calls else "empty", self.write_normalized(ctx, calls))


class BuildWorksets(PipelineNode):
    """The calls as items of a scatter that chooses the document of each by `dagIri`."""

    name, ports, writes = "build-worksets", ("ready", "empty", "error"), ("safeWorkset", "exclusiveWorkset", "toolOutputs")

    def __init__(self, *, tools: Iterable[ToolSpec] = ()) -> None:
        self.known = frozenset(tool.name for tool in tools)

    def get_tool_calls(self, ctx: Context) -> Sequence[Json]:
        """The calls to run."""
        return ctx.state.get("toolCalls") or ()

    def classify_call(self, call: Json) -> str:
        """`safe` or `exclusive`. The seed's document runs the safe ones alone, so every call is one unless a subclass says otherwise."""
        return "safe"

    def visit(self, ctx: Context) -> Outcome:
        sets: dict[str, list[Json]] = {"safe": [], "exclusive": []}
        calls = self.get_tool_calls(ctx)
        for call in calls:
            if call["name"] not in self.known:
                continue  # what has no document cannot be run, and is told so with the results
            item = {"id": call["id"], "name": call["name"], "args": call["arguments"], "dagIri": tool_iri(call["name"])}
            sets[self.classify_call(call)].append(item)
        found = {"safeWorkset": sets["safe"], "exclusiveWorkset": sets["exclusive"], "toolOutputs": []}
        return Outcome("ready" if calls else "empty", found)


class CollectResults(PipelineNode):
    """The results, in call order, as messages behind the reply that asked. A call without one is told to have failed."""

    name, ports, writes, role = "collect-results", ("done", "empty", "error"), ("messages", "toolOutputs"), "observation"

    def get_gathered_results(self, ctx: Context) -> Sequence[Json]:
        """`{call_id, ok, result}` of each call that ran."""
        return ctx.state.get("toolOutputs") or ()

    def write_results(self, ctx: Context, asked: Message, results: Sequence[Message]) -> Json:
        """What is written of a round."""
        return {"messages": [*ctx.state["messages"], asked.to_json(), *(result.to_json() for result in results)]}

    def visit(self, ctx: Context) -> Outcome:
        calls: Sequence[Json] = ctx.state.get("toolCalls") or ()
        found = {str(result["call_id"]): result for result in self.get_gathered_results(ctx)}
        asked = [ToolCall(call["id"], call["name"], call["arguments"]) for call in calls]
        said = Message("assistant", str(ctx.state["response"].get("text") or ""), tuple(asked))
        results = [_result(call, found.get(call.id)) for call in asked]
        return Outcome("done" if calls else "empty", self.write_results(ctx, said, results))


class AppendAssistant(PipelineNode):
    """The reply is the answer."""

    name, ports, writes, role = "append-assistant", ("done", "error"), ("output", "messages"), "final"

    def get_response(self, ctx: Context) -> str:
        """The text of the reply."""
        return str(ctx.state["response"].get("text") or "")

    def append(self, ctx: Context, text: str) -> Json:
        """What is written of it."""
        return {"output": text, "messages": [*ctx.state["messages"], Message("assistant", text).to_json()]}

    def visit(self, ctx: Context) -> Outcome:
        return Outcome("done", self.append(ctx, self.get_response(ctx)))


def nodes(
    model: Model,
    *,
    tools: Iterable[Any] = (),
    system: str | None = None,
    sink: Callable[[str], Any] | None = None,
    **classes: type[PipelineNode],
) -> list[Node]:
    """The eight nodes under the seed's IRIs. `classes` are subclasses to use, by the names of the nodes: `call_model=`, `build_request=`.
    The tools themselves are documents: `causeline.nodes.tool_documents(tools)`."""
    specs = Toolbox(tools).specs()
    arguments: Mapping[type[PipelineNode], Json] = {
        BuildRequest: {"system": system},
        CallModel: {"tools": specs, "sink": sink},
        NormalizeResponse: {"tools": specs},
        DecodeToolCalls: {"tools": specs},
        BuildWorksets: {"tools": specs},
    }
    made: list[Node] = []
    for kind in _KINDS:
        chosen: Any = classes.pop(kind.name.replace("-", "_"), kind)
        more = arguments.get(kind, {})
        made.append((chosen(model, **more) if kind is CallModel else chosen(**more)).node())
    if classes:
        raise TypeError(f"no node is called {', '.join(classes)}; there are {', '.join(kind.name.replace('-', '_') for kind in _KINDS)}")
    return made


_KINDS: tuple[type[PipelineNode], ...] = (
    BuildRequest, CallModel, NormalizeResponse, DecodeToolCalls, NormalizeToolCalls, BuildWorksets, CollectResults, AppendAssistant,
)  # fmt: skip


def _port(text: str, calls: Sequence[Any]) -> str:
    if calls:
        return "mixed" if text.strip() else "tools"
    return "text" if text.strip() else ""


def _result(call: ToolCall, found: Mapping[str, Any] | None) -> Message:
    if found is None:
        text = f"There is no result of {call.name}: it is no tool here, or could not run."
        return Message("tool", text, tool_call_id=call.id, is_error=True)
    return Message("tool", result_text(found["result"]), tool_call_id=call.id, is_error=not found["ok"])

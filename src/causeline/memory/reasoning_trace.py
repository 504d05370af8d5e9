"""The reasoning of an agent as a stream of steps, kept as statements, told to a later run: the pipeline of Dagonizer's agent memory.

    execution -> trace -> StreamChannel.driven -> a scatter whose body is record_step -> hint -> the next run

Law: a step is told for what a node did, not for what its placement is called. Each call of a turn is a step of its own. What failed is
told too, as the last step, and then whoever reads the stream is told that the run behind it failed.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from causeline.errors import Invalid
from causeline.graph import Context, Event, InnerFailed, Node, Outcome, Result, Step, node
from causeline.memory.terms import Literal, Quad
from causeline.models.transcript import result_text

REASONING_ITEM_KEY = "reasoning-step-item"
"""The `itemKey` of the scatter in the document of the reference."""
GRAPH = "urn:noocodec:react-agent-memory:run:"
_PROV = "urn:noocodec:react-agent-memory:prov#"
KIND, VALUE, GENERATED_BY, INFORMED_BY = (f"{_PROV}{name}" for name in ("kind", "value", "wasGeneratedBy", "wasInformedBy"))
RECORD_STEP = "urn:noocodec:node:record-step"
PLANNING = "planning to invoke a tool"
"""The thought of a turn in which the model called tools and said nothing."""
_ROLES = ("thought", "action", "observation", "final")

ReasoningStep = Mapping[str, Any]
"""`{kind: "thought" | "final" | "error", text}`, `{kind: "action", tool, args}` or `{kind: "observation", output}`."""


class Execution(Protocol):
    """A walk through a document; `causeline.graph.Execution`."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    def __await__(self) -> Any: ...


class FollowedRun(Protocol):
    """A run of a runtime; `causeline.RunHandle`."""

    def events(self) -> AsyncIterator[Any]: ...


class Statements(Protocol):
    """What of a TripleStore is needed here."""

    def assert_quads(self, quads: Iterable[Sequence[Any]]) -> int: ...

    def pairs(self, predicate: str, graph: str | None = None) -> dict[str, str]: ...


def trace(source: Execution | FollowedRun) -> Callable[[], AsyncGenerator[dict[str, Any], None]]:
    """An async generator function of the reasoning steps of an execution or a run, as `{ordinal, step}`, for `StreamChannel.driven`.
    The execution goes on as the steps are read. One that does not succeed ends in a step of kind `error`, and then InnerFailed is
    raised."""
    followed = hasattr(source, "events")
    steps = _of_run(cast("FollowedRun", source)) if followed else _of_execution(cast("Execution", source))

    async def items() -> AsyncGenerator[dict[str, Any], None]:
        ordinal = 0
        async for step in steps:
            yield {"ordinal": ordinal, "step": step}
            ordinal += 1
            if step["kind"] == "error":
                raise InnerFailed(f"the run behind the trace failed: {step['text']}", status=step.get("status"))

    return items


async def _of_execution(execution: Execution) -> AsyncIterator[ReasoningStep]:
    async for event in execution:
        if isinstance(event, Step):
            for step in _steps_of(event):
                yield step
    result: Result = await execution
    if result.status != "completed":
        yield {"kind": "error", "text": _why(result), "status": result.status}


def _why(result: Result) -> str:
    ended: Mapping[str, Any] = result.state.get("result") or {}
    told: Mapping[str, Any] = ended.get("error") or {}
    return str(told.get("message") or (result.error.message if result.error is not None else result.status))


def _steps_of(step: Step) -> Iterator[ReasoningStep]:
    appends: Sequence[Any] = step.writes.get("log") or ()
    if appends:
        for append in appends:
            yield from _said(append.kind, append.payload)
        return
    kind = next((role for role in _ROLES if role in step.roles), None)
    if kind is not None and step.port not in ("error", "empty"):
        yield from _by_role(kind, next(iter(step.writes.values()), ""))


def _said(kind: str, payload: Any) -> Iterator[ReasoningStep]:
    """What an entry of a causal log says of the reasoning."""
    match kind:
        case "inference":
            yield {"kind": "thought", "text": payload["text"].strip() or (PLANNING if payload["calls"] else "")}
        case "tool_call":
            yield {"kind": "action", "tool": payload["name"], "args": payload["args"]}
        case "tool_result":
            yield {"kind": "observation", "output": result_text(payload["result"])}
        case "answer":
            yield {"kind": "final", "text": result_text(payload).strip()}
        case _:
            pass


def _by_role(kind: str, value: Any) -> Iterator[ReasoningStep]:
    """What a node of one's own does, which says it by its role: of a list of calls or of messages each is a step, of messages those with
    results that are new."""
    if kind == "action":
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            call = _table(each) or {"name": str(each)}
            tool: Any = call.get("name") or call.get("tool")
            yield {"kind": kind, "tool": str(tool), "args": call.get("arguments", call.get("args", {}))}
    elif kind == "observation":
        results = _latest_results(value)
        for output in [result_text(value)] if results is None else results:
            yield {"kind": kind, "output": output}
    elif kind == "thought" and "text" in (said := _table(value)):
        yield {"kind": kind, "text": str(said["text"]).strip() or (PLANNING if said.get("calls") else "")}
    else:
        yield {"kind": kind, "text": result_text(value)}


def _table(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _latest_results(value: Any) -> list[str] | None:
    """The results behind the last reply of a history; None for what is none."""
    if not isinstance(value, list) or not all(isinstance(each, Mapping) and "role" in each for each in cast("list[Any]", value)):
        return None
    found: list[str] = []
    for message in reversed(cast("list[Mapping[str, Any]]", value)):
        if message["role"] != "tool":
            break
        found.insert(0, result_text(message.get("content")))
    return found


async def _of_run(run: FollowedRun) -> AsyncIterator[ReasoningStep]:
    heard = _Heard()
    async for event in run.events():
        for step in heard.steps(event):
            yield step


class _Heard:
    """What a run has told so far, as far as the next step needs it."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._names: dict[str, str] = {}
        self._spoke = False

    def steps(self, event: Mapping[str, Any]) -> Iterator[ReasoningStep]:
        """The steps that an event completes."""
        match event["type"]:
            case "text_message_start" | "message_retracted":
                self._text = []
            case "text_message_content":
                self._text.append(event["delta"])
            case "text_message_end":
                self._spoke = True
                yield {"kind": "thought", "text": "".join(self._text).strip()}
            case "tool_call_start" | "tool_call_args" | "tool_call_result":
                yield from self._call(event)
            case "run_finished" | "run_error":
                yield from self._end(event)
            case _:
                pass

    def _call(self, event: Mapping[str, Any]) -> Iterator[ReasoningStep]:
        if event["type"] == "tool_call_start":
            self._names[event["tool_call_id"]] = event["name"]
            if not self._spoke:
                yield {"kind": "thought", "text": PLANNING}
            self._spoke = True
        elif event["type"] == "tool_call_args":
            yield {"kind": "action", "tool": self._names.get(event["tool_call_id"], ""), "args": _object(event["delta"])}
        else:
            self._spoke = False
            yield {"kind": "observation", "output": event["content"]}

    @staticmethod
    def _end(event: Mapping[str, Any]) -> Iterator[ReasoningStep]:
        if event["status"] != "succeeded":
            yield {"kind": "error", "text": str(event.get("message") or event["status"]), "status": event["status"]}
        elif event.get("answer") is not None:
            yield {"kind": "final", "text": result_text(event["answer"]).strip()}


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def record_step(store: Statements, run_id: str) -> Node:
    """The node of a scatter's body: it keeps the item `{ordinal, step}` as statements about the run. A step is informed by the one before
    it, by its ordinal, so the order in which items are recorded does not matter."""

    @node(RECORD_STEP, ports=("success",), inline=True)
    def record(ctx: Context) -> Outcome:
        store.assert_quads(_quads(run_id, ctx.item))
        return Outcome("success")

    return record


def _quads(run_id: str, item: Any) -> list[Quad]:
    try:
        ordinal, step = item["ordinal"], item["step"]
        value = _value(step)
        if isinstance(ordinal, bool) or not isinstance(ordinal, int) or ordinal < 0:
            raise ValueError(ordinal)
    except (KeyError, TypeError, ValueError) as error:
        raise Invalid(f"a reasoning step is {{ordinal, step: {{kind, ...}}}}, not {item!r:.200}") from error
    run, subject = GRAPH + run_id, f"{GRAPH}{run_id}:step:{ordinal}"
    quads: list[Quad] = [
        (subject, KIND, Literal(step["kind"]), run),
        (subject, VALUE, Literal(value), run),
        (subject, GENERATED_BY, run, run),
    ]
    if ordinal:
        quads.append((subject, INFORMED_BY, f"{GRAPH}{run_id}:step:{ordinal - 1}", run))
    return quads


def _value(step: ReasoningStep) -> str:
    if step["kind"] == "action":
        return f"{step['tool']}({json.dumps(step['args'], ensure_ascii=False)})"
    return str(step["output"] if step["kind"] == "observation" else step["text"])


def hint(store: Statements, run_id: str) -> str:
    """What a run reasoned, on one line, for a later one: the chain that led to its answer, or to its failure where it has none.
    "" for a run of which nothing is recorded. It is worked out once, until the store changes."""
    version = getattr(store, "version", None)
    kept = _HINTS.setdefault(store, {}) if version is not None else {}
    if run_id not in kept or kept[run_id][0] != version:
        while len(kept) >= _KEPT:
            del kept[next(iter(kept))]
        kept[run_id] = version, _walked(store, run_id)
    return kept[run_id][1]


_KEPT = 64
_HINTS: WeakKeyDictionary[Statements, dict[str, tuple[Any, str]]] = WeakKeyDictionary()


def _walked(store: Statements, run_id: str) -> str:
    run = GRAPH + run_id
    kinds, values, before = (store.pairs(predicate, run) for predicate in (KIND, VALUE, INFORMED_BY))
    followed = set(before.values())
    last = [step for step, kind in kinds.items() if kind == "final"] or [step for step in kinds if step not in followed]
    chain: list[str] = []
    step: str | None = max(last, key=_ordinal, default=None)
    seen: set[str] = set()
    while step is not None and step not in seen:
        seen.add(step)
        if step in kinds and step in values:
            chain.append(f"{kinds[step]}: {' '.join(values[step].splitlines())}")
        step = before.get(step)
    return f"Prior reasoning ({run_id}): {'; '.join(reversed(chain))}" if chain else ""


def _ordinal(step: str) -> int:
    number = step.rpartition(":")[2]
    return int(number) if number.isdecimal() else -1

"""A run's events in the words of AG-UI 1.0.

Law: pure. Numbered events go in, AG-UI events come out, in an order that the official client accepts: everything that was begun is
ended before the run is, no message is continued that was not begun, and a step that begins again is first ended.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ag_ui import core as agui

from causeline.api.agui_messages import agui_message

NativeEvent = Mapping[str, Any]
AsCustom = frozenset(
    (
        *("memory_recalled", "tool_progress", "item_finished", "tool_retry", "model_retry"),
        *("run_taken_over", "node_event", "calls_left", "interrupt_superseded"),
    )
)
"""Events that AG-UI has no word for: told as CUSTOM `causeline.<type>`, with their own fields as value."""
_COMMON = frozenset({"type", "run_id", "session_id", "seq", "ts"})


@dataclass(slots=True)
class _Open:
    """What has been begun and not ended, in the order it began."""

    steps: dict[int, str] = field(default_factory=dict[int, str])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    thoughts: dict[str, str] = field(default_factory=dict[str, str])
    calls: dict[str, "_Call"] = field(default_factory=dict[str, "_Call"])
    subagents: dict[str, "Translator"] = field(default_factory=dict[str, "Translator"])


@dataclass(slots=True)
class _Call:
    name: str
    message: str | None
    arguments: str = ""


class Translator:
    """Translates one run. `history` are the session's messages before the run; `interrupts` the questions that were open before it,
    by id; `subagent` is the id of the sub-run whose events these are, None for the run itself."""

    def __init__(
        self,
        *,
        history: Sequence[Mapping[str, Any]] = (),
        interrupts: Mapping[str, Mapping[str, Any]] | None = None,
        subagent: str | None = None,
    ) -> None:
        self._messages: list[Any] = [agui_message(message) for message in history]
        self._interrupts: dict[str, agui.Interrupt] = {name: _interrupt(name, row) for name, row in (interrupts or {}).items()}
        self._subagent: dict[str, Any] = {} if subagent is None else {"subagent_run_id": subagent}
        self._open = _Open()
        self._started: agui.RunStartedEvent | None = None
        self._handlers: Mapping[str, Callable[[NativeEvent], list[Any]]] = {
            "run_started": self._run_started,
            "state_snapshot": self._state,
            "context_changed": self._state,
            "step_started": self._step_started,
            "step_finished": self._step_finished,
            "text_message_start": self._text_start,
            "text_message_content": self._text_content,
            "text_message_end": self._text_end,
            "reasoning_start": self._thought_start,
            "reasoning_content": self._thought_content,
            "reasoning_end": self._thought_end,
            "message_retracted": self._retracted,
            "tool_call_start": self._call_start,
            "tool_call_args": self._call_arguments,
            "tool_call_end": self._call_end,
            "tool_call_result": self._call_result,
            "interrupt_opened": self._asked,
            "sub_run_started": self._subagent_started,
            "sub_run_finished": self._subagent_finished,
            "sub_run_event": self._subagent_event,
            "messages_snapshot": self._snapshot,
            "run_finished": self._finished,
            "run_error": self._failed,
        }

    def translate(self, event: NativeEvent) -> list[Any]:
        """The AG-UI events for one event of the run; none for what AG-UI need not hear of."""
        kind = event["type"]
        handler = self._handlers.get(kind)
        if handler is not None:
            events = handler(event)
        elif kind in AsCustom:
            events = [self._custom(kind, {name: value for name, value in event.items() if name not in _COMMON})]
        else:
            events = []
        stamp = _milliseconds(event.get("ts"))
        for translated in events:
            translated.timestamp = stamp
        return events

    def reopened(self) -> list[Any]:
        """What a client that joins now has to hear first: the run, its completed messages, then everything that is open, with what was
        said of it so far. A client that already holds a part of an open message loses it with the snapshot, so nothing doubles."""
        events: list[Any] = [self._started] if self._started is not None else []
        events.append(agui.MessagesSnapshotEvent(messages=list(self._messages)))
        return events + self.begun()

    def begun(self) -> list[Any]:
        """What is open, begun anew with what was said of it so far."""
        events: list[Any] = [agui.StepStartedEvent(step_name=name, **self._subagent) for name in self._open.steps.values()]
        for message, text in self._open.thoughts.items():
            events += self._begin_thought(message)
            events += [agui.ReasoningMessageContentEvent(message_id=message, delta=text, **self._subagent)] if text else []
        for message, text in self._open.texts.items():
            events.append(agui.TextMessageStartEvent(message_id=message, role="assistant", **self._subagent))
            events += [agui.TextMessageContentEvent(message_id=message, delta=text, **self._subagent)] if text else []
        for name, call in self._open.calls.items():
            events.append(self._begin_call(name, call))
            events += [agui.ToolCallArgsEvent(tool_call_id=name, delta=call.arguments, **self._subagent)] if call.arguments else []
        for subagent in self._open.subagents.values():
            events += subagent.begun()
        return events

    def _custom(self, kind: str, value: Any) -> Any:
        return agui.CustomEvent(name=f"causeline.{kind}", value=value, **self._subagent)

    # the run

    def _run_started(self, event: NativeEvent) -> list[Any]:
        self._started = agui.RunStartedEvent(
            thread_id=event["session_id"],
            run_id=event["run_id"],
            protocol_version=agui.PROTOCOL_VERSION,
            parent_run_id=event.get("parent_run_id"),
        )
        return [self._started]

    def _finished(self, event: NativeEvent) -> list[Any]:
        outcome: Any
        if event["status"] == "cancelled":
            outcome = agui.RunFinishedCancelledOutcome(type="cancelled")
        elif event["status"] == "interrupted":
            outcome = agui.RunFinishedInterruptOutcome(type="interrupt", interrupts=self._asked_by_now(event.get("interrupts") or ()))
        else:
            pending: list[str] = list(event.get("pending_tool_call_ids") or ())
            outcome = agui.RunFinishedSuccessOutcome(type="success", pending_tool_call_ids=pending or None)
        return [
            *self.end_all(),
            agui.RunFinishedEvent(
                thread_id=event["session_id"],
                run_id=event["run_id"],
                result=event.get("answer"),
                outcome=outcome,
                usage=_usage(event.get("usage")),
            ),
        ]

    def _asked_by_now(self, names: Sequence[str]) -> list[agui.Interrupt]:
        return [self._interrupts.get(name) or agui.Interrupt(id=name, reason="question") for name in names]

    def _failed(self, event: NativeEvent) -> list[Any]:
        code, message = event.get("code") or event.get("stop_reason"), event.get("message") or "the run failed"
        return [*self.end_all(), agui.RunErrorEvent(message=message, code=code, usage=_usage(event.get("usage")))]

    def end_all(self) -> list[Any]:
        """End whatever is open, the innermost first."""
        events: list[Any] = []
        for name, subagent in list(self._open.subagents.items()):
            events += subagent.end_all()
            events.append(agui.SubagentFinishedEvent(subagent_run_id=name, outcome=agui.SubagentFinishedSuspendedOutcome(type="suspended")))
        events += [agui.ToolCallEndEvent(tool_call_id=name, **self._subagent) for name in self._open.calls]
        for message in self._open.texts:
            events.append(agui.TextMessageEndEvent(message_id=message, **self._subagent))
        for message in self._open.thoughts:
            events += self._finish_thought(message)
        events += [agui.StepFinishedEvent(step_name=name, **self._subagent) for name in self._open.steps.values()]
        self._open = _Open()
        return events

    def _state(self, event: NativeEvent) -> list[Any]:
        return [] if self._subagent else [agui.StateSnapshotEvent(snapshot=event["context"])]

    def _snapshot(self, event: NativeEvent) -> list[Any]:
        if self._subagent:
            return []
        self._messages = [agui_message(message) for message in event["messages"]]
        return [agui.MessagesSnapshotEvent(messages=list(self._messages))]

    def _asked(self, event: NativeEvent) -> list[Any]:
        self._interrupts[event["interrupt_id"]] = _interrupt(event["interrupt_id"], event)
        return []

    # steps

    def _step_started(self, event: NativeEvent) -> list[Any]:
        repeated = self._open.steps.pop(event["step"], None)
        ended = [] if repeated is None else [agui.StepFinishedEvent(step_name=repeated, **self._subagent)]
        self._open.steps[event["step"]] = event["node"]
        return [*ended, agui.StepStartedEvent(step_name=event["node"], **self._subagent)]

    def _step_finished(self, event: NativeEvent) -> list[Any]:
        if self._open.steps.pop(event["step"], None) is None:
            return []
        return [agui.StepFinishedEvent(step_name=event["node"], **self._subagent)]

    # messages

    def _text_start(self, event: NativeEvent) -> list[Any]:
        self._open.texts[event["message_id"]] = ""
        return [agui.TextMessageStartEvent(message_id=event["message_id"], role="assistant", **self._subagent)]

    def _text_content(self, event: NativeEvent) -> list[Any]:
        message, delta = event["message_id"], event["delta"]
        if message not in self._open.texts or not delta:
            return []
        self._open.texts[message] += delta
        return [agui.TextMessageContentEvent(message_id=message, delta=delta, **self._subagent)]

    def _text_end(self, event: NativeEvent) -> list[Any]:
        message = event["message_id"]
        text = self._open.texts.pop(message, None)
        if text is None:
            return []
        self._messages.append(agui.AssistantMessage(id=message, role="assistant", content=text))
        return [agui.TextMessageEndEvent(message_id=message, **self._subagent)]

    def _thought_start(self, event: NativeEvent) -> list[Any]:
        self._open.thoughts[event["message_id"]] = ""
        return self._begin_thought(event["message_id"])

    def _begin_thought(self, message: str) -> list[Any]:
        return [
            agui.ReasoningStartEvent(message_id=message, **self._subagent),
            agui.ReasoningMessageStartEvent(message_id=message, role="reasoning", **self._subagent),
        ]

    def _thought_content(self, event: NativeEvent) -> list[Any]:
        message, delta = event["message_id"], event["delta"]
        if message not in self._open.thoughts or not delta:
            return []
        self._open.thoughts[message] += delta
        return [agui.ReasoningMessageContentEvent(message_id=message, delta=delta, **self._subagent)]

    def _thought_end(self, event: NativeEvent) -> list[Any]:
        return self._finish_thought(event["message_id"]) if self._open.thoughts.pop(event["message_id"], None) is not None else []

    def _finish_thought(self, message: str) -> list[Any]:
        return [
            agui.ReasoningMessageEndEvent(message_id=message, **self._subagent),
            agui.ReasoningEndEvent(message_id=message, **self._subagent),
        ]

    def _retracted(self, event: NativeEvent) -> list[Any]:
        message = event["message_id"]
        events: list[Any] = []
        if self._open.texts.pop(message, None) is not None:
            events.append(agui.TextMessageEndEvent(message_id=message, **self._subagent))
        if self._open.thoughts.pop(message, None) is not None:
            events += self._finish_thought(message)
        self._messages = [kept for kept in self._messages if kept.id != message]
        events.append(self._custom("retracted", {"message_id": message}))
        if not self._subagent:
            events.append(agui.MessagesSnapshotEvent(messages=list(self._messages)))
        return events

    # calls

    def _begin_call(self, name: str, call: _Call) -> Any:
        return agui.ToolCallStartEvent(tool_call_id=name, tool_call_name=call.name, parent_message_id=call.message, **self._subagent)

    def _call_start(self, event: NativeEvent) -> list[Any]:
        call = self._open.calls[event["tool_call_id"]] = _Call(event["name"], event.get("message_id"))
        return [self._begin_call(event["tool_call_id"], call)]

    def _call_arguments(self, event: NativeEvent) -> list[Any]:
        call = self._open.calls.get(event["tool_call_id"])
        if call is None or not event["delta"]:
            return []
        call.arguments += event["delta"]
        return [agui.ToolCallArgsEvent(tool_call_id=event["tool_call_id"], delta=event["delta"], **self._subagent)]

    def _call_end(self, event: NativeEvent) -> list[Any]:
        call = self._open.calls.pop(event["tool_call_id"], None)
        if call is None:
            return []
        self._keep_call(event["tool_call_id"], call)
        return [agui.ToolCallEndEvent(tool_call_id=event["tool_call_id"], **self._subagent)]

    def _keep_call(self, name: str, call: _Call) -> None:
        """A call belongs to the message that asked for it, which may have had no text."""
        made = agui.ToolCall(id=name, type="function", function=agui.FunctionCall(name=call.name, arguments=call.arguments))
        owner = next((message for message in self._messages if message.id == call.message and message.role == "assistant"), None)
        if owner is None:
            self._messages.append(agui.AssistantMessage(id=call.message or name, role="assistant", tool_calls=[made]))
        elif all(known.id != name for known in owner.tool_calls or ()):
            owner.tool_calls = [*(owner.tool_calls or ()), made]

    def _call_result(self, event: NativeEvent) -> list[Any]:
        content = event["content"]
        result = agui.ToolMessage(
            id=event["message_id"],
            role="tool",
            tool_call_id=event["tool_call_id"],
            content=content,
            error=content if event.get("is_error") and isinstance(content, str) else None,
        )
        self._messages.append(result)
        return [
            agui.ToolCallResultEvent(
                message_id=event["message_id"], tool_call_id=event["tool_call_id"], content=content, role="tool", **self._subagent
            )
        ]

    # runs below

    def _subagent_started(self, event: NativeEvent) -> list[Any]:
        name = event["sub_run_id"]
        self._open.subagents[name] = Translator(subagent=name)
        parent = {"parent_subagent_run_id": self._subagent["subagent_run_id"]} if self._subagent else {}
        agent = event.get("agent") or name
        return [agui.SubagentStartedEvent(subagent_run_id=name, name=agent, parent_tool_call_id=event["tool_call_id"], **parent)]

    def _subagent_event(self, event: NativeEvent) -> list[Any]:
        subagent = self._open.subagents.get(event["event"].get("run_id") or event["run_id"])
        inner = event["event"]
        if subagent is None or inner["type"] in ("run_started", "run_finished", "run_error"):
            return []
        return subagent.translate(inner)

    def _subagent_finished(self, event: NativeEvent) -> list[Any]:
        name = event["sub_run_id"]
        subagent = self._open.subagents.pop(name, None)
        if subagent is None:
            return []
        if event["status"] in ("failed", "cancelled"):
            reason = event.get("stop_reason") or event["status"]
            error = agui.SubagentErrorEvent(subagent_run_id=name, message=f"the sub-agent ended: {reason}", code=reason)
            return [*subagent.end_all(), error]
        outcome: Any = agui.SubagentFinishedSuccessOutcome(type="success")
        if event["status"] == "interrupted":
            outcome = agui.SubagentFinishedSuspendedOutcome(type="suspended")
        return [*subagent.end_all(), agui.SubagentFinishedEvent(subagent_run_id=name, outcome=outcome)]


def _interrupt(name: str, row: Mapping[str, Any]) -> agui.Interrupt:
    return agui.Interrupt(
        id=name,
        reason=row["kind"],
        message=row.get("question"),
        tool_call_id=row.get("tool_call_id"),
        metadata={"name": row.get("name"), "arguments": row.get("arguments")},
    )


def _usage(usage: Mapping[str, Any] | None) -> list[Any] | None:
    if not usage:
        return None
    cached = usage.get("cached_tokens")
    return [agui.TokenUsage(input_tokens=usage.get("input_tokens"), output_tokens=usage.get("output_tokens"), cached_input_tokens=cached)]


def _milliseconds(stamp: str | None) -> int | None:
    return None if stamp is None else int(datetime.fromisoformat(stamp).timestamp() * 1000)

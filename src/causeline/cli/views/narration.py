"""A run's events in words, as they happen.

Law: pure. Events in, pieces of text out; nothing is printed here. Whatever a model or a tool said is cleaned
before it leaves. What is printed cannot be taken back, so a retraction is said, not erased.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from causeline.cli.views.clean_text import Cleaner, clean, shown
from causeline.plain_text import counted

if TYPE_CHECKING:
    from causeline import events  # the types of all events take a moment to make, and a command should start at once

Style = Literal["plain", "quiet", "call", "good", "bad", "title"]
RESULT_LENGTH = 300
_BAR = 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to print as it is, without a line break of its own."""

    text: str
    style: Style = "plain"


@dataclass(slots=True)
class _Call:
    name: str
    client: bool
    arguments: list[str] = field(default_factory=list[str])


class Narrator:
    """Tells one run. `steps` also tells where each step begins; calls in `announced` (id and arguments) are not told again.

    `said` is the latest message of the model that stands, for whoever prints the answer at the end; `in_line` whether what was told last
    has not ended its line yet.
    """

    def __init__(self, *, steps: bool = False, announced: set[tuple[str, str]] | None = None) -> None:
        self.said = ""
        self._announced: set[tuple[str, str]] = set() if announced is None else announced
        self._steps = steps
        self._cleaner = Cleaner()
        self._speech: list[str] = []
        self.in_line = False
        self._calls: dict[str, _Call] = {}
        self._narrators: dict[str, Narrator] = {}
        self._lines: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._told: dict[str, Callable[[Any], Sequence[Piece]]] = {
            "step_started": self._step,
            "text_message_start": self._begin,
            "text_message_content": self._text,
            "text_message_end": self._end,
            "reasoning_start": self._begin_reasoning,
            "reasoning_content": self._reasoning,
            "reasoning_end": self._end_reasoning,
            "message_retracted": self._retracted,
            "tool_call_start": self._call_start,
            "tool_call_args": self._call_arguments,
            "tool_call_end": self._call_end,
            "tool_progress": self._progress,
            "tool_retry": self._tool_retry,
            "model_retry": self._model_retry,
            "tool_call_result": self._call_result,
            "memory_recalled": self._recalled,
            "item_finished": self._item,
            "sub_run_started": self._sub_run,
            "sub_run_event": self._below,
            "run_taken_over": self._taken_over,
            "interrupt_superseded": self._void,
            "run_finished": self._close,
            "run_error": self._close,
        }

    def tell(self, event: "events.Event") -> Sequence[Piece]:
        """What to print for this event; nothing for events of which a reader has no use."""
        handler = self._told.get(event["type"])
        return [piece for piece in handler(event) if piece.text] if handler else ()

    def skip(self, event: "events.Event") -> None:
        """Take note of an event that is not to be told, so that later ones can be: a call's name, say."""
        self.tell(event)
        self.in_line, self.said, self._speech = False, "", []

    def _line(self, text: str, style: Style) -> Sequence[Piece]:
        """A line of its own, below whatever is being said."""
        start = "\n" if self.in_line else ""
        self.in_line = False
        return (Piece(f"{start}{text}\n", style),)

    def _step(self, event: "events.StepStarted") -> Sequence[Piece]:
        return self._line(f"step {event['step']}  {clean(event['node']).rpartition(':')[2]}", "quiet") if self._steps else ()

    def _begin(self, _event: "events.TextMessageStart") -> Sequence[Piece]:
        self._cleaner, self._speech = Cleaner(), []
        return self._close()

    def _text(self, event: "events.TextMessageContent") -> Sequence[Piece]:
        self._speech.append(event["delta"])
        return (self._speak(self._cleaner.feed(event["delta"]), "plain"),)

    def _end(self, event: "events.TextMessageEnd") -> Sequence[Piece]:
        self.said = "".join(self._speech)
        return (self._speak(self._cleaner.rest(), "plain"), *self._close())

    def _begin_reasoning(self, event: "events.ReasoningStart") -> Sequence[Piece]:
        self._cleaner = Cleaner()
        return (*self._close(), self._speak("thinking: ", "quiet"))

    def _reasoning(self, event: "events.ReasoningContent") -> Sequence[Piece]:
        return (self._speak(self._cleaner.feed(event["delta"]), "quiet"),)

    def _end_reasoning(self, event: "events.ReasoningEnd") -> Sequence[Piece]:
        return (self._speak(self._cleaner.rest(), "quiet"), *self._close())

    def _speak(self, text: str, style: Style) -> Piece:
        if text:
            self.in_line = not text.endswith("\n")
        return Piece(text, style)

    def _close(self, _event: object = None) -> Sequence[Piece]:
        start, self.in_line = self.in_line, False
        return (Piece("\n"),) if start else ()

    def _retracted(self, _event: "events.MessageRetracted") -> Sequence[Piece]:
        spoke, self.said, self._speech = bool(self._speech or self.in_line), "", []
        return self._line("[the reply broke off here and does not count]", "quiet") if spoke else ()

    def _call_start(self, event: "events.ToolCallStart") -> Sequence[Piece]:
        self._calls[event["tool_call_id"]] = _Call(event["name"], event["client"])
        return ()

    def _call_arguments(self, event: "events.ToolCallArgs") -> Sequence[Piece]:
        call = self._calls.get(event["tool_call_id"])
        if call is not None:
            call.arguments.append(event["delta"])
        return ()

    def _call_end(self, event: "events.ToolCallEnd") -> Sequence[Piece]:
        call = self._calls.get(event["tool_call_id"])
        if call is None:
            return ()
        key = (event["tool_call_id"], "".join(call.arguments))
        if key in self._announced:
            return ()
        self._announced.add(key)
        whose = "  (for the caller to carry out)" if call.client else ""
        return self._line(f"call    {shown(call.name)} {shown(''.join(call.arguments), RESULT_LENGTH)}{whose}", "call")

    def _progress(self, event: "events.ToolProgress") -> Sequence[Piece]:
        return self._line(f"        {self._name(event['tool_call_id'])}: {shown(event['progress'])}", "quiet")

    def _call_result(self, event: "events.ToolCallResult") -> Sequence[Piece]:
        style: Style = "bad" if event["is_error"] else "quiet"
        what = "failed " if event["is_error"] else "result "
        return self._line(f"{what} {self._name(event['tool_call_id'])}: {shown(event['content'], RESULT_LENGTH)}", style)

    def _tool_retry(self, event: "events.ToolRetry") -> Sequence[Piece]:
        return self._line(f"        {self._name(event['tool_call_id'])}: {_again(event)}", "quiet")

    def _model_retry(self, event: "events.ModelRetry") -> Sequence[Piece]:
        return self._line(f"model   {_again(event)}", "quiet")

    def _taken_over(self, _event: "events.RunTakenOver") -> Sequence[Piece]:
        return self._line("taken over by another process", "quiet")

    def _void(self, event: "events.InterruptSuperseded") -> Sequence[Piece]:
        return self._line(f"void    the open question on {shown(event['name'])}: you went on without answering it", "quiet")

    def _name(self, call_id: str) -> str:
        call = self._calls.get(call_id)
        return shown(call.name if call else call_id)

    def _recalled(self, event: "events.MemoryRecalled") -> Sequence[Piece]:
        cited = event["citations"]
        if event["kind"] == "memory":
            fault = (event.get("error") or {}).get("message")
            told = f"not there: {fault}" if fault else counted(len(cited), "piece") if cited else "nothing that fits"
            return self._line(f"memory  {told}", "quiet")
        runs = {one.get("run") for one in cited}
        if not cited:
            return self._line("recall  nothing from earlier runs", "quiet")
        return self._line(f"recall  {counted(len(cited), 'piece')} from {counted(len(runs), 'earlier run')}", "quiet")

    def _item(self, event: "events.ItemFinished") -> Sequence[Piece]:
        """Every tenth part of a scatter, where its length is known, and its end; else every hundredth item."""
        done, total = event["done"], event.get("total")
        part = max(total // 10, 1) if total else 100
        if done % part and done != total:
            return ()
        return self._line(f"items   {items(event)}", "quiet")

    def _sub_run(self, event: "events.SubRunStarted") -> Sequence[Piece]:
        self._agents[event["sub_run_id"]] = shown(event["agent"])
        return self._line(f"sub-run {shown(event['agent'])} {shown(event['sub_run_id'])}", "quiet")

    def _below(self, event: "events.SubRunEvent") -> Sequence[Piece]:
        """What a run below tells, in whole lines, so that several of them and this one do not run into each other."""
        run, inner = event["run_id"], event["event"]
        narrator = self._narrators.setdefault(run, Narrator(steps=self._steps))
        if inner["type"] == "run_started":
            self._agents[run] = shown(cast("dict[str, Any]", inner)["agent"])
        text = self._lines.get(run, "") + "".join(piece.text for piece in narrator.tell(inner))
        *lines, self._lines[run] = text.split("\n")
        return [piece for line in lines if line for piece in self._line(f"  {self._agents.get(run, '')}: {line}", "quiet")]


def _again(event: "events.ToolRetry | events.ModelRetry") -> str:
    return f"attempt {event['attempt']} failed ({shown(event['code'])}); the next one in {event['wait']:.3g} s"


def items(told: "events.ItemFinished | dict[str, Any]") -> str:
    """How far a scatter is: a bar where its length is known, and how many items failed or were tried again."""
    done, total = told["done"], told.get("total")
    filled = _BAR * done // total if total else 0
    bar = f" [{'#' * filled}{'.' * (_BAR - filled)}] {done:,}/{total:,}" if total else f" {counted(done, 'item')}"
    more = "".join(f", {told[name]:,} {name}" for name in ("failed", "retried") if told[name])
    return f"{shown(told['placement'])}{bar}{more}"

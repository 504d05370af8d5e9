"""What a run is doing while nothing of it is heard: one short line for a terminal.

Law: pure. Events and the time go in, a line comes out; nothing is printed here.
"""

from typing import TYPE_CHECKING, Any, cast

from causeline.cli.views.clean_text import shown
from causeline.cli.views.narration import items
from causeline.plain_text import counted

if TYPE_CHECKING:
    from causeline import events

SILENCE = 0.3
"""Seconds without a word after which the line is shown."""
_CHARACTERS_A_TOKEN = 4
_HEARD = frozenset({"text_message_content", "reasoning_content", "tool_call_args"})


class Activity:
    """Follows one run. Times are seconds of any clock that does not jump."""

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}
        self._scatters: dict[str, str] = {}
        self._in_step = False
        self._heard = 0
        self._begun = self._last = 0.0

    def tell(self, event: "events.Event", now: float) -> None:
        """Take note of an event."""
        told = cast("dict[str, Any]", event)
        self._last = now
        match event["type"]:
            case "step_started":
                self._in_step, self._heard, self._begun = True, 0, now
            case "step_finished" | "run_finished" | "run_error":
                self._in_step = False
                self._calls.clear()
                self._scatters.clear()
            case "tool_call_end":
                self._calls.setdefault(told["tool_call_id"], "a tool")
            case "tool_call_start":
                self._calls[told["tool_call_id"]] = told["name"]
            case "tool_call_result":
                self._calls.pop(told["tool_call_id"], None)
            case "item_finished":
                self._scatters[told["placement"]] = items(told)
            case _:
                self._heard += len(told.get("delta", "")) if event["type"] in _HEARD else 0

    def line(self, now: float) -> str | None:
        """What to show at this time; None while something was heard just now, or nothing is under way."""
        if not self._in_step or now - self._last < SILENCE:
            return None
        doing = ", ".join((*self._scatters.values(), *dict.fromkeys(shown(name) for name in self._calls.values()))) or "thinking"
        tokens = f", about {counted(self._heard // _CHARACTERS_A_TOKEN, 'token')}" if self._heard >= _CHARACTERS_A_TOKEN else ""
        return f"{doing}  {now - self._begun:.0f} s{tokens}"

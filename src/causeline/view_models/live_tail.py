"""What a run is doing right now, from its events: the text that streams in, calls that run, tries that failed.

Law: pure; an event costs what it tells. What is committed is forgotten here, since the log has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MOST = 200_000


@dataclass(slots=True)
class Saying:
    """A message as it streams in; `retracted` where the reply broke off and does not count."""

    id: str
    text: str = ""
    reasoning: str = ""
    calls: dict[int, str] = field(default_factory=dict[int, str])
    retracted: bool = False


@dataclass(slots=True)
class Doing:
    """A call that runs, with the last word on its progress."""

    name: str
    arguments: str = ""
    progress: str = ""
    began: str = ""


class LiveTail:
    """The uncommitted end of one run."""

    def __init__(self) -> None:
        self.sayings: dict[str, Saying] = {}
        self.doings: dict[str, Doing] = {}
        self.notes: list[str] = []
        self.node = ""
        self.step = 0
        self.seen = 0

    def add(self, event: Mapping[str, Any]) -> bool:
        """Take in an event; whether a step was committed or the run ended, so that there is something new in the log."""
        self.seen = event["seq"]
        kind: str = event["type"]
        match kind:
            case "step_started":
                self.node, self.step = event["node"], event["step"]
            case "step_finished" | "run_finished" | "run_error":
                self._settle()
                return True
            case "message_retracted":
                self._saying(event).retracted = True
            case "text_message_content":
                saying = self._saying(event)
                saying.text = (saying.text + event["delta"])[-MOST:]
            case "reasoning_content":
                saying = self._saying(event)
                saying.reasoning = (saying.reasoning + event["delta"])[-MOST:]
            case "tool_call_delta":
                calls = self._saying(event).calls
                calls[event["index"]] = (calls.get(event["index"], f"{event.get('name') or ''} ") + event["delta"])[-MOST:]
            case "model_retry" | "tool_retry" | "node_retry":
                self.notes = [*self.notes[-4:], f"attempt {event['attempt']} failed ({event['code']}); again in {event['wait']:.1f} s"]
            case _:
                self._call(kind, event)
        return False

    def _call(self, kind: str, event: Mapping[str, Any]) -> None:
        match kind:
            case "tool_call_start":
                self.doings[event["tool_call_id"]] = Doing(event["name"], began=event["ts"])
            case "tool_call_args" if event["tool_call_id"] in self.doings:
                self.doings[event["tool_call_id"]].arguments = event["delta"]
            case "tool_progress" if event["tool_call_id"] in self.doings:
                self.doings[event["tool_call_id"]].progress = str(event["progress"])
            case "tool_call_result":
                self.doings.pop(event["tool_call_id"], None)
            case "item_finished":
                total = f"/{event['total']}" if event.get("total") else ""
                self.notes = [
                    *(note for note in self.notes if not note.startswith(f"{event['placement']}:")),
                    f"{event['placement']}: {event['done']}{total} done, {event['failed']} failed, {event['retried']} tried again",
                ]
            case _:
                pass

    def _saying(self, event: Mapping[str, Any]) -> Saying:
        return self.sayings.setdefault(event["message_id"], Saying(event["message_id"]))

    def _settle(self) -> None:
        self.sayings = {name: saying for name, saying in self.sayings.items() if saying.retracted}
        self.notes = []
        self.node = ""

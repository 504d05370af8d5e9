"""A conversation as entries, from the steps of a branch or any stretch of it.

Law: pure, and the work is the size of the stretch. Results that lie behind its end are looked up in `later`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from causeline.causal import CausalNode
from causeline.causal.payload import as_text, fields, is_decision
from causeline.causal.view.node_text import decision_text, node_text
from causeline.runtime.records import Link

Kind = Literal["system", "person", "model", "answer", "note", "fault", "recalled"]


@dataclass(slots=True)
class CallEntry:
    """A tool call with what became of it: `state` is open, ok, failed or waiting."""

    id: str
    name: str
    arguments: Any
    node: str
    state: str = "open"
    result: Any = None
    decisions: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Entry:
    """One thing in a conversation. `place` is the index of its step in the branch, from 0; `value` a structured answer."""

    kind: Kind
    text: str
    node: str
    place: int
    run: str
    value: Any = None
    reasoning: str = ""
    calls: list[CallEntry] = field(default_factory=list[CallEntry])
    citations: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    final: bool = False


class _Folding:
    """Entries of a stretch of links, one after the other."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.calls: dict[str, CallEntry] = {}

    def add(self, link: Link, place: int) -> None:
        """Take in a step."""
        for node in link.nodes:
            self._node(node, fields(node.payload), place, link.checkpoint.run)
        if link.checkpoint.port == "parked":
            for call in self.calls.values():
                call.state = "waiting" if call.state == "open" else call.state

    def result(self, node: CausalNode) -> bool:
        """Take in what became of a call; whether there is such a call here."""
        held = fields(node.payload)
        call = self.calls.get(str(held.get("call_id")))
        if call is None:
            return False
        if node.kind == "tool_result":
            call.state, call.result = ("ok" if held.get("ok") else "failed"), held.get("result")
        else:
            call.decisions.append(decision_text(held))
        return True

    def _node(self, node: CausalNode, held: dict[str, Any], place: int, run: str) -> None:
        if node.kind == "tool_result" or is_decision(node.kind, held):
            self.result(node)
        elif node.kind == "tool_call":
            self._call(node, held, place, run)
        elif node.kind == "inference":
            text = str(held.get("text") or "")
            self.entries.append(Entry("model", text, node.id, place, run, reasoning=_reasoning(held.get("reasoning"))))
        elif node.kind == "answer":
            self._answer(node, place, run)
        elif node.kind == "resource" and held.get("path") in ("recall", "memory"):
            value = fields(held.get("value"))
            text = str(value.get("text") or "")
            self.entries.append(Entry("recalled", text, node.id, place, run, citations=_maps(value.get("citations"))))
        elif node.kind == "goal":
            text = held.get("text")
            shown = text if isinstance(text, str) else as_text(held.get("parts") or held)
            self.entries.append(Entry("person", shown, node.id, place, run))
        elif node.kind == "system":
            self.entries.append(Entry("system", as_text(node.payload), node.id, place, run))
        else:
            kind: Kind = "fault" if node.kind == "protocol_error" else "note"
            self.entries.append(Entry(kind, f"{node.kind}: {node_text(node.kind, node.payload)}", node.id, place, run))

    def _call(self, node: CausalNode, held: dict[str, Any], place: int, run: str) -> None:
        call = CallEntry(str(held.get("call_id")), str(held.get("name")), held.get("args"), node.id)
        self.calls[call.id] = call
        if not self.entries or self.entries[-1].kind != "model" or self.entries[-1].place != place:
            self.entries.append(Entry("model", "", node.id, place, run))
        self.entries[-1].calls.append(call)

    def _answer(self, node: CausalNode, place: int, run: str) -> None:
        value = node.payload
        text = value if isinstance(value, str) else fields(value).get("text") if set(fields(value)) == {"text"} else None
        if isinstance(text, str):
            last = self.entries[-1] if self.entries else None
            if last is not None and last.kind == "model" and last.place == place and last.text.strip() == text.strip():
                last.final = True
                return
            self.entries.append(Entry("answer", text, node.id, place, run, final=True))
        else:
            self.entries.append(Entry("answer", "", node.id, place, run, value=value, final=True))


def conversation(links: Sequence[Link], first: int = 0, later: Iterable[Link] = ()) -> list[Entry]:
    """The entries of these links; `first` is the place of the first one in its branch."""
    fold = _Folding()
    for offset, link in enumerate(links):
        fold.add(link, first + offset)
    waiting = {name for name, call in fold.calls.items() if call.result is None}
    for link in later:
        if not waiting:
            break
        for node in link.nodes:
            if node.kind in ("tool_result", "verification") and fold.result(node):
                waiting.discard(str(fields(node.payload).get("call_id")))
    return fold.entries


def _reasoning(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    texts: list[str] = []
    for part in _maps(parts):
        found = next((part[key] for key in ("text", "thinking", "reasoning", "content") if isinstance(part.get(key), str)), "")
        texts.append(found or " ".join(str(row.get("text") or "") for row in _maps(part.get("summary"))))
    return "\n".join(text for text in texts if text)


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [cast("Mapping[str, Any]", row) for row in cast("list[Any]", value) if isinstance(row, dict)] if isinstance(value, list) else []

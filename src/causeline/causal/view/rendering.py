"""Nodes of a view as chat messages and notes, each cut to a given length.

Law: what comes out is well paired: every call shown is answered by the tool message that follows it. Text is
only ever cut with a visible marker.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from causeline.causal.causal_node import CausalNode
from causeline.causal.payload import as_run, as_text, field_text, fields, is_decision, recalled_text, with_decisions
from causeline.causal.state import AgentState
from causeline.causal.view.catalog import MEMORY, RECALL, Catalog

Message = dict[str, Any]
Pair = tuple[CausalNode, CausalNode, Sequence[CausalNode]]
"""A call, its result, and what people decided on it."""
OVERHEAD = 16
"""Characters counted for the frame of a message."""
PART = 3_000
"""Characters counted for a part that is no text, such as an image."""
SHORT_ID = 11
_WHOLE = 2**62
_CAPS = {"system": _WHOLE, "goal": 64_000, "tool_result": 12_000, "resource": 12_000}
_OTHER_CAP = 6_000
_HEAD_CAP = 64_000


@dataclass(slots=True)
class Item:
    """Nodes that are shown or dropped together: a message, a note, or an inference with its calls and results.

    `places` in log order, `pairs` the calls of a round with their results and what people decided on them. `cap` is the
    most characters one text of it may have. `rank` is set for what matches the question (0 best), `fixed` for what must be shown, `whole`
    for what must not be cut either, `head` for what is in the frontier.
    """

    places: list[int]
    nodes: list[CausalNode]
    kind: str
    cap: int
    fixed: bool = False
    whole: bool = False
    head: bool = False
    rank: int | None = None
    pairs: "list[Pair]" = field(default_factory=list["Pair"])

    def messages(self, limit: int) -> list[Message]:
        """Its chat messages, every text cut to `limit` characters; none for a note."""
        limit = _WHOLE if self.whole else min(limit, self.cap)
        first = self.nodes[0]
        if self.kind == "note":
            return []
        if self.kind == "round":
            return _round(self.nodes, self.pairs, limit)
        if self.kind == "answer":
            return [message(first.id, "assistant", cut(as_text(first.payload), limit, first.id))]
        if self.kind == "inference":
            return [message(first.id, "assistant", cut(field_text(first.payload, "text"), limit, first.id))]
        return [message(first.id, "system" if self.kind == "system" else "user", _said(first, limit))]

    def note(self, limit: int) -> str:
        """Its line in the digest, or "" for a message."""
        if self.kind != "note":
            return ""
        return "\n".join(_note(node, min(limit, self.cap), head=self.head) for node in self.nodes)

    def size(self, limit: int) -> int:
        """Characters it takes at this limit."""
        note = self.note(limit)
        return sum(map(size_of, self.messages(limit))) + (len(note) + 1 if note else 0)


def items_of(state: AgentState, catalog: Catalog, chosen: set[int], required: set[int]) -> list[Item]:
    """The chosen nodes as items, in log order."""
    heads = {state.sequence(name) - 1 for name in state.frontier}
    rounds: dict[int, list[int]] = {}
    for place in sorted(chosen):
        if place in catalog.result_of:
            rounds.setdefault(catalog.carrier.get(place, place), []).extend((place, catalog.result_of[place]))
    paired = {place for pairs in rounds.values() for place in pairs} | rounds.keys()
    paired |= {state.sequence(node.id) - 1 for place in paired for node in _decisions(state, state.nodes[place])}
    items: list[Item] = []
    for place in sorted(chosen):
        if place in rounds:
            pairs = [_pair(state, call, catalog.result_of[call]) for call in rounds[place] if call in catalog.result_of]
            decided = [state.sequence(node.id) - 1 for pair in pairs for node in pair[2]]
            item = _item(state, sorted({place, *rounds[place], *decided}), "round", heads, required)
            item.pairs = pairs
            items.append(item)
        elif place not in paired and (kind := _kind_of(state.nodes[place], state, chosen)):
            items.append(_item(state, [place], kind, heads, required))
    return items


def _pair(state: AgentState, call: int, result: int) -> "Pair":
    return state.nodes[call], state.nodes[result], _decisions(state, state.nodes[result])


def _decisions(state: AgentState, result: CausalNode) -> Sequence[CausalNode]:
    """What people decided on the call of a result, in log order."""
    if result.kind != "tool_result" or len(result.parents) < 2:
        return ()
    parents = sorted(map(state.sequence, result.parents))
    return [node for node in (state.nodes[number - 1] for number in parents) if is_decision(node.kind, node.payload)]


def _item(state: AgentState, places: list[int], kind: str, heads: set[int], required: set[int]) -> Item:
    nodes = [state.nodes[place] for place in places]
    head = not heads.isdisjoint(places)
    cap = max(_CAPS.get(node.kind, _OTHER_CAP) for node in nodes)
    fixed = not required.isdisjoint(places)
    return Item(places, nodes, kind, max(cap, _HEAD_CAP) if head else cap, fixed, fixed and kind in ("system", "goal"), head)


def _kind_of(node: CausalNode, state: AgentState, chosen: set[int]) -> str | None:
    """How a node that stands alone is shown; None for an inference that says nothing or that its answer repeats."""
    if node.kind in ("system", "goal", "answer"):
        return node.kind
    if node.kind == "inference":
        answered = any(state.nodes[place].kind == "answer" and node.id in state.nodes[place].parents for place in chosen)
        return None if answered or not field_text(node.payload, "text").strip() else "inference"
    return "note"


def message(name: str, role: str, content: Any, *, calls: Sequence[Any] = (), call_id: str | None = None, failed: bool = False) -> Message:
    """A message in its JSON form."""
    return {"id": name, "role": role, "content": content, "tool_calls": list(calls), "tool_call_id": call_id, "is_error": failed}


def size_of(one: Message) -> int:
    """Characters that count for a message: its text, its calls, and a little for the frame."""
    content = one["content"]
    size = len(content) if isinstance(content, str) else sum(len(field_text(part, "text")) or PART for part in content)
    return OVERHEAD + size + sum(OVERHEAD + len(call["name"]) + len(as_text(call["arguments"])) for call in one["tool_calls"])


def cut(text: str, limit: int, name: str) -> str:
    """`text`, at most `limit` characters (at least room for the marker), saying so where it was cut."""
    if len(text) <= limit:
        return text
    marker = f" [cut: {len(text)} characters, node {name}]"
    return text[: max(0, limit - len(marker))] + marker


def _round(nodes: Sequence[CausalNode], pairs: "Sequence[Pair]", limit: int) -> list[Message]:
    """An assistant message with calls, and a tool message for each. A call without an inference stands for it."""
    calls: list[Any] = []
    results: list[Message] = []
    for call, result, decided in pairs:
        asked, said, decisions = fields(call.payload), fields(result.payload), [node.payload for node in decided]
        call_id = field_text(asked, "call_id") or call.id
        arguments = _arguments(as_run(asked.get("args"), decisions), limit, call.id)
        calls.append({"id": call_id, "name": field_text(asked, "name"), "arguments": arguments})
        text = with_decisions(cut(as_text(said.get("result")), limit, result.id), decisions)
        results.append(message(result.id, "tool", text, call_id=call_id, failed=said.get("ok") is False))
    first = nodes[0]
    text = cut(field_text(first.payload, "text"), limit, first.id) if first.kind == "inference" else ""
    return [message(first.id, "assistant", text, calls=calls), *results]


def _arguments(args: Any, limit: int, name: str) -> Any:
    text = as_text(args)
    if len(text) > limit:
        return {"cut": cut(text, limit, name)}
    return args if isinstance(args, str) else fields(args)


def _said(node: CausalNode, limit: int) -> Any:
    payload = node.payload
    said = fields(payload)
    if isinstance(said.get("parts"), list):
        return said["parts"]
    return cut(field_text(said, "text") if "text" in said else as_text(payload), limit, node.id)


def _note(node: CausalNode, limit: int, *, head: bool) -> str:
    said = fields(node.payload)
    if node.kind == "semantic" and said:
        label, body = f"{said.get('type')} {said.get('key')}", as_text(said.get("content"))
    elif (node.resource_key or "").startswith(RECALL):
        label, body = "recalled from earlier runs", recalled_text(said)
    elif (node.resource_key or "").startswith(MEMORY):
        label, body = "recalled from long-term memory", recalled_text(said)
    else:
        label, body = node.kind, as_text(node.payload)
    return f"- {node.id[:SHORT_ID]} [{label}]{' HEAD' if head else ''} {cut(body, limit, node.id)}"

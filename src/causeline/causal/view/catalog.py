"""What a bounded view needs to know of a log, brought up node by node.

Law: a log only grows, so what was learnt of its older nodes stays true; bringing the catalog up to date
costs what was added, and asking it costs what is found, never the length of the log.
"""

from array import array
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

from causeline.causal.canonical import canonical
from causeline.causal.causal_node import CausalNode
from causeline.causal.limits import WRAPPED_DEPTH
from causeline.causal.payload import field_text, fields, is_forgotten
from causeline.causal.state import AgentState
from causeline.causal.view.words import terms, text_of

READS = frozenset({"read_file"})
WRITES = frozenset({"write_file", "edit_file"})
_LOOKS = frozenset({"read", "read_file", "list", "list_files", "search", "search_files", "grep", "find", "recall"})
SEMANTIC = "semantic "
RECALL, MEMORY = "recall:", "memory:"
_BUSIEST = 20
_RECENT = 12
_MIN_NOTE = 20


class Catalog:
    """Facts about the nodes of one log, by their place in it (from 0).

    `alive`     places that are still the newest of their class (see `_class_of`), oldest first; `alive_of` by
                kind, and by `semantic <type>`; `group_of` an alive place -> that word.
    `result_of` place of a tool call -> place of its result; `call_of` the other way round.
    `carrier`   place of a tool call -> place of the inference that asked for it.
    `turn`      place of a goal -> place of the answer it came to, and of an answer -> its goal.
    `resources` key -> place of its newest version, the latest change last. `busy` the keys with most versions.
    `changes`, `notes`  places of the latest mutations of resources, and of model texts that came with a call.
    """

    def __init__(self) -> None:
        self.alive: dict[int, None] = {}
        self.group_of: dict[int, str] = {}
        self.alive_of: dict[str, dict[int, None]] = {}
        self.result_of: dict[int, int] = {}
        self.call_of: dict[int, int] = {}
        self.carrier: dict[int, int] = {}
        self.turn: dict[int, int] = {}
        self._goal: int | None = None
        self.kinds: dict[str, int] = {}
        self.tools: dict[str, int] = {}
        self.resources: dict[str, int] = {}
        self.busy: dict[str, int] = {}
        self.changes: list[int] = []
        self.notes: list[int] = []
        self.sizes: list[int] = []
        self._postings: dict[str, array[int]] = {}
        self._latest: dict[object, int] = {}
        self._call_class: dict[int, tuple[str, ...]] = {}
        self._versions: dict[str, int] = {}

    def update(self, state: AgentState) -> None:
        """Learn the nodes that were added since the last time."""
        nodes = state.nodes
        for place in range(len(self.sizes), len(nodes)):
            self._add(place, nodes[place], state)

    def places_of(self, term: str, newest: int) -> Sequence[int]:
        """Places whose payload has the term: the newest ones, at most `newest`."""
        return self._postings.get(term, array("I"))[-newest:]

    def frequency(self, term: str) -> int:
        """How many payloads have the term."""
        return len(self._postings.get(term, ()))

    def _add(self, place: int, node: CausalNode, state: AgentState) -> None:
        payload = node.payload
        self.kinds[node.kind] = self.kinds.get(node.kind, 0) + 1
        self._link(place, node, payload, state)
        if node.kind == "resource" and node.resource_key is not None:
            self._resource(place, node.resource_key, payload)
        if node.kind == "inference" and _has_note(payload):
            self.notes = [*self.notes[1 - _RECENT :], place]
        forgotten = is_forgotten(node.kind, payload)
        words = terms(text_of(payload)) if is_shown(node) and not forgotten else set[str]()
        self.sizes.append(len(words))
        for word in sorted(words):
            if word not in self._postings:
                self._postings[word] = array("I")
            self._postings[word].append(place)
        if is_shown(node):
            name = self._class_of(place, node, payload)
            self._supersede(place, name, _group(node, payload))
            if forgotten:
                self._supersede(None, name, "")

    def _link(self, place: int, node: CausalNode, payload: Any, state: AgentState) -> None:
        if node.kind == "tool_call":
            name = field_text(payload, "name")
            self.tools[name] = self.tools.get(name, 0) + 1
            self._call_class[place] = _call_class(name, fields(payload).get("args"))
            for parent in node.parents:
                if state.node(parent).kind == "inference":
                    self.carrier[place] = state.sequence(parent) - 1
        elif node.kind == "goal":
            self._goal = place
        elif node.kind == "answer" and self._goal is not None:
            self.turn[self._goal], self.turn[place] = place, self._goal
        elif node.kind == "tool_result":
            for parent in node.parents:
                call = state.sequence(parent) - 1
                if call in self._call_class and call not in self.result_of:
                    self.result_of[call] = place
                    self.call_of[place] = call
                    return

    def _resource(self, place: int, key: str, payload: Any) -> None:
        if key.startswith(RECALL):
            return
        self.resources.pop(key, None)
        self.resources[key] = place
        count = self._versions[key] = self._versions.get(key, 0) + 1
        if key in self.busy or len(self.busy) < _BUSIEST:
            self.busy[key] = count
        else:
            least = min(self.busy, key=lambda busy: self.busy[busy])
            if count > self.busy[least]:
                del self.busy[least]
                self.busy[key] = count
        if field_text(payload, "operation") not in _LOOKS:
            self.changes = [*self.changes[1 - _RECENT :], place]

    def _class_of(self, place: int, node: CausalNode, payload: Any) -> object:
        """Nodes of one class say the same thing at different times; only the newest is worth showing."""
        if node.kind in ("resource", "semantic"):
            return ("key", node.resource_key) if node.resource_key is not None else place
        if node.kind in ("inference", "protocol_error"):
            return node.kind, sha256(node.payload_bytes).digest()
        if node.kind == "tool_call":
            return "call", self._call_class[place]
        if node.kind == "tool_result":
            call = self._call_class.get(self.call_of.get(place, -1))
            if call is not None and call[0] != "other":
                return "result", call
            result = canonical([field_text(payload, "tool"), fields(payload).get("result", payload)], depth=WRAPPED_DEPTH)
            return "result", sha256(result).digest()
        return "system" if node.kind == "system" else place

    def _supersede(self, place: int | None, name: object, group: str) -> None:
        """A place takes that of the latest of its class; None: there is none any more."""
        older = self._latest.pop(name, None)
        if older is not None:
            del self.alive[older]
            del self.alive_of[self.group_of.pop(older)][older]
        if place is None:
            return
        self._latest[name] = place
        self.group_of[place] = group
        self.alive[place] = None
        self.alive_of.setdefault(group, {})[place] = None


_CATALOGS: "WeakKeyDictionary[AgentState, Catalog]" = WeakKeyDictionary()


def catalog_of(state: AgentState) -> Catalog:
    """The catalog of a log, up to date. It is remembered as long as the state lives."""
    catalog = _CATALOGS.get(state)
    if catalog is None:
        catalog = _CATALOGS[state] = Catalog()
    catalog.update(state)
    return catalog


def is_shown(node: CausalNode) -> bool:
    """What was recalled is for the goal it was recalled for; it is not a candidate for later questions."""
    return node.resource_key is None or not node.resource_key.startswith((RECALL, MEMORY))


def _group(node: CausalNode, payload: Any) -> str:
    return SEMANTIC + field_text(payload, "type") if node.kind == "semantic" else node.kind


def _call_class(name: str, args: Any) -> tuple[str, ...]:
    """Reads of one stretch of a file are alike, writes of one file are alike, other calls with equal arguments are."""
    named = fields(args)
    path = named.get("path", named.get("file_path"))
    if isinstance(path, str) and name in READS:
        return "read", path, str(named.get("offset"))
    if isinstance(path, str) and name in WRITES:
        return "write", path
    return "other", name, sha256(canonical(args)).hexdigest()


def _has_note(payload: Any) -> bool:
    return bool(fields(payload).get("calls")) and len(field_text(payload, "text").strip()) >= _MIN_NOTE

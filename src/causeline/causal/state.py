"""The causal log of one branch: an append-only list of nodes, the active heads, and the versions of each resource.

Law: an append costs the same at any length of the log. A node never changes, and a node that is already
there is not written again. Nothing here reads a clock: `created_at` is given.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

from causeline.causal.canonical import InvalidValue, canonical
from causeline.causal.causal_node import CausalNode, check_time
from causeline.causal.identity import check_key, check_kind, node_id
from causeline.causal.import_checks import check_log, read_state
from causeline.causal.limits import Limits
from causeline.causal.payload import is_decision
from causeline.errors import Corrupt, Missing

_CAUSED = frozenset({"tool_call", "tool_result", "answer", "protocol_error", "verification", "resource", "semantic"})
_DEFAULT_LIMITS = Limits()


class UnknownNode(Missing):
    """No node of this log has the id `id`."""

    code = "unknown_node"

    def __init__(self, name: str, message: str | None = None) -> None:
        super().__init__(message or f"{ascii(name)[:80]} is no node of this log", id=name)
        self.id = name


class UnknownParent(UnknownNode):
    """An append names a parent that this log does not have."""

    code = "unknown_parent"

    def __init__(self, name: str) -> None:
        super().__init__(name, f"the parent {ascii(name)[:80]} is no node of this log; append it first")


class IdentityCollision(Corrupt):
    """Two different contents have the same id."""

    code = "identity_collision"


class NodeList(Sequence[CausalNode]):
    """The nodes of a log in order, read without copying. It grows as the log grows."""

    __slots__ = ("_nodes",)

    def __init__(self, nodes: list[CausalNode]) -> None:
        self._nodes = nodes

    @overload
    def __getitem__(self, index: int) -> CausalNode: ...
    @overload
    def __getitem__(self, index: slice) -> list[CausalNode]: ...
    def __getitem__(self, index: int | slice) -> CausalNode | list[CausalNode]:
        return self._nodes[index]

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[CausalNode]:
        return iter(self._nodes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NodeList):
            return self._nodes == other._nodes
        return self._nodes == other

    __hash__ = None  # type: ignore[assignment] - what grows must not be a key

    def __repr__(self) -> str:
        return f"NodeList({self._nodes!r})"


class AgentState:
    """The log of one branch. `AgentState()` is empty; `restore` and `from_json` read one back."""

    __slots__ = ("__weakref__", "_frontier", "_index", "_nodes", "_versions")

    version = 1

    def __init__(self) -> None:
        self._nodes: list[CausalNode] = []
        self._index: dict[str, int] = {}
        self._frontier: dict[str, None] = {}
        self._versions: dict[str, list[CausalNode]] = {}

    @property
    def nodes(self) -> NodeList:
        """Every node in log order, as a read-only view."""
        return NodeList(self._nodes)

    def since(self, place: int) -> list[CausalNode]:
        """The nodes after the first `place`, in log order."""
        return self._nodes[place:]

    @property
    def frontier(self) -> list[str]:
        """Ids of the active heads, in the order they became heads (sorted in a state read from a checkpoint)."""
        return list(self._frontier)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._index

    def node(self, name: str) -> CausalNode:
        """The node with this id. Raises UnknownNode."""
        return self._nodes[self._place(name)]

    def sequence(self, name: str) -> int:
        """The place of a node in this log, from 1. Raises UnknownNode."""
        return self._place(name) + 1

    def append(
        self,
        kind: str,
        payload: object,
        parents: Iterable[str] | None = None,
        *,
        created_at: str,
        resource_key: str | None = None,
        advance: bool = True,
    ) -> CausalNode:
        """Add a node and return it; an equal node that is already there is returned and nothing changes.

        `parents` None means the frontier. A node with a `resource_key` gets the key's head as a further parent
        and becomes its head. With `advance` the node replaces its parents in the frontier. Raises InvalidValue
        (also for a wrong `kind`, `resource_key` or `created_at`) and UnknownParent, before anything changed.
        """
        check_kind(kind)
        check_key(resource_key)
        check_time(created_at)
        payload_bytes = canonical(payload)
        given: Iterable[str] = self._frontier if parents is None else self.known_parents(parents)
        return self.place(kind, payload_bytes, given, created_at=created_at, resource_key=resource_key, advance=advance)[0]

    def known_parents(self, parents: Iterable[str]) -> tuple[str, ...]:
        """`parents` as a tuple, if this log has them all. Raises UnknownParent."""
        if isinstance(parents, str):
            raise InvalidValue("parents", "is a str; give a list of node ids")
        found = tuple(parents)
        for parent in found:
            if type(parent) is not str or parent not in self._index:
                raise UnknownParent(parent)
        return found

    def place(
        self, kind: str, payload_bytes: bytes, parents: Iterable[str], *, created_at: str, resource_key: str | None, advance: bool
    ) -> tuple[CausalNode, bool]:
        """`append` for parts that are already checked, and whether the node is new. `parents` are ids of this log."""
        causes = set(parents)
        versions = self._versions.get(resource_key) if resource_key is not None else None
        if versions:
            causes.add(versions[-1].id)
        ordered = tuple(sorted(causes))
        name = node_id(kind, ordered, payload_bytes, resource_key)
        place = self._index.get(name)
        if place is not None:
            return self._same(self._nodes[place], kind, ordered, payload_bytes, resource_key), False
        node = CausalNode(name, kind, ordered, payload_bytes, created_at, resource_key)
        self._add(node)
        if advance:
            for parent in ordered:
                self._frontier.pop(parent, None)
            self._frontier[name] = None
        return node, True

    def head(self, key: str) -> CausalNode | None:
        """The newest version of a resource, or None."""
        versions = self._versions.get(key)
        return versions[-1] if versions else None

    def versions(self, key: str) -> list[CausalNode]:
        """Every version of a resource, oldest first."""
        return list(self._versions.get(key, ()))

    def resources(self) -> dict[str, CausalNode]:
        """The newest version of every resource, by key, in the order the keys first appeared."""
        return {key: versions[-1] for key, versions in self._versions.items()}

    def ancestors(self, ids: Iterable[str]) -> set[str]:
        """Ids of everything that `ids` (one id or several) rest on, themselves excluded unless one rests on another. Raises UnknownNode."""
        start = (ids,) if isinstance(ids, str) else tuple(ids)
        found: set[str] = set()
        todo = [parent for name in start for parent in self.node(name).parents]
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo.extend(self.node(name).parents)
        return found

    def why(self, name: str) -> list[CausalNode]:
        """The inference that led to a node and what that inference had read, in log order.

        From a tool result, a resource, a memory, an answer the causes are followed to the nearest inference;
        the previous version of the same resource is not a cause. What a person decided on a call on this way, or
        on one whose result was read, is there too. Empty for what no inference led to, such as a goal. Raises UnknownNode.
        """
        chosen: set[str] = set()
        seen: set[str] = set()
        todo = [self.node(name)]
        while todo:
            node = todo.pop()
            if node.kind == "inference":
                chosen.add(node.id)
                chosen.update(node.parents)
            elif node.kind in _CAUSED:
                if is_decision(node.kind, node.payload):
                    chosen.add(node.id)
                causes = [self.node(parent) for parent in node.parents if parent not in seen]
                seen.update(node.parents)
                todo.extend(cause for cause in causes if node.resource_key is None or cause.resource_key != node.resource_key)
        for result in [node for node in map(self.node, chosen) if node.kind == "tool_result"]:
            chosen.update(parent for parent in result.parents if is_decision(self.node(parent).kind, self.node(parent).payload))
        return [self._nodes[place] for place in sorted(map(self._place, chosen))]

    def to_json(self) -> dict[str, Any]:
        """`{version, nodes, frontier}` as plain JSON values."""
        nodes = [node.to_json(index + 1) for index, node in enumerate(self._nodes)]
        return {"version": self.version, "nodes": nodes, "frontier": list(self._frontier)}

    @classmethod
    def from_json(cls, obj: object, limits: Limits = _DEFAULT_LIMITS) -> "AgentState":
        """The state of a parsed JSON form. Everything is checked (see `checks`); raises VerifyError and takes nothing over."""
        return cls.restore(*read_state(obj, limits))

    @classmethod
    def restore(cls, nodes: Iterable[CausalNode], frontier: Sequence[str]) -> "AgentState":
        """A state from nodes in log order whose ids are already checked (`stored_node`). Links and frontier are checked here."""
        state = cls()
        listed = list(nodes)
        heads = list(frontier)
        check_log(listed, heads)
        for node in listed:
            state._add(node)
        state._frontier = dict.fromkeys(heads)
        return state

    def settle(self) -> None:
        """Put the heads in the order in which a state that is read from a checkpoint has them."""
        self._frontier = dict.fromkeys(sorted(self._frontier))

    def _place(self, name: str) -> int:
        try:
            return self._index[name]
        except (KeyError, TypeError):
            raise UnknownNode(name) from None

    def _add(self, node: CausalNode) -> None:
        self._index[node.id] = len(self._nodes)
        self._nodes.append(node)
        if node.resource_key is not None:
            self._versions.setdefault(node.resource_key, []).append(node)

    @staticmethod
    def _same(node: CausalNode, kind: str, parents: tuple[str, ...], payload_bytes: bytes, resource_key: str | None) -> CausalNode:
        if (node.kind, node.parents, node.payload_bytes, node.resource_key) != (kind, parents, payload_bytes, resource_key):
            raise IdentityCollision(f"{node.id}: two different contents have this id", id=node.id)
        return node

"""Appends as data: what a step wants to add to the log, written down before it happens.

Law: a batch is added whole or not at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from causeline.causal.canonical import InvalidValue, canonical
from causeline.causal.causal_node import CausalNode, check_time
from causeline.causal.identity import KINDS, check_key, check_kind
from causeline.causal.state import AgentState


@dataclass(frozen=True, slots=True)
class Append:
    """One node to add. `parents` is "frontier", or ids of the log and Append records that stand earlier in the same batch."""

    kind: str
    payload: Any
    parents: "Literal['frontier'] | tuple[str | Append, ...]" = "frontier"
    resource_key: str | None = None
    advance: bool = True


def apply(state: AgentState, appends: Sequence[Append], created_at: str) -> list[CausalNode]:
    """Add a batch in order and return the nodes that are new, in order.

    Everything that can be refused is checked first (InvalidValue, UnknownParent), so a refused batch leaves
    the state as it was. The parent ids must be in the state before the batch.
    """
    check_time(created_at)
    contents: list[bytes] = []
    earlier: set[int] = set()
    for index, append in enumerate(appends):
        if append.kind not in KINDS:
            check_kind(append.kind)
        if append.resource_key is not None:
            check_key(append.resource_key)
        contents.append(canonical(append.payload))
        _check_parents(state, append, index, earlier)
        earlier.add(id(append))
    became: dict[int, str] = {}
    fresh: list[CausalNode] = []
    for append, content in zip(appends, contents, strict=True):
        parents = (
            state.frontier
            if append.parents == "frontier"
            else [parent if isinstance(parent, str) else became[id(parent)] for parent in append.parents]
        )
        node, new = state.place(
            append.kind, content, parents, created_at=created_at, resource_key=append.resource_key, advance=append.advance
        )
        became[id(append)] = node.id
        if new:
            fresh.append(node)
    return fresh


def _check_parents(state: AgentState, append: Append, index: int, earlier: set[int]) -> None:
    parents: Any = append.parents
    if parents == "frontier":
        return
    if not isinstance(parents, tuple | list):
        raise InvalidValue(f"appends[{index}].parents", 'is neither "frontier" nor a tuple of ids and Append records')
    ids: list[str] = []
    for parent in append.parents:
        if not isinstance(parent, Append):
            ids.append(parent)
        elif id(parent) not in earlier:
            raise InvalidValue(f"appends[{index}].parents", f"the {parent.kind} record is not earlier in this batch")
    if ids:
        state.known_parents(ids)


def heads_after(log: AgentState, appends: Sequence[Append]) -> tuple[str | Append, ...]:
    """The heads of the log once `appends`, which name their parents, are in it."""
    heads: dict[str | int, str | Append] = {head: head for head in log.frontier}
    versions: dict[str, Append] = {}
    for append in appends:
        replaced = [*append.parents, versions.get(append.resource_key or "") or ""]
        if append.resource_key is not None:
            versions[append.resource_key] = append
        if append.advance:
            for one in replaced:
                heads.pop(one if isinstance(one, str) else id(one), None)
            heads[id(append)] = append
    return tuple(heads.values())

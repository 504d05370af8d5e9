"""What changed: the versions of one resource, and the difference between two logs.

Law: pure. Content ids make it well defined: a node that both logs have is the same node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from causeline.causal.canonical import canonical
from causeline.causal.causal_node import CausalNode
from causeline.causal.payload import fields
from causeline.causal.state import AgentState


@dataclass(frozen=True, slots=True)
class Difference:
    """Two logs compared. `common` is how many nodes both have, `before` and `after` are what only one has, in log order. `resources` maps
    each key whose latest version differs to both versions, None where there is none."""

    common: int
    before: Sequence[CausalNode]
    after: Sequence[CausalNode]
    resources: Mapping[str, tuple[CausalNode | None, CausalNode | None]]


def history(state: AgentState, key: str) -> list[CausalNode]:
    """Every version of a resource or a note, oldest first; empty for a key that was never written."""
    return list(state.versions(key))


def diff(before: AgentState, after: AgentState) -> Difference:
    """What `after` has that `before` has not, and the other way round: of two checkpoints, two forks, two sessions."""
    here, there = {node.id for node in before.nodes}, {node.id for node in after.nodes}
    only_before = [node for node in before.nodes if node.id not in there]
    only_after = [node for node in after.nodes if node.id not in here]
    keys = dict.fromkeys(node.resource_key for node in (*only_before, *only_after) if node.resource_key is not None)
    pairs = {key: (before.head(key), after.head(key)) for key in keys}
    changed = {key: pair for key, pair in pairs.items() if _id(pair[0]) != _id(pair[1])}
    return Difference(len(here & there), only_before, only_after, changed)


def compare_versions(before: CausalNode, after: CausalNode) -> Difference:
    """Two nodes, such as two versions of one file."""
    key = after.resource_key or before.resource_key or after.id
    same = before.id == after.id
    return Difference(int(same), [] if same else [before], [] if same else [after], {} if same else {key: (before, after)})


def changed_fields(before: Any, after: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """Where two JSON values differ: (dotted path, value before, value after), None where there is none. Lists are compared whole."""
    old, new = fields(before), fields(after)
    if old and new:
        names = dict.fromkeys([*old, *new])
        return [found for name in names for found in changed_fields(old.get(name), new.get(name), f"{path}.{name}" if path else name)]
    return [] if canonical(before) == canonical(after) else [(path, before, after)]


def _id(node: CausalNode | None) -> str | None:
    return None if node is None else node.id

"""Walking a tree of checkpoints from its roots, checking every link as if it were being written.

One pass for all branches: what a checkpoint adds is taken back when its subtree is done, so the work is
the size of the tree and not the sum over its branches.
"""

from collections.abc import Mapping, Sequence

from causeline.causal.causal_node import CausalNode
from causeline.causal.checkpoint import CheckpointRow
from causeline.causal.import_checks import check_chain, check_frontier
from causeline.causal.limits import VerifyError


class _Walk:
    """What is known at one place of the tree: nodes appended so far, newest version of each resource."""

    def __init__(self, pool: Mapping[str, CausalNode]) -> None:
        self.pool = pool
        self.known: set[str] = set()
        self.heads: dict[str, str] = {}
        self.used: set[str] = set()
        self._undo: list[tuple[list[CausalNode], list[tuple[str, str | None]]]] = []

    def enter(self, row: CheckpointRow, before: Sequence[str]) -> None:
        added: list[CausalNode] = []
        replaced: list[tuple[str, str | None]] = []
        self._undo.append((added, replaced))
        for place, name in enumerate(row["appended"]):
            node = self.pool.get(name)
            if node is None:
                raise VerifyError(name, place, "appended names a node that is not in the file")
            check_chain(node, place, self.known, self.heads)
            self.known.add(name)
            added.append(node)
            if node.resource_key is not None:
                replaced.append((node.resource_key, self.heads.get(node.resource_key)))
                self.heads[node.resource_key] = name
        self.used.update(row["appended"])
        check_frontier(frozenset(before), added, row["frontier"])

    def leave(self) -> None:
        added, replaced = self._undo.pop()
        self.known.difference_update(node.id for node in added)
        for key, head in reversed(replaced):
            if head is None:
                del self.heads[key]
            else:
                self.heads[key] = head


def replay(rows: Sequence[CheckpointRow], pool: Mapping[str, CausalNode], others: frozenset[str]) -> None:
    """Check every branch of `rows`. `pool` has the nodes by id; each of `others` must be appended by some checkpoint.

    Raises VerifyError that names the node or checkpoint, for the first fault on the way.
    """
    by_id = {row["id"]: index for index, row in enumerate(rows)}
    children: dict[int | None, list[int]] = {}
    for index, row in enumerate(rows):
        children.setdefault(_parent(rows, by_id, index, row), []).append(index)
    walk = _Walk(pool)
    visited = 0
    todo: list[int | None] = list(reversed(children.get(None, [])))
    while todo:
        index = todo.pop()
        if index is None:
            walk.leave()
            continue
        row = rows[index]
        parent = by_id[row["parent"]] if row["parent"] is not None else None
        try:
            walk.enter(row, rows[parent]["frontier"] if parent is not None else ())
        except VerifyError as fault:
            raise VerifyError(fault.node_id or row["id"], fault.index, f"in checkpoint {row['id']}: {fault.reason}") from None
        visited += 1
        todo.append(None)
        todo.extend(reversed(children.get(index, [])))
    if visited < len(rows):
        raise VerifyError(None, None, "some checkpoints are their own ancestors")
    for name in sorted(others - walk.used):
        raise VerifyError(name, None, "no checkpoint appended this node")


def _parent(rows: Sequence[CheckpointRow], by_id: Mapping[str, int], index: int, row: CheckpointRow) -> int | None:
    """The place of a row's parent; steps count from 0 in each run."""
    expected = 0
    parent = None
    if row["parent"] is not None:
        parent = by_id.get(row["parent"])
        if parent is None:
            raise VerifyError(row["id"], index, f"its parent {ascii(row['parent'])[:60]} is not in the bundle")
        if rows[parent]["run"] == row["run"]:
            expected = rows[parent]["step"] + 1
    if row["step"] != expected:
        raise VerifyError(row["id"], index, f"step is {row['step']}; after its parent it is {expected}")
    return parent

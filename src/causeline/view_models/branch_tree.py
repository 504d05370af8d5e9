"""Checkpoints as a tree over all forks, in stretches that do not fork.

Law: pure and linear; no recursion, however deep the tree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from causeline.runtime.records import Checkpoint, Link


@dataclass(frozen=True, slots=True)
class Stretch:
    """Checkpoints of one run with nothing branching off between them, oldest first. `depth` is how many forks lie before it; `current`
    says whether it is on the branch that the session stands on; `forked` whether its run was started as a fork."""

    run: str
    checkpoints: Sequence[Checkpoint]
    depth: int
    current: bool
    forked: bool

    @property
    def first(self) -> Checkpoint:
        return self.checkpoints[0]

    @property
    def last(self) -> Checkpoint:
        return self.checkpoints[-1]


def branch_tree(checkpoints: Iterable[Checkpoint], head: str | None) -> list[Stretch]:
    """Stretches in the order they are drawn: the older branch first, each fork below the stretch it leaves."""
    by_id: dict[str, Checkpoint] = {}
    children: dict[str | None, list[Checkpoint]] = {}
    for checkpoint in checkpoints:
        by_id[checkpoint.id] = checkpoint
    for checkpoint in by_id.values():
        children.setdefault(checkpoint.parent if checkpoint.parent in by_id else None, []).append(checkpoint)
    on_branch: set[str] = set()
    at = head
    while at is not None and at in by_id:
        on_branch.add(at)
        at = by_id[at].parent
    stretches: list[Stretch] = []
    todo = [(root, 0, False) for root in reversed(children.get(None, []))]
    while todo:
        checkpoint, depth, forked = todo.pop()
        chain = [checkpoint]
        while len(below := children.get(chain[-1].id, [])) == 1 and below[0].run == checkpoint.run:
            chain.append(below[0])
        stretches.append(Stretch(checkpoint.run, chain, depth, chain[-1].id in on_branch, forked))
        deeper = depth + 1 if len(below) > 1 else depth
        todo.extend((child, deeper if place else depth, place > 0) for place, child in reversed(list(enumerate(below))))
    return stretches


def common(left: Sequence[Link], right: Sequence[Link]) -> int:
    """How many checkpoints two branches share from their root on."""
    shared = 0
    for one, other in zip(left, right, strict=False):
        if one.checkpoint.id != other.checkpoint.id:
            break
        shared += 1
    return shared

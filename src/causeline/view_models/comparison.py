"""Two checkpoints beside each other, from where their branches part.

Law: pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from causeline.causal.view.changes import changed_fields
from causeline.runtime.branch_history import LOG, Branch
from causeline.runtime.records import Checkpoint, Link, Run
from causeline.view_models.branch_tree import common
from causeline.view_models.entries import Entry, conversation
from causeline.view_models.run_side import Side, side

HIDDEN = frozenset({LOG, "calls"})


@dataclass(frozen=True, slots=True)
class Compared:
    """`ancestor` is the last checkpoint both have, None where they share none; `shared` how many they have. `state` lists where the
    channels differ: (path, left value, right value)."""

    ancestor: Checkpoint | None
    shared: int
    entries: tuple[Sequence[Entry], Sequence[Entry]]
    sides: tuple[Side, Side]
    state: Sequence[tuple[str, Any, Any]]


def compare(left: Sequence[Link], right: Sequence[Link], runs: Mapping[str, Run]) -> Compared:
    """What two branches did after they parted; each is given from its root on."""
    shared = common(left, right)
    tails = (left[shared:], right[shared:])
    entries = (conversation(tails[0], shared), conversation(tails[1], shared))
    ancestor = left[shared - 1].checkpoint if shared else None
    return Compared(
        ancestor, shared, entries, (_side(tails[0], runs), _side(tails[1], runs)), changed_fields(channels(left), channels(right))
    )


def channels(links: Sequence[Link]) -> dict[str, Any]:
    """The channels at the end of a branch, without the log and the ledger."""
    return {name: value for name, value in Branch.read(links).channels.items() if name not in HIDDEN}


def _side(links: Sequence[Link], runs: Mapping[str, Run]) -> Side:
    run = runs.get(links[-1].checkpoint.run) if links else None
    if run is None:
        return side(links[-1].checkpoint.run if links else "", "", "", links)
    return side(run.id, run.status, str((run.error or {}).get("message") or ""), links)

"""Branches of sessions that have just been driven here, so that their next run does not read the whole history again.

Law: a branch is found by the id of its head, which pins all that came before; whoever takes one has it alone. What is kept is bounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from causeline.causal import AgentState
from causeline.runtime.branch_history import Branch
from causeline.runtime.feed import Key
from causeline.runtime.program import Program
from causeline.runtime.records import Link, Run

SESSIONS = 64
NODES = 200_000


@dataclass(frozen=True, slots=True)
class _Warm:
    program: Program
    branch: Branch
    state: AgentState
    links: Sequence[Link]
    head: str


class WarmBranches:
    """At most `SESSIONS` branches, the newest ones, with at most `NODES` nodes in all."""

    def __init__(self) -> None:
        self._kept: dict[Key, _Warm] = {}

    def keep(self, run: Run, program: Program, branch: Branch, state: AgentState, links: Sequence[Link] | None) -> None:
        """The run has ended: `branch` is where it began, `links` are its commits and `state` is the log after them."""
        if not links:
            return
        key = (run.owner, run.session)
        self._kept.pop(key, None)
        self._kept[key] = _Warm(program, branch, state, links, links[-1].checkpoint.id)
        while len(self._kept) > SESSIONS or sum(len(warm.state) for warm in self._kept.values()) > NODES:
            del self._kept[next(iter(self._kept))]

    def take(self, run: Run, program: Program, tip: str | None) -> Branch | None:
        """The branch at `tip`, if it is here; it is the caller's from now on."""
        warm = self._kept.pop((run.owner, run.session), None)
        if warm is None or warm.head != tip or warm.program is not program:
            return None
        warm.state.settle()
        warm.branch.grow(warm.state, warm.links)
        return warm.branch

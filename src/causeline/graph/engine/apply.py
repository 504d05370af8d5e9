"""Taking journalled progress into a position again, so that what finished before a crash never runs again.

Law: pure. Rows come in the order they were journalled; a row about a place the position has already left is passed over.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from causeline.graph.documents.document import Embedded, Scatter
from causeline.graph.engine.binding import Program
from causeline.graph.engine.embedded import open_child, resolve, seeds
from causeline.graph.engine.position import Branch, Child, Fan
from causeline.graph.engine.scatter import take
from causeline.graph.engine.step_events import Progress
from causeline.graph.engine.walk import PhaseReturned, returned, step

ARRIVAL = "arrival"
DELTA = "delta"


def placement_writes(delta: Mapping[str, Any], arrival: Any) -> dict[str, Any]:
    """The `writes` of a Progress row about a placement of an embedded document."""
    return {DELTA: delta} if arrival is None else {DELTA: delta, ARRIVAL: arrival}


def item_writes(kept: list[list[Any]], items: tuple[int, ...], failure: Mapping[str, Any] | None) -> dict[str, Any]:
    """The `writes` of a Progress row about a scatter item: what the gathers keep, the items of a batch, why it failed."""
    found: dict[str, Any] = {"kept": kept}
    if len(items) > 1:
        found["items"] = list(items)
    if failure is not None:
        found["failure"] = failure
    return found


def fold(programs: Mapping[str, Program], child: Child, rows: Iterable[Progress]) -> None:
    """Take rows into a document's position and channels. Their paths start at this document's placements."""
    program = programs[child.plan.document.id]
    for row in rows:
        name, *rest = row.path
        branch = next((one for one in child.position.branches if program.sites[one.at].name == name), None)
        if branch is None:
            _phase(child, name, row)
        elif rest:
            branch.folded = True
            _inside(programs, program, child, branch, replace(row, path=tuple(rest)))
        else:
            returned(child.plan, child.position, branch, row.port, row.writes.get(ARRIVAL))
            child.channels.replay(row.writes[DELTA])


def _phase(child: Child, name: str | int, row: Progress) -> None:
    plan, position = child.plan, child.position
    due = plan.pre[position.pre : position.pre + 1] or plan.post[position.post : position.post + 1]
    if due and plan.placements[due[0]].name == name:
        step(plan, position, PhaseReturned(due[0]))
        child.channels.replay(row.writes[DELTA])


def _inside(programs: Mapping[str, Program], program: Program, child: Child, branch: Branch, row: Progress) -> None:
    site = program.sites[branch.at]
    if isinstance(site.placement, Scatter):
        index, *deeper = row.path
        if not isinstance(branch.inner, Fan):
            branch.inner = Fan()
        if not isinstance(index, int) or branch.inner.is_done(index):
            return
        if deeper:
            inside = replace(row, path=tuple(deeper))
            if index in branch.inner.children:
                fold(programs, branch.inner.children[index], [inside])
            else:
                branch.inner.pending.setdefault(index, []).append(inside.to_plain())
            return
        branch.inner.pending.pop(index, None)
        take(branch.inner, site.feeds, index, row.writes.get("items", (index,)), row.port, row.writes["kept"], row.writes.get("failure"))
    elif isinstance(site.placement, Embedded) and site.dag is not None:
        values = child.channels.values
        if not isinstance(branch.inner, Child):
            iri = resolve(site.dag, values, None, site.name)
            branch.inner = open_child(programs[iri], seeds(site.placement.state_input, values))
        fold(programs, branch.inner, [row])

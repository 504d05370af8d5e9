"""Checks a whole store: what ids cover by the ids, the rest by what a run can have written.

Law: it only reads, and goes on after a fault, so that one damaged session hides no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from causeline.causal import verify_export
from causeline.errors import CauselineError
from causeline.runtime import export_import
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Link, Progress, Run, Session
from causeline.runtime.store import Store

PAGE = 1_000


@dataclass(frozen=True, slots=True)
class StoreFault:
    """Something in a store that no run can have written, or that cannot be read: where it is, in words."""

    owner: str
    session: str
    message: str
    run: str | None = None


@dataclass(slots=True)
class StoreReport:
    """What a store holds, and every fault of it. `ok` where there is none."""

    sessions: int = 0
    runs: int = 0
    checkpoints: int = 0
    nodes: int = 0
    events: int = 0
    faults: list[StoreFault] = field(default_factory=list[StoreFault])

    @property
    def ok(self) -> bool:
        """Whether all of it is as runs have written it."""
        return not self.faults


async def every_link(store: Store, owner: str, session: str, head: str | None) -> list[Link]:
    """The checkpoints of all branches of a session, the one of `head` first. Raises Missing for an unknown head."""
    links = list(await store.branch(owner, session, head))
    held = {link.checkpoint.id for link in links}
    checkpoints = await store.rows(Checkpoint, owner=owner, session=session)
    parents = {checkpoint.parent for checkpoint in checkpoints}
    for tip in checkpoints:
        if tip.id not in parents and tip.id not in held:
            fresh = [link for link in await store.branch(owner, session, tip.id) if link.checkpoint.id not in held]
            held.update(link.checkpoint.id for link in fresh)
            links.extend(fresh)
    return links


async def verify_store(store: Store, *, owner: str | None = None) -> StoreReport:
    """Read and check every session of an owner, or of all: each node and checkpoint by its id, each parent, head and frontier, the
    fields of runs, calls, questions and progress, and that the events of every run are there without a gap.

    Raises what reading the list of sessions raises; every other fault is in the report.
    """
    report = StoreReport()
    for session in await store.rows(Session, owner=owner):
        report.sessions += 1
        try:
            await _session(store, session, report)
        except CauselineError as error:
            report.faults.append(StoreFault(session.owner, session.id, str(error)))
    return report


async def _session(store: Store, session: Session, report: StoreReport) -> None:
    runs = await store.rows(Run, owner=session.owner, session=session.id)
    report.runs += len(runs)
    for run in runs:
        try:
            await _events(store, run, report)
        except CauselineError as error:
            report.faults.append(StoreFault(session.owner, session.id, str(error), run.id))
    links = await every_link(store, session.owner, session.id, session.head)
    report.checkpoints += len(links)
    report.nodes += len({node.id for link in links for node in link.nodes})
    await store.rows(Interrupt, owner=session.owner, session=session.id)
    await store.rows(Progress, owner=session.owner, session=session.id)
    calls = await store.rows(CallRow, owner=session.owner, session=session.id)
    report.faults += _heads(session, runs, {link.checkpoint.id for link in links})
    if links:
        bundle = verify_export(export_import.export(session, session.head, links, runs, calls))
        export_import.rows_of(bundle, session.owner, session.updated_at)


def _heads(session: Session, runs: Sequence[Run], known: set[str]) -> list[StoreFault]:
    """Checkpoints that runs name and that are not there."""
    return [
        StoreFault(session.owner, session.id, f"{name} of run {run.id} is {checkpoint}, which is not stored", run.id)
        for run in runs
        for name, checkpoint in (("head", run.head), ("base", run.base), ("at", run.at))
        if checkpoint is not None and checkpoint not in known
    ]


async def _events(store: Store, run: Run, report: StoreReport) -> None:
    """Count the events of a run, and find the first that is missing."""
    last = 0
    while page := await store.events(run.owner, run.id, last, PAGE):
        for event in page:
            if event["seq"] != last + 1:
                report.faults.append(StoreFault(run.owner, run.session, f"event {last + 1} of run {run.id} is missing", run.id))
            last = event["seq"]
        report.events += len(page)
    if last < run.last_event:
        told = f"the events of run {run.id} end with number {last}; its row says {run.last_event}"
        report.faults.append(StoreFault(run.owner, run.session, told, run.id))

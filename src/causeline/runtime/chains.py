"""Chains: a run, the runs that answer its questions one after the other, and the run whose call all of them carry out.

Law: a question is answered where its session's top run waits for it, in one write; from there the answer goes down, to the run that asked,
by runs whose ids follow from the answering run and the call. So whatever dies, each answer is carried out once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causeline.errors import Missing
from causeline.run.ledger import FINISHED, Call, derive
from causeline.runtime.branch_history import add_usage, no_usage
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Run
from causeline.runtime.store import Store


def names_below(call: Call) -> tuple[str, str]:
    """Id and session of the run that carries out a call."""
    return derive("run_", call.opened_in, call.call_id), derive("ses_", call.opened_in, call.call_id)


def answering_name(run_id: str, call: Call) -> str:
    """Id of the run that takes answers which came with the run `run_id` down to this call."""
    return derive("run_", run_id, call.opened_in, call.call_id)


@dataclass(frozen=True, slots=True)
class Level:
    """One run of a chain of agents: the `root` of its answers, and the call it carries out, None at the top."""

    root: Run
    call: Call | None = None


class Chains:
    """Reads one owner's chains."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def row(self, run_id: str) -> Run:
        """Raises Missing."""
        rows = await self._store.rows(Run, owner=self._owner, id=run_id)
        if not rows:
            raise Missing(f"no run {run_id!r}; `causeline runs` lists them", run=run_id)
        return rows[0]

    async def root(self, run: Run) -> Run:
        """The run in which a chain began: of answers, and of runs in which the user said nothing, which ask again what is open."""
        while True:
            if run.parent_run is not None and run.answers:
                run = await self.row(run.parent_run)
                continue
            if run.base is None or run.at is not None or any(message.get("role") == "user" for message in run.input):
                return run
            (before,) = await self._store.rows(Checkpoint, owner=self._owner, session=run.session, id=run.base)
            run = await self.row(before.run)

    async def levels(self, run: Run) -> Sequence[Level]:
        """The agents from the top one down to the one that `run` is of."""
        levels: list[Level] = []
        while True:
            root = await self.root(run)
            if root.parent_run is None or root.parent_call is None:
                return [Level(root), *reversed(levels)]
            calls = await self._store.rows(CallRow, owner=self._owner, run=root.parent_run, id=root.parent_call)
            if not calls:
                raise Missing(f"run {root.parent_run} has no call {root.parent_call!r}", run=root.id)
            levels.append(Level(root, calls[0].call))
            run = await self.row(root.parent_run)

    async def path(self, run: Run) -> Sequence[str]:
        """The names of the agents from the top one to the one that `run` is of."""
        if run.parent_run is None:
            return [run.agent]
        return [level.root.agent for level in await self.levels(run)]

    async def questions(self, run: Run) -> Sequence[Interrupt]:
        """The questions that an interrupted run has left, with what became of them."""
        if run.status != "interrupted" or run.head is None:
            return ()
        rows = await self._store.rows(Interrupt, owner=self._owner, session=run.session)
        return [row for row in rows if row.checkpoint == run.head]

    async def question(self, session: str, name: str) -> Interrupt | None:
        """The question of this id as a session holds it."""
        rows = await self._store.rows(Interrupt, owner=self._owner, session=session, id=name)
        return rows[0] if rows else None

    async def asker(self, question: Interrupt) -> Run:
        """The run of a session at whose end a question of that session is open: the one that asks, or waits for the one that does."""
        (checkpoint,) = await self._store.rows(Checkpoint, owner=self._owner, session=question.session, id=question.checkpoint)
        return await self.row(checkpoint.run)

    async def is_below(self, top: Run, name: str) -> bool:
        """Whether a question of this id is asked by a run below the chain of `top`."""
        for row in await self._store.rows(Interrupt, owner=self._owner, id=name):
            if (await self.levels(await self.row(row.run)))[0].root.id == top.id:
                return True
        return False

    async def next(self, run: Run) -> Run | None:
        """The run that answered questions of this one, None if there is none."""
        names = [row.answered_by for row in await self.questions(run) if row.answered_by is not None]
        return await self.row(names[0]) if names else None

    async def all(self, run: Run) -> Sequence[Run]:
        """The runs of a chain of answers, as they are at this moment, oldest first."""
        found = [await self.root(run)]
        while (then := await self.next(found[-1])) is not None:
            found.append(then)
        return found

    async def usage(self, run: Run) -> dict[str, Any]:
        """Tokens and cost of a whole chain."""
        total = no_usage()
        for member in await self.all(run):
            add_usage(total, member.usage or {})
        return total

    async def active_below(self, run: Run) -> Sequence[Run]:
        """The runs that carry out open calls of this one, of those that have not ended."""
        calls = [*await self._store.rows(CallRow, owner=self._owner, run=run.id)]
        if run.answers and run.parent_run is not None:  # what it carries on is in its own ledger with its first commit only
            calls += await self._store.rows(CallRow, owner=self._owner, run=run.parent_run)
        unfinished = {row.call_id: row.call for row in calls if row.state not in FINISHED}.values()
        found: list[Run] = []
        for name in (name for call in unfinished for name in (names_below(call)[0], answering_name(run.id, call))):
            found += await self._store.rows(Run, owner=self._owner, id=name, status=("queued", "running"))
        return found

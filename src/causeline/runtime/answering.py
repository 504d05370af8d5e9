"""Answers to questions, before anything is written: which questions they are for, and whether they can be carried out.

Law: what is refused leaves every question open.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from causeline.errors import Conflict, Invalid, Missing
from causeline.run.decisions import check_decision
from causeline.runtime.chains import Chains
from causeline.runtime.local_dispatch import LocalDispatch
from causeline.runtime.program import Program
from causeline.runtime.records import CallRow, Interrupt, Run
from causeline.runtime.run_names import given_name
from causeline.runtime.store import Store


class Answering:
    """Answers of one owner."""

    def __init__(self, store: Store, dispatch: LocalDispatch, owner: str) -> None:
        self._store = store
        self._dispatch = dispatch
        self._owner = owner
        self._chains = Chains(store, owner)

    async def asked(self, run_id: str, top: Run, names: Sequence[str]) -> tuple[Sequence[Interrupt], Run]:
        """The questions of these ids where the top run's session holds them open, and the run at whose end that is. Waits for a run that
        has told of one and not yet stopped for it. Raises Missing for one that is not of this chain, Conflict for one that is closed."""
        asked: list[Interrupt] = []
        for name in names:
            row = await self._chains.question(top.session, given_name(name))
            if row is None and await self._chains.is_below(top, given_name(name)):
                for run in await self._chains.all(top):
                    await self._dispatch.ended(self._owner, run.id)
                row = await self._chains.question(top.session, name)
            if row is None:
                raise Missing(f"no interrupt {name!r} of run {run_id}", interrupt=name, run=run_id)
            if row.state != "open":
                raise Conflict(f"interrupt {name} was {row.state} already", code="interrupt_closed", interrupt=name)
            asked.append(row)
        before = await self._chains.asker(asked[0])
        apart = any(row.checkpoint != asked[0].checkpoint for row in asked)
        if apart or (await self._chains.root(before)).id != top.id:
            raise Missing(f"these interrupts are not of run {run_id}", run=run_id)
        return asked, before

    async def check(self, before: Run, program: Program, asked: Sequence[Interrupt], decisions: Mapping[str, Mapping[str, Any]]) -> None:
        """Raises Invalid, before anything is written, for a decision that cannot be carried out."""
        for interrupt in asked:
            check_decision(interrupt.id, interrupt.kind, decisions[interrupt.id])
            asker, its_program = before, program
            if interrupt.parent_call is not None:
                asker = await self._chains.row(interrupt.run)
                its_program = self._dispatch.programs.find(self._owner, asker.agent)
            calls = await self._store.rows(CallRow, owner=self._owner, run=asker.id, id=interrupt.tool_call_id)
            if calls and its_program is not None:
                its_program.check_answer(interrupt.name, interrupt.arguments, decisions[interrupt.id])
        links = await self._store.branch(self._owner, before.session, asked[0].checkpoint)
        document = next((link.checkpoint.delta.get("document") for link in reversed(links) if link.checkpoint.step == 0), None)
        if document != program.document.hash:
            raise Invalid(
                f"the graph of {program.name!r} has changed since the question was asked, so there is no place to go on from; "
                "answer with the agent that asked, or say something new",
                code="document_changed",
            )

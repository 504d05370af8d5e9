"""The programs a process knows: those given when it opened, those a caller came with, those built from what runs have stored.

A program brings those along that its tools run as runs of their own.
Law: what one owner came with is never run for another one; what was given at the opening is there for all.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from causeline.errors import CauselineError, Invalid, Missing
from causeline.runtime.program import Program
from causeline.runtime.records import Run

Build = Callable[[Mapping[str, Any]], Program]


class Programs:
    """Programs by name. `build` makes one of what a run has stored; such a one is closed with this."""

    def __init__(self, programs: Sequence[Program], build: Build | None) -> None:
        self.build = build
        self._for_all: dict[str, Program] = {}
        for program in programs:
            if program.name in self._for_all:
                raise Invalid(f"two agents are called {program.name!r}; a run finds its agent by name, so each needs one of its own")
            self._for_all[program.name] = program
        self._given = frozenset(self._for_all)
        for program in programs:
            self._take_in(self._for_all, program.name, program)
        self._of_owner: dict[str, dict[str, Program]] = {}
        self._built: list[Any] = []
        self._kept_open: dict[str, Program] = {}

    def given_names(self) -> frozenset[str]:
        """Names of the programs that were given at the opening."""
        return self._given

    def named(self, owner: str, agent: Program | str, *, name: str | None = None) -> Program:
        """The program an owner names, or comes with. Raises Missing for an unknown name, Invalid for what is no program."""
        if not isinstance(agent, str):
            if not hasattr(agent, "document") or not hasattr(agent, "services"):
                raise Invalid(f"an agent is an Agent, a GraphProgram or the name of one given to open(), not {type(agent).__name__}")
            known = self._of_owner.setdefault(owner, {})
            known[name or agent.name] = agent
            self._take_in(known, name or agent.name, agent)
            return agent
        program = self.find(owner, agent)
        if program is None:
            known = {*self._for_all, *self._of_owner.get(owner, {})}
            raise Missing(f"no agent {agent!r}; known: {', '.join(sorted(known)) or 'none'}", agent=agent)
        return program

    def find(self, owner: str, name: str) -> Program | None:
        return self._of_owner.get(owner, {}).get(name) or self._for_all.get(name)

    def name_of(self, owner: str, program: Program, *, above: str) -> str:
        """The name under which a program is known that a run of the agent `above` starts below itself; it is taken in if it is new."""
        for known in (self._of_owner.get(owner, {}), self._for_all):
            for name, other in known.items():
                if other is program:
                    return name
        name = program.name if self.find(owner, program.name) is None else f"{above}/{program.name}"
        self._of_owner.setdefault(owner, {})[name] = program
        return name

    def of(self, run: Run) -> Program:
        """The program of a stored run: the one of that name, else built from what the run has stored. Raises Missing, and what building
        it raises."""
        program = self.find(run.owner, run.agent)
        if program is None and run.manifest is not None and self.build is not None:
            program = self.named(run.owner, self.build(run.manifest), name=run.agent)
            if hasattr(program, "aclose"):
                self._built.append(program)
        if program is None:
            raise Missing(
                f"run {run.id} is of agent {run.agent!r}, whose tools are not in files; give the agent", run=run.id, agent=run.agent
            )
        return program

    def knows(self, run: Run) -> bool:
        """Whether a run's program is here, or can be built. If not the run is left for a process that knows it."""
        try:
            self.of(run)
        except CauselineError:
            return False
        return True

    async def keep_open(self, program: Program) -> None:
        """What a program given at the opening needs from outside stays open from its first run on. Raises what opening it raises."""
        if program.name in self._given and self._for_all.get(program.name) is program and program.name not in self._kept_open:
            self._kept_open[program.name] = program
            try:
                await program.open()
            except BaseException:
                del self._kept_open[program.name]
                raise

    async def close(self) -> None:
        """Close those that were built here, and what was kept open."""
        for program in self._kept_open.values():
            await program.close()
        self._kept_open.clear()
        for program in self._built:
            await program.aclose()
        self._built.clear()

    def _take_in(self, known: dict[str, Program], name: str, program: Program) -> None:
        """The programs that a program's tools run, and theirs, under their own names; where one is somebody else's, under that of the
        tool below the name of the program, so that a run finds again what it is a run of."""
        for tool, below in program.programs().items():
            if any(other is below for other in (*known.values(), *self._for_all.values())):
                continue
            taken = below.name in known or below.name in self._for_all
            own = f"{name}/{tool}" if taken else below.name
            known[own] = below
            self._take_in(known, own, below)

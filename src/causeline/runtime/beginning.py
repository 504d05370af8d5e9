"""How a run begins in a process: from nothing, where a conversation stood, from a fork, by answers, or as another process left it.

Law: everything that differs between these is in the table below, and nowhere else. Reads nothing and decides once.

| | `Fresh` | `Continues` | `Fork` | `Answers` | `TakesOver` |
|---|---|---|---|---|---|
| the run has | no history | the session's head | `at` | `answers` | a commit of its own |
| it reads the branch of | nothing | its base | its base | the checkpoint that asked | its own head |
| it stands (`enters`) | at the entrypoint | there too | there too, unless it goes on in place | where it asked | where it stopped |
| open calls are (`calls`) | none | as they were left | opened anew | as they were left | its own rows |
| questions it knows (`asks`) | none | those open at its base | none | those open where it asked | those where it began |
| questions it holds open | none | none | none | those it knows | its own |
| pauses of the checkpoint count (`paused`) | no | no | no | yes | yes |
| input that nobody took in comes first (`hears`) | yes | yes | no | no | no |

A process may also take a run over that has made no commit yet. Such a run begins as it would have begun; what its first process left of
that step (events, call rows, pieces of the step) is adopted on top, as for every run with `epoch > 1`.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from causeline.runtime.records import Checkpoint, Run

CallsOpen = Literal["none", "as left", "anew", "own"]


@dataclass(frozen=True, slots=True)
class Fresh:
    """The first run of a session."""

    enters: ClassVar[bool] = False
    calls: ClassVar[CallsOpen] = "none"
    asks: ClassVar[str | None] = None
    paused: ClassVar[bool] = False
    hears: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Continues:
    """A further run of a conversation, from its head `tip`."""

    tip: Checkpoint
    enters: ClassVar[bool] = False
    calls: ClassVar[CallsOpen] = "as left"
    paused: ClassVar[bool] = False
    hears: ClassVar[bool] = True

    @property
    def asks(self) -> str | None:
        return self.tip.id


@dataclass(frozen=True, slots=True)
class Fork:
    """A run from any checkpoint `tip`. `enters` says whether it goes on where that one stands."""

    tip: Checkpoint
    enters: bool
    calls: ClassVar[CallsOpen] = "anew"
    asks: ClassVar[str | None] = None
    paused: ClassVar[bool] = False
    hears: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Answers:
    """A run that enters the step which paused at `tip`, with decisions."""

    tip: Checkpoint
    enters: ClassVar[bool] = True
    calls: ClassVar[CallsOpen] = "as left"
    paused: ClassVar[bool] = True
    hears: ClassVar[bool] = False

    @property
    def asks(self) -> str | None:
        return self.tip.id


@dataclass(frozen=True, slots=True)
class TakesOver:
    """A run that another process left after its commit `tip`. `asks` is where it began, None where it knows no questions."""

    tip: Checkpoint
    asks: str | None
    enters: ClassVar[bool] = True
    calls: ClassVar[CallsOpen] = "own"
    paused: ClassVar[bool] = True
    hears: ClassVar[bool] = False


Beginning = Fresh | Continues | Fork | Answers | TakesOver


def beginning_of(run: Run, tip: Checkpoint | None, *, asked_at: str | None = None, fresh: bool = True) -> Beginning:
    """How `run` begins, `tip` being the checkpoint it reads from. `asked_at` is the checkpoint of the questions it answers; `fresh`
    says that a fork of its program starts at the entrypoint."""
    if tip is None:
        return Fresh()
    if run.head is not None:
        return TakesOver(tip, asked_at if run.answers else run.base if run.at is None else None)
    if run.answers:
        return Answers(tip)
    if run.at is not None:
        return Fork(tip, enters=not fresh)
    return Continues(tip)

"""Kill a real process before and after each durable write of a scenario, go on in another one, and compare.

Law: nothing is assumed about the code under test but that its writes go through the Store. A child process is a
fork of this one, is ended by SIGKILL, and leaves only what it wrote to disk.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from causeline.adapters.stores import open_store
from causeline.assemble import agent_of
from causeline.memory import Item, MemoryStore
from causeline.runtime.branch_history import CALLS, LOG
from causeline.runtime.records import CallRow
from causeline.runtime.runtime import Runtime
from causeline.testing.faults import FaultyStore, Kill, When
from causeline.testing.killpoints.scenarios import MEMORIES, NOTES, SESSION, Scenario, effects_in

CHILD_SECONDS = 60
Url = Callable[[Path], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is left when a scenario has ended: the head, the channels, what was said, what is kept in memory and recalled of the runs, each
    effect, calls of unknown outcome, and the writes it took."""

    head: str | None
    channels: Mapping[str, Any]
    messages: Sequence[Any]
    memories: Sequence[Any]
    recalled: str
    effects: Sequence[str]
    unknown: int
    writes: int


@dataclass(slots=True)
class Tally:
    """The outcome of one scenario's sweep."""

    scenario: str
    points: int = 0
    differing: int = 0
    repeated: int = 0
    lost: int = 0
    unknown: int = 0
    failures: list[str] | None = None

    @property
    def clean(self) -> bool:
        return not (self.differing or self.repeated or self.lost or self.failures)

    def __str__(self) -> str:
        return (
            f"{self.scenario}: {self.points} points, {self.differing} differing heads, {self.repeated} repeated effects, "
            f"{self.lost} lost effects, {self.unknown} unknown outcomes surfaced"
        )


def sweep(
    scenario: Scenario,
    url: Url = lambda folder: f"sqlite:///{folder}/store.db",
    *,
    every: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Tally:
    """Kill at every `every`-th point of a scenario. Raises nothing for a bad outcome: read the tally."""
    tally = Tally(scenario.name, failures=[])
    with tempfile.TemporaryDirectory(prefix="causeline-sweep-") as folder:
        calm = _undisturbed(scenario, Path(folder), url)
        points = [(number, when) for number in range(1, calm.writes + 1) for when in get_args(When)][::every]
        for index, (number, when) in enumerate(points):
            place = Path(folder) / f"{number}-{when}"
            place.mkdir()
            if progress is not None:
                progress(index, len(points))
            _one(scenario, place, url, Kill(number, when), calm, tally)
    return tally


def _undisturbed(scenario: Scenario, folder: Path, url: Url) -> Seen:
    place = folder / "calm"
    place.mkdir()
    code = _child(scenario, place, url, None)
    if code != 0:
        raise RuntimeError(f"{scenario.name} does not run undisturbed:\n{(place / 'failure').read_text(encoding='utf-8')}")
    return _read(place)


def _one(scenario: Scenario, place: Path, url: Url, kill: Kill, calm: Seen, tally: Tally) -> None:
    where = f"{scenario.name}, killed {kill.when} write {kill.number}"
    assert tally.failures is not None
    code = _child(scenario, place, url, kill)
    if code not in (0, -signal.SIGKILL):
        tally.failures.append(f"{where}: failed on its own\n{(place / 'failure').read_text(encoding='utf-8')}")
        return
    if code == 0:
        # Events are flushed by time, so one run may take a write less than another; then there was nothing to kill.
        _compare(scenario, _read(place), calm, where, tally)
        return
    tally.points += 1
    if _child(scenario, place, url, None) != 0:
        tally.failures.append(f"{where}: going on failed\n{(place / 'failure').read_text(encoding='utf-8')}")
        return
    _compare(scenario, _read(place), calm, where, tally)


def _compare(scenario: Scenario, seen: Seen, calm: Seen, where: str, tally: Tally) -> None:
    assert tally.failures is not None
    repeated = [line for line, count in Counter(seen.effects).items() if count > 1]
    tally.repeated += len(repeated)
    tally.unknown += seen.unknown
    if repeated:
        tally.failures.append(f"{where}: ran twice: {', '.join(repeated)}")
    if seen.unknown:
        return  # the model was told something else than in the calm run, so the logs rightly part
    found, wanted = (seen.channels, calm.channels) if scenario.branches else (seen.head, calm.head)
    if found != wanted or (not scenario.branches and seen.messages != calm.messages):
        tally.differing += 1
        tally.failures.append(f"{where}: {'channels' if scenario.branches else 'head'} {found} instead of {wanted}")
    if not scenario.branches and (seen.memories, seen.recalled) != (calm.memories, calm.recalled):
        tally.differing += 1
        tally.failures.append(f"{where}: kept {seen.memories} and {seen.recalled} instead of {calm.memories} and {calm.recalled}")
    if sorted(seen.effects) != sorted(calm.effects):
        tally.lost += 1
        tally.failures.append(f"{where}: effects {seen.effects} instead of {calm.effects}")


def _child(scenario: Scenario, place: Path, url: Url, kill: Kill | None) -> int:
    """Run the scenario in a process of its own; its exit code, negative for a signal."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(CHILD_SECONDS)
            asyncio.run(_play(scenario, place, url, kill))
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not return into its parent's code
            (place / "failure").write_text(traceback.format_exc(), encoding="utf-8")
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def _play(scenario: Scenario, place: Path, url: Url, kill: Kill | None) -> None:
    store = FaultyStore(open_store(url(place)), kill)
    agents = scenario.agents(place / "effects")
    owner = f"sweep-{place.parent.name}-{place.name}"  # several points may share a database
    async with Runtime(store, owner=owner, programs=agents, build=agent_of) as runtime:
        await scenario.act(runtime, agents)
        seen = await _look(runtime, store, place / "effects")
    (place / "seen").write_text(json.dumps(seen), encoding="utf-8")


def _unnamed(value: Any) -> Any:
    """Plain JSON, with messages that have no ids."""
    if isinstance(value, list):
        return [_unnamed(inner) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {name: "" if name == "id" and "role" in fields else _unnamed(inner) for name, inner in fields.items()}


async def _look(runtime: Runtime, store: "FaultyStore", effects: Path) -> dict[str, Any]:
    head = next(one.head for one in await runtime.sessions() if one.id == SESSION)
    rows = await store.rows(CallRow, owner=runtime.owner)
    return {
        "head": head,
        # Messages without their ids: one that a dead process had begun is spoken again under another id.
        "channels": _unnamed({name: value for name, value in (await runtime.branch(SESSION)).channels.items() if name not in (LOG, CALLS)}),
        "messages": _unnamed([one.to_json() for one in await runtime.messages(SESSION)]),
        "memories": [[item.key, item.text, dict(item.source or {})] for item in await _memories(runtime, effects.with_name(MEMORIES))],
        "recalled": (await runtime.recall(query="", k=100, max_tokens=100_000)).text,
        "effects": effects_in(effects),
        "unknown": sum(row.call.state == "unknown" for row in rows),
        "writes": store.writes,
    }


async def _memories(runtime: Runtime, elsewhere: Path) -> Sequence[Item]:
    """What long-term memory has, in the order of the keys: in the store of the sessions, or in a file beside it."""
    found = [*await runtime.memory().list((NOTES,))]
    if _is_there(elsewhere):
        async with MemoryStore.open(f"sqlite:///{elsewhere}", owner=runtime.owner) as memory:
            found += await memory.list((NOTES,))
    return found


def _is_there(file: Path) -> bool:
    return file.exists()


def _read(place: Path) -> Seen:
    return Seen(**json.loads((place / "seen").read_text(encoding="utf-8")))

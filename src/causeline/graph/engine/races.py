"""Override channels that several branches write without knowing of each other: their writes count in declaration order of the placements.

Law: pure. What a channel comes to depends on what the branches wrote, never on which of them was quicker. A branch knows of what
was written by branches it has met; of one that knows of the other, the later write counts.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

from causeline.graph.engine.channels import PLACE, Change, Changes, Channels, folded
from causeline.graph.engine.state_paths import MISSING


@dataclass(slots=True)
class Writer:
    """What one branch, and those it has met, wrote to a channel: from the last write that replaces everything on. `at` is the placement
    that wrote last."""

    lineage: int
    at: int
    changes: list[Change]


@dataclass(slots=True)
class Race:
    """One channel: its value before any of this, and the writers in the order they count."""

    base: Any
    writers: list[Writer] = field(default_factory=list[Writer])


Races = dict[str, Race]


def settled(
    races: Races, lineage: int, at: int, changes: Changes, channels: Channels, ordered: Container[str], everyone: int
) -> tuple[Changes, dict[str, Race | None]]:
    """Changes of a visit as they count, and the races they leave (None: the race is over). Channels in `ordered` have another reducer than
    override and are let through. `everyone` is the lineage of all branches together."""
    counted: Changes = {}
    left: dict[str, Race | None] = {}
    for channel, change in changes.items():
        if channel in ordered:
            counted[channel] = change
            continue
        before = races.get(channel)
        race, counted[channel] = _joined(before, lineage, at, channel, change, channels)
        if len(race.writers) == 1 and race.writers[0].lineage == everyone:
            if before is not None:
                left[channel] = None
        else:
            left[channel] = race
    return counted, left


def _joined(before: Race | None, lineage: int, at: int, channel: str, change: Change, channels: Channels) -> tuple[Race, Change]:
    """The race after one more write, and the change that makes the channel what the race comes to."""
    if before is None:
        return Race(channels.lend(channel), [Writer(lineage, at, [change])]), change
    known = [writer for writer in before.writers if writer.lineage & lineage]
    others = [writer for writer in before.writers if not writer.lineage & lineage]
    writer = Writer(lineage, at, [change] if change[0] == "override" else [*(one for writer in known for one in writer.changes), change])
    race = Race(before.base, sorted([*others, writer], key=_order))
    if _adds(before.writers, known, others, writer, race.writers):
        return race, change
    value = None if race.base is MISSING else race.base
    for one in race.writers:
        for each in one.changes:
            value = folded(value, each, channel)
    return race, ("override", value)


def _adds(before: list[Writer], known: list[Writer], others: list[Writer], writer: Writer, after: list[Writer]) -> bool:
    """True if the new change can be made on top of what is there: no writer it touches comes after it, or changes places with it."""
    first = min((before.index(one) for one in known), default=len(before))
    place = after.index(writer)
    return all((before.index(one) < first and after.index(one) < place) or not _touch(one.changes, writer.changes) for one in others)


def _touch(some: list[Change], others: list[Change]) -> bool:
    """True if the order of the two could matter: one of them writes where the other writes, or around it."""
    paths = [path for change in some for path in _paths(change)]
    return any(_nested(path, other) for change in others for other in _paths(change) for path in paths)


def _paths(change: Change) -> list[list[str]]:
    return [part[0].split(".") for part in change[1]] if change[0] == PLACE else [[]]


def _nested(one: list[str], other: list[str]) -> bool:
    length = min(len(one), len(other))
    return one[:length] == other[:length]


def _order(writer: Writer) -> tuple[int, int]:
    """Declaration order of the placements, and where two branches wrote at the same one that of their entrypoints."""
    return writer.at, writer.lineage & -writer.lineage

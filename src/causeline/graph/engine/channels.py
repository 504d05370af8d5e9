"""Channels: the named values of one running document, each with a rule for how a write meets what is there.

Law: pure. A write costs O(size of the write) for `override`, `append`, `keep` and `merge`, never O(size of the channel);
a value handed in from outside is copied before it is first changed in place. What a visit changes is first said as `Changes`, which
is what is stored, and taken by one method, live and when it is read back.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from causeline.errors import Invalid
from causeline.graph.engine.plain_values import plain
from causeline.graph.engine.state_paths import MISSING, How, put, read

Combine = Callable[[Any, Any], Any]
"""`(old, write) -> new`; `old` is None where the channel is empty. It may change `old` and return it."""


@dataclass(frozen=True, slots=True)
class Reducer:
    """How writes of a channel combine. `name` stands in stored deltas. With `stored=False` the channel is left out of
    deltas and saved state: whoever registered it keeps it and hands it in again on resume."""

    name: str
    apply: Combine
    stored: bool = True


def _override(_old: Any, write: Any) -> Any:
    return write


def _append(old: Any, write: Any) -> Any:
    if old is None:
        return list(write)
    old.extend(write)
    return old


def _keep(old: Any, write: Any) -> Any:
    return write if old is None else old


def _merge(old: Any, write: Any) -> Any:
    if old is None:
        return dict(write)
    old.update(write)
    return old


OVERRIDE = Reducer("override", _override)
APPEND = Reducer("append", _append)
KEEP = Reducer("keep", _keep)
MERGE = Reducer("merge", _merge)
BUILT_IN: Mapping[str, Reducer] = MappingProxyType({one.name: one for one in (OVERRIDE, APPEND, KEEP, MERGE)})
PLACE = "place"
"""The op of a change inside a channel: its value is [[path inside, how, value], ...]."""
_IN_PLACE: Mapping[str, type] = {"append": list, "merge": dict}

Change = tuple[str, Any]
"""An op (a reducer's name, or `place`) and its value."""
Changes = dict[str, Change]
"""What one visit changes: channel -> change."""
Delta = dict[str, dict[str, Any]]
"""The stored form: channel -> `{"op": name, "value": write}`."""
Placing = Iterable[tuple[str, How, Any]]
"""Values for dotted paths: (path, how, value)."""
NOWHERE: Placing = ()


def as_reducer(channel: str, given: "str | Combine | Reducer") -> Reducer:
    """A registered reducer from its name, a function or a record. Raises Invalid for an unknown name."""
    if isinstance(given, Reducer):
        return given
    if isinstance(given, str):
        if given not in BUILT_IN:
            raise Invalid(
                f"channel {channel}: unknown reducer {given!r}; known are {', '.join(BUILT_IN)}, or give a function",
                code="unknown_reducer",
                channel=channel,
            )
        return BUILT_IN[given]
    name = getattr(given, "__name__", "custom")
    if name in BUILT_IN or name == PLACE:
        raise Invalid(
            f"channel {channel}: a function named {name!r} would be taken for the built-in reducer; give Reducer(another name, function)",
            code="unknown_reducer",
            channel=channel,
        )
    return Reducer(name, given)


class Channels:
    """Values by channel name. `view` is the read-only mapping nodes see; it is live.

    A channel without a reducer is `override`. `append` and `merge` change their value in place, after copying it once
    if it came from outside or was lent.
    """

    __slots__ = ("_owned", "reducers", "values", "view")

    def __init__(self, values: Mapping[str, Any] | None = None, reducers: Mapping[str, Reducer] | None = None) -> None:
        self.values: dict[str, Any] = {} if values is None else dict(values)
        self.reducers: Mapping[str, Reducer] = {} if reducers is None else reducers
        self.view: Mapping[str, Any] = MappingProxyType(self.values)
        self._owned: set[str] = set()

    # what a visit changes

    def changes(self, writes: Mapping[str, Any], placing: Placing = NOWHERE) -> Changes:
        """What writes come to, given what is there now. `placing` comes before `writes`."""
        changes: Changes = {}
        for path, how, value in placing:
            self._place(changes, path, how, value)
        if not self.reducers:
            for channel, value in writes.items():
                changes[channel] = ("override", value)
            return changes
        for channel, value in writes.items():
            changes[channel] = (self.reducers.get(channel, OVERRIDE).name, value)
        return changes

    def _place(self, changes: Changes, path: str, how: How, value: Any) -> None:
        root, *rest = [path] if path in self.values or path in changes else path.split(".")
        op = self.reducers.get(root, OVERRIDE).name
        there = self.values.get(root)
        if not rest:
            if op == "override" and how == "append" and (there is None or isinstance(there, list)):
                op = "append"
            changes[root] = (op, value)
        elif op == "keep" or op not in BUILT_IN:  # such a channel takes whole values only
            changes[root] = (op, put(MISSING if op == "keep" else there, rest, how, value, path))
        else:
            part = [".".join(rest), how, value]
            before = changes.get(root)
            if before is None or before[0] == PLACE:
                changes[root] = (PLACE, [*(before[1] if before else ()), part])
            else:
                changes[root] = ("override", folded(folded(there, before, root), (PLACE, [part]), root))

    def prepared(self, changes: Changes) -> Mapping[str, Any]:
        """The new values of what can go wrong: changes inside a channel, and reducers of the caller's own on stored channels. Raises what
        they raise, and Invalid where a write does not fit its reducer, before anything is taken."""
        ready: dict[str, Any] = {}
        for channel, change in changes.items():
            op, value = change
            if op == "override":
                continue
            if op in _IN_PLACE:
                _fits(channel, _IN_PLACE[op], value, self.values.get(channel))
            elif op == PLACE:
                ready[channel] = folded(self.values.get(channel), change, channel)
            elif op != "keep":
                reducer = self.reducers.get(channel) or self.reducer(channel, op)
                if reducer.stored:
                    ready[channel] = reducer.apply(self.values.get(channel), value)
        return ready

    def take(self, changes: Changes, ready: Mapping[str, Any] | None = None) -> None:
        """Make changes count; `ready` is what `prepared` said of them."""
        for channel, change in changes.items():
            if ready and channel in ready:
                self.values[channel] = ready[channel]
                self._owned.discard(channel)
            elif change[0] == "override":
                self.values[channel] = change[1]
                self._owned.discard(channel)
            else:
                self._combine(channel, change)

    def apply(self, writes: Mapping[str, Any]) -> None:
        """Take the writes of one visit, all or none. Raises Invalid where a write does not fit its reducer."""
        if not self.reducers:
            self.values.update(writes)
            if self._owned:
                self._owned.difference_update(writes)
            return
        changes = self.changes(writes)
        self.take(changes, self.prepared(changes))

    def replay(self, delta: Mapping[str, Mapping[str, Any]]) -> None:
        """Do again what a stored delta says: its op where that is built in, else the channel's own reducer."""
        self.take(changes_of(delta))

    def reducer(self, channel: str, op: str) -> Reducer:
        """The rule behind an op. Raises Invalid for one that is not registered here."""
        reducer = BUILT_IN.get(op) or self.reducers.get(channel)
        if reducer is None:
            raise Invalid(
                f"channel {channel} was written by the reducer {op!r}, which is not registered here; "
                "register the document with the same reducers",
                code="unknown_reducer",
                channel=channel,
            )
        return reducer

    def _combine(self, channel: str, change: Change) -> None:
        op, value = change
        old = self.values.get(channel)
        if op == PLACE:
            self.values[channel] = folded(old, change, channel)
            self._owned.discard(channel)
            return
        kind = _IN_PLACE.get(op)
        if kind is not None:
            _fits(channel, kind, value, old)
            if old is not None and channel not in self._owned:
                old = kind(old)
            self._owned.add(channel)
        self.values[channel] = self.reducer(channel, op).apply(old, value)

    # handing values out

    def lend(self, channel: str) -> Any:
        """A channel's value for somebody who keeps it: it is not changed in place any more. MISSING where there is none."""
        self._owned.discard(channel)
        return self.values.get(channel, MISSING)

    def delta(self, changes: Changes) -> Delta:
        """The stored form of changes; channels with `stored=False` are left out."""
        reducers = self.reducers
        return {
            channel: {"op": op, "value": value}
            for channel, (op, value) in changes.items()
            if channel not in reducers or reducers[channel].stored
        }

    def to_plain(self) -> dict[str, Any]:
        """A deep copy as plain JSON, without channels that are not stored. Raises NotPlain."""
        reducers = self.reducers
        return {
            channel: plain(value, channel) for channel, value in self.values.items() if channel not in reducers or reducers[channel].stored
        }


def changes_of(delta: Mapping[str, Mapping[str, Any]]) -> Changes:
    """The changes a stored delta speaks of."""
    return {channel: (change["op"], change["value"]) for channel, change in delta.items()}


def folded(old: Any, change: Change, channel: str) -> Any:
    """What a value comes to by a change with a built-in op, as a new value; `old` is None where there is nothing.
    Raises BadPath, Invalid."""
    op, value = change
    if op == PLACE:
        for path, how, part in value:
            old = put(old, path.split("."), how, part, f"{channel}.{path}")
        return old
    kind = _IN_PLACE.get(op)
    if kind is not None:
        _fits(channel, kind, value, old)
        old = None if old is None else kind(old)
    return BUILT_IN[op].apply(old, value)


def _fits(channel: str, kind: type, write: Any, old: Any) -> None:
    if not isinstance(write, kind):
        raise Invalid(f"channel {channel} takes a {kind.__name__}, not a {type(write).__name__}", code="bad_write", channel=channel)
    if old is not None and not isinstance(old, kind):
        raise Invalid(
            f"channel {channel} holds a {type(old).__name__}, to which a {kind.__name__} cannot be added", code="bad_write", channel=channel
        )


class Preview(Mapping[str, Any]):
    """The state as it will be once changes are taken, without taking them. A channel is computed when it is read."""

    __slots__ = ("_changes", "_channels")

    def __init__(self, channels: Channels, changes: Changes) -> None:
        self._channels = channels
        self._changes = changes

    def __getitem__(self, channel: str) -> Any:
        change = self._changes.get(channel)
        if change is None:
            return self._channels.values[channel]
        op, value = change
        if op == "override":
            return value
        old = self._channels.values.get(channel)
        if op == PLACE or op in BUILT_IN:
            return folded(old, change, channel)
        return self._channels.reducer(channel, op).apply(deepcopy(old), value)

    def __iter__(self) -> Iterator[str]:
        yield from self._channels.values
        yield from (channel for channel in self._changes if channel not in self._channels.values)

    def __len__(self) -> int:
        return len(self._channels.values.keys() | self._changes.keys())


def replay(channels: Channels, delta: Mapping[str, Mapping[str, Any]]) -> Channels:
    """Take a stored delta into `channels` and return them."""
    channels.replay(delta)
    return channels


def lent(channels: Channels, path: str) -> Any:
    """The value at a dotted path for somebody who keeps it, or MISSING."""
    channels.lend(path if path in channels.values else path.partition(".")[0])
    return read(channels.values, path)

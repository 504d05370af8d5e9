"""Channels: the named values of one running document, each with a rule for how a write meets what is there.

Law: pure. A write costs O(size of the write) for `override`, `append`, `keep` and `merge`, never O(size of the channel);
a value handed in from outside is copied before it is first changed in place.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from causeline.errors import Invalid

Combine = Callable[[Any, Any], Any]
"""`(old, write) -> new`; `old` is None where the channel is empty. It may change `old` and return it."""


class NotPlain(Invalid):
    """A value that must be stored is not plain JSON; `path` leads to it."""

    code = "not_plain"

    def __init__(self, path: str, found: str) -> None:
        super().__init__(
            f"{path} holds a {found}, which is not plain JSON; write plain values, or register the channel with Reducer(..., stored=False)",
            path=path,
        )
        self.path = path


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
_IN_PLACE: Mapping[str, type] = {"append": list, "merge": dict}

Delta = dict[str, dict[str, Any]]
"""What one step changed: channel -> `{"op": reducer name, "value": write}`."""


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
    if name in BUILT_IN:
        raise Invalid(
            f"channel {channel}: a function named {name!r} would be taken for the built-in reducer; give Reducer(another name, function)",
            code="unknown_reducer",
            channel=channel,
        )
    return Reducer(name, given)


class Channels:
    """Values by channel name. `view` is the read-only mapping nodes see; it is live.

    A channel without a reducer is `override`. `append` and `merge` change their value in place, after copying it once
    if it came from outside.
    """

    __slots__ = ("_owned", "reducers", "values", "view")

    def __init__(self, values: Mapping[str, Any] | None = None, reducers: Mapping[str, Reducer] | None = None) -> None:
        self.values: dict[str, Any] = {} if values is None else dict(values)
        self.reducers: Mapping[str, Reducer] = {} if reducers is None else reducers
        self.view: Mapping[str, Any] = MappingProxyType(self.values)
        self._owned: set[str] = set()

    def reduced(self, writes: Mapping[str, Any]) -> Mapping[str, Any]:
        """What stored channels with a reducer of the caller's own come to; raises what that raises, with nothing taken."""
        found: dict[str, Any] = {}
        for channel, write in writes.items() if self.reducers else ():
            reducer = self.reducers.get(channel, OVERRIDE)
            if reducer.stored and reducer.name not in BUILT_IN:
                found[channel] = reducer.apply(self.values.get(channel), write)
        return found

    def apply(self, writes: Mapping[str, Any], extended: Container[str] = (), reduced: Mapping[str, Any] | None = None) -> None:
        """Take the writes of one visit, all or none. Override channels in `extended` hold a list that is added to; `reduced` is what
        that method said of these writes. Raises Invalid where a write does not fit its reducer."""
        if not self.reducers and not extended:
            self.values.update(writes)
            if self._owned:
                self._owned.difference_update(writes)
            return
        self.check(writes, extended)
        ready = self.reduced(writes) if reduced is None else reduced
        for channel, write in writes.items():
            reducer = self.reducer(channel, extended)
            if reducer is OVERRIDE or channel in ready:
                self.values[channel] = ready.get(channel, write)
                self._owned.discard(channel)
            else:
                self._reduce(channel, reducer, write)

    def reducer(self, channel: str, extended: Container[str] = ()) -> Reducer:
        """The rule by which a write of this channel is taken."""
        reducer = self.reducers.get(channel, OVERRIDE)
        return APPEND if reducer is OVERRIDE and channel in extended else reducer

    def check(self, writes: Mapping[str, Any], extended: Container[str] = ()) -> None:
        """Raise Invalid where a write does not fit its reducer, before anything is changed."""
        for channel, write in writes.items() if self.reducers or extended else ():
            kind = _IN_PLACE.get(self.reducer(channel, extended).name)
            if kind is not None:
                _fits(channel, kind, write, self.values.get(channel))

    def replay(self, delta: Mapping[str, Mapping[str, Any]]) -> None:
        """Do again what a stored delta says: its op where that is built in, else the channel's own reducer."""
        for channel, change in delta.items():
            op = change["op"]
            reducer = BUILT_IN.get(op) or self.reducers.get(channel)
            if reducer is None:
                raise Invalid(
                    f"channel {channel} was written by the reducer {op!r}, which is not registered here; "
                    "register the document with the same reducers",
                    code="unknown_reducer",
                    channel=channel,
                )
            if reducer is OVERRIDE:
                self.values[channel] = change["value"]
                self._owned.discard(channel)
            else:
                self._reduce(channel, reducer, change["value"])

    def delta(self, writes: Mapping[str, Any], extended: Container[str] = ()) -> Delta:
        """The stored form of writes; channels with `stored=False` are left out."""
        found: Delta = {}
        for channel, write in writes.items():
            reducer = self.reducer(channel, extended)
            if reducer.stored:
                found[channel] = {"op": reducer.name, "value": write}
        return found

    def _reduce(self, channel: str, reducer: Reducer, write: Any) -> None:
        old = self.values.get(channel)
        kind = _IN_PLACE.get(reducer.name)
        if kind is not None:
            _fits(channel, kind, write, old)
            if old is not None and channel not in self._owned:
                old = kind(old)
            self._owned.add(channel)
        self.values[channel] = reducer.apply(old, write)

    def to_plain(self) -> dict[str, Any]:
        """A deep copy as plain JSON, without channels that are not stored. Raises NotPlain."""
        reducers = self.reducers
        return {
            channel: plain(value, channel) for channel, value in self.values.items() if channel not in reducers or reducers[channel].stored
        }


def _fits(channel: str, kind: type, write: Any, old: Any) -> None:
    if not isinstance(write, kind):
        raise Invalid(f"channel {channel} takes a {kind.__name__}, not a {type(write).__name__}", code="bad_write", channel=channel)
    if old is not None and not isinstance(old, kind):
        raise Invalid(
            f"channel {channel} holds a {type(old).__name__}, to which a {kind.__name__} cannot be added", code="bad_write", channel=channel
        )


class Preview(Mapping[str, Any]):
    """The state as it will be once writes are taken, without taking them. A channel is computed when it is read."""

    __slots__ = ("_channels", "_extended", "_writes")

    def __init__(self, channels: Channels, writes: Mapping[str, Any], extended: Container[str] = ()) -> None:
        self._channels = channels
        self._writes = writes
        self._extended = extended

    def __getitem__(self, channel: str) -> Any:
        if channel not in self._writes:
            return self._channels.values[channel]
        write = self._writes[channel]
        reducer = self._channels.reducer(channel, self._extended)
        if reducer is OVERRIDE:
            return write
        old = self._channels.values.get(channel)
        kind = _IN_PLACE.get(reducer.name)
        return reducer.apply(deepcopy(old) if kind is None or old is None else kind(old), write)

    def __iter__(self) -> Iterator[str]:
        yield from self._channels.values
        yield from (channel for channel in self._writes if channel not in self._channels.values)

    def __len__(self) -> int:
        return len(self._channels.values.keys() | self._writes.keys())


def replay(channels: Channels, delta: Mapping[str, Mapping[str, Any]]) -> Channels:
    """Take a stored delta into `channels` and return them."""
    channels.replay(delta)
    return channels


MISSING: Any = object()
"""What `read` returns where a path leads nowhere."""


def read(values: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path (a channel, then keys or list positions), or MISSING. A channel whose own name holds
    the dots wins."""
    if path in values:
        return values[path]
    if "." not in path:
        return MISSING
    return read_in(values, path.split("."))


def read_in(found: Any, parts: list[str]) -> Any:
    """Follow keys and list positions from a value; MISSING where they lead nowhere."""
    for part in parts:
        if isinstance(found, Mapping):
            found = cast("Mapping[str, Any]", found).get(part, MISSING)
        elif isinstance(found, list | tuple) and part.isdecimal() and int(part) < len(cast("list[Any]", found)):
            found = cast("list[Any]", found)[int(part)]
        else:
            return MISSING
        if found is MISSING:
            return MISSING
    return found


def place(writes: dict[str, Any], values: Mapping[str, Any], path: str, value: Any) -> None:
    """Add to `writes` what puts `value` at a dotted path; the objects on the way are copied, not changed."""
    root, *rest = path.split(".")
    if not rest or path in values:
        writes[path] = value
        return
    top = dict(_mapping(writes.get(root, values.get(root))))
    writes[root] = top
    for part in rest[:-1]:
        below = dict(_mapping(top.get(part)))
        top[part] = below
        top = below
    top[rest[-1]] = value


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


DEPTH = 128
"""Nesting beyond this is refused, as in the causal log."""


def plain(value: Any, path: str) -> Any:
    """A deep copy of plain JSON. Raises NotPlain(path) for anything else, and for nesting beyond DEPTH."""
    trail: list[str] = []
    try:
        return _copy(value, trail, DEPTH)
    except TypeError as error:
        raise NotPlain(path + "".join(reversed(trail)), str(error)) from None


def _copy(value: Any, trail: list[str], depth: int) -> Any:
    kind = cast("type[object]", type(value))
    if kind in _LEAVES:
        return value
    if kind is list and depth:
        return _copy_list(value, trail, depth - 1)
    if kind is dict and depth:
        return _copy_dict(value, trail, depth - 1)
    raise TypeError(kind.__name__ if depth else f"{kind.__name__} nested deeper than {DEPTH}")


def _copy_list(value: list[Any], trail: list[str], depth: int) -> list[Any]:
    copied: list[Any] = []
    try:
        copied.extend(item if type(item) in _LEAVES else _copy(item, trail, depth) for item in value)
    except TypeError:
        trail.append(f"[{len(copied)}]")
        raise
    return copied


def _copy_dict(value: dict[Any, Any], trail: list[str], depth: int) -> dict[str, Any]:
    copied: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"key of type {type(key).__name__}")
            copied[key] = item if type(item) in _LEAVES else _copy(item, trail, depth)
    except TypeError:
        trail.append(f".{key}")
        raise
    return copied


_LEAVES: frozenset[type] = frozenset({str, int, float, bool, type(None)})

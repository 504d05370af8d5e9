"""Finding a node that changes the state in place, in debug mode: what it changed would be in no write, no delta and no replay.

Law: pure. Objects and lists are copied and compared; anything else is compared by identity.
"""

from collections.abc import Mapping
from typing import Any, cast

from causeline.errors import Misuse


class StateChanged(Misuse):
    """A node changed a value of `ctx.state` in place instead of writing it. `facts["channel"]` says which."""

    code = "state_changed"


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """A copy to compare with later."""
    return {channel: _copy(value) for channel, value in state.items()}


def check_untouched(before: Mapping[str, Any], state: Mapping[str, Any], placement: str) -> None:
    """Raises StateChanged if `state` is not what was copied."""
    for channel, value in before.items():
        if channel in state and not _same(value, state[channel]):
            raise StateChanged(
                f"{placement} changed {channel!r} of ctx.state in place; copy the value and return it with Outcome(port, writes)",
                placement=placement,
                channel=channel,
            )


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(one) for one in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in cast("dict[Any, Any]", value).items()}
    return value


def _same(before: Any, now: Any) -> bool:
    if isinstance(before, list) and isinstance(now, list):
        pairs = cast("list[Any]", before), cast("list[Any]", now)
        return len(pairs[0]) == len(pairs[1]) and all(map(_same, *pairs))
    if isinstance(before, dict) and isinstance(now, dict):
        was, become = cast("dict[Any, Any]", before), cast("dict[Any, Any]", now)
        return was.keys() == become.keys() and all(_same(one, become[key]) for key, one in was.items())
    return before is now

"""Who holds a run, and whether that holder is evidently gone.

Law: clocks of two machines are never compared. A holder whose process is gone from this host, boot and PID namespace is gone at once. Any
other one, be it alive and silent on this host, is gone when its counter has not moved for the length of a lease on the observer's own
monotonic clock.
"""

import json
import os
import platform
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from causeline.runtime.records import Run

LEASE_SECONDS = 15.0
BEAT_SECONDS = 5.0
_living: set[str] = set()


def new_holder() -> str:
    """A name for one runtime of this process, with what is needed to see later whether it lives."""
    pid = os.getpid()
    place = {"host": platform.node(), "boot": _boot(), "space": _pid_namespace()}
    holder = {**place, "pid": pid, "born": _born(pid), "nonce": secrets.token_hex(8)}
    text = json.dumps(holder, separators=(",", ":"))
    _living.add(text)
    return text


def retire(holder: str) -> None:
    """This runtime of this process is closed."""
    _living.discard(holder)


def evidently_gone(holder: str | None) -> bool:
    """True when the holder's process is seen to be gone: it lived on this host and boot, in a PID namespace that this process sees too,
    and is there no more. False says nothing about a holder."""
    if holder is None:
        return True
    told = _read(holder)
    here = {"host": platform.node(), "boot": _boot(), "space": _pid_namespace()}
    if told is None or any(told.get(field) != value for field, value in here.items()):
        return False
    pid = told.get("pid")
    if pid == os.getpid() and told.get("born") == _born(os.getpid()):
        return holder not in _living
    return not isinstance(pid, int) or _born(pid) != told.get("born")


def describe(holder: str | None) -> str:
    """The holder in words, for messages."""
    told = _read(holder) if holder else None
    return f"process {told.get('pid')} on {told.get('host')}" if told else "another process"


@dataclass(slots=True)
class _Seen:
    epoch: int
    beat: int
    since: float


class LeaseWatch:
    """Remembers when each run's lease was last seen to move."""

    def __init__(self, lease_seconds: float = LEASE_SECONDS) -> None:
        self.lease_seconds = lease_seconds
        self._seen: dict[tuple[str, str], _Seen] = {}

    def expired(self, run: Run, now: float) -> bool:
        """Whether the holder is gone, as far as this observer can tell at monotonic time `now`."""
        if evidently_gone(run.holder):
            return True
        seen = self._seen.get(run.key)
        if seen is None or (seen.epoch, seen.beat) != (run.epoch, run.beat):
            self._seen[run.key] = _Seen(run.epoch, run.beat, now)
            return False
        return now - seen.since >= self.lease_seconds

    def forget(self, run: Run) -> None:
        self._seen.pop(run.key, None)


def _read(holder: str) -> dict[str, Any] | None:
    try:
        told = json.loads(holder)
    except ValueError:
        return None
    return cast("dict[str, Any]", told) if isinstance(told, dict) else None


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    """Which process ids this process sees: containers that share host and boot may still number their processes apart."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _born(pid: int) -> str:
    """When a process began, in clock ticks since boot; "" if there is none. Guards against a pid used again."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return _alive(pid)
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


def _alive(pid: int) -> str:
    if Path("/proc/self").exists():
        return ""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "alive"
    return "alive"

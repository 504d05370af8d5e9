"""The id of a checkpoint, the commit of one step.

Its hash covers the parent checkpoint, so one id pins the whole history before it: which nodes, in which
order, and which of them were heads. Times are not covered.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, TypedDict

from causeline.causal.canonical import canonical
from causeline.causal.limits import WRAPPED_DEPTH

HASHED = ("parent", "run", "path", "node", "port", "next", "appended", "frontier", "delta", "position")


class CheckpointRow(TypedDict):
    """A checkpoint as exports carry it. The ten fields of `checkpoint_id` are hashed; the other four are not."""

    id: str
    session: str
    run: str
    step: int
    parent: str | None
    path: list[Any]
    node: str
    port: str | None
    next: Any
    appended: list[str]
    frontier: list[str]
    delta: dict[str, Any]
    position: Any
    created_at: str


def checkpoint_id(
    *,
    parent: str | None,
    run: str,
    path: Sequence[Any],
    node: str,
    port: str | None,
    next: Any,
    appended: Sequence[str],
    frontier: Iterable[str],
    delta: Any,
    position: Any,
) -> str:
    """`ck_` and the first 24 hexadecimal characters of the SHA-256 of the RFC 8785 form of exactly these ten fields.

    `appended` in commit order; `frontier` is sorted here. Raises InvalidValue for what JSON cannot hold.
    """
    fields = {
        "parent": parent,
        "run": run,
        "path": list(path),
        "node": node,
        "port": port,
        "next": next,
        "appended": list(appended),
        "frontier": sorted(frontier),
        "delta": delta,
        "position": position,
    }
    return "ck_" + sha256(canonical(fields, depth=WRAPPED_DEPTH)).hexdigest()[:24]

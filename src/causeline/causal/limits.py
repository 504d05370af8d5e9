"""How much of a log may come in from outside, and how an import is refused."""

from dataclasses import dataclass

from causeline.causal.canonical import DEPTH
from causeline.errors import Corrupt, Misuse

WRAPPED_DEPTH = 240
"""Nesting of records that wrap payloads, such as checkpoints, and the most a payload can be allowed. The JSON writer stops at 254."""
BUNDLE_DEPTH = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`nodes` of a log, `bytes` of its JSON text (of its payloads where it comes parsed), `depth` of nested containers in a payload."""

    nodes: int = 200_000
    bytes: int = 64 * 1024 * 1024
    depth: int = DEPTH

    def __post_init__(self) -> None:
        if not 0 <= self.depth <= WRAPPED_DEPTH:
            raise Misuse(f"Limits.depth is {self.depth}; choose 0 to {WRAPPED_DEPTH}")


class VerifyError(Corrupt):
    """A log or bundle that does not hold together; nothing of it was taken over.

    `node_id` and `index` (from 0, in the list the reason speaks of) name the node or row at fault; both are
    None where the fault is in the frame around the rows.
    """

    code = "verify_failed"

    def __init__(self, node_id: str | None, index: int | None, reason: str) -> None:
        place = [] if node_id is None else [node_id]
        if index is not None:
            place.append(f"(index {index})")
        super().__init__(f"{' '.join(place)}: {reason}" if place else reason, node_id=node_id, index=index, reason=reason)
        self.node_id = node_id
        self.index = index
        self.reason = reason

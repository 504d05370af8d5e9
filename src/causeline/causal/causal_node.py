"""One entry of the causal log.

Law: a node cannot change. It holds its payload as canonical bytes, which are what its id was computed
from; `payload` decodes a fresh copy, so nothing a caller does to it reaches the log.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from causeline.causal.canonical import InvalidValue
from causeline.causal.json_text import decode

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")


@dataclass(frozen=True, slots=True)
class CausalNode:
    """`parents` are ids, sorted and unique; `created_at` is `YYYY-MM-DDTHH:MM:SS.mmmZ` and not part of the id.

    Its place in a log (`sequence`) belongs to the AgentState, not to the node: branches share nodes.
    """

    id: str
    kind: str
    parents: tuple[str, ...]
    payload_bytes: bytes = field(repr=False)
    created_at: str
    resource_key: str | None = None

    @property
    def payload(self) -> Any:
        """The payload as plain JSON values, decoded anew at every call. Whole floats read back as integers."""
        return decode(self.payload_bytes)

    def to_json(self, sequence: int | None = None) -> dict[str, Any]:
        """The JSON form; `sequence` (from 1) is the place in the log it is written for."""
        row: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "parents": list(self.parents),
            "payload": self.payload,
            "createdAt": self.created_at,
        }
        if sequence is not None:
            row["sequence"] = sequence
        if self.resource_key is not None:
            row["resourceKey"] = self.resource_key
        return row


def check_time(created_at: object) -> None:
    """Raise InvalidValue unless `created_at` is exactly `YYYY-MM-DDTHH:MM:SS.mmmZ` and names a real moment."""
    if type(created_at) is str and _TIME.fullmatch(created_at):
        try:
            datetime.fromisoformat(created_at)
        except ValueError:
            pass
        else:
            return
    raise InvalidValue("created_at", f"{ascii(created_at)[:60]} is not a time of the form 2026-01-31T23:59:59.000Z")

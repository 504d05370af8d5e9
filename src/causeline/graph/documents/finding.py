"""One fault of a document, and the refusal that carries all of them.

Law: a finding names its place (placement and path into the JSON) and says what to do; one mistake is one finding.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from causeline.errors import Invalid

WARNINGS = frozenset({"concurrent_write", "container_ignored"})
"""Codes that tell but do not refuse: a document with only these may be registered."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`placement` is an IRI, or None where the fault belongs to the document; `path` leads into its JSON: `nodes[3].outputs.error`."""

    code: str
    placement: str | None
    message: str
    path: str = ""

    @property
    def warning(self) -> bool:
        """True if the document may still be registered."""
        return self.code in WARNINGS

    def to_json(self) -> dict[str, Any]:
        """The shape `graph check --json` prints."""
        return {"code": self.code, "placement": self.placement, "message": self.message, "path": self.path}

    def __str__(self) -> str:
        place = f"{self.placement or 'document'}{f' at {self.path}' if self.path else ''}"
        return f"{self.code}: {place}: {self.message}"


class DocumentError(Invalid):
    """No Document can be built, or a Document may not be registered. `findings` holds every fault at once."""

    code = "document_invalid"

    def __init__(self, message: str, findings: Iterable[Finding] = ()) -> None:
        found = tuple(findings)
        lines = "".join(f"\n  {finding}" for finding in found)
        super().__init__(message + lines, findings=found)

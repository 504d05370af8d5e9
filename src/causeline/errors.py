"""Every error causeline raises on purpose, split by who must act.

    CauselineError          code, facts
    ├── Misuse              the caller broke a rule of the API; a bug, never retried
    ├── Invalid             a value, document, manifest or request failed its checks; carries findings
    ├── Missing             no such session, run, node, tool, file
    ├── Conflict            somebody moved first: busy session, stale head, lost lease, answered twice
    ├── Unavailable         the outside did not answer; may be retried, may say when
    ├── Refused             the outside answered no
    ├── Exhausted           one of our limits was reached; says which
    └── Corrupt             stored bytes do not match their id; stop

Modules subclass these eight next to the code that raises them. Cancelling stays
`asyncio.CancelledError`, and waiting for a person is an outcome, not an error.
"""

from collections.abc import Sequence
from typing import Any


class CauselineError(Exception):
    """Root of the tree. `code` is stable and machine-readable, `facts` are plain JSON values."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.facts = facts

    @property
    def message(self) -> str:
        return str(self.args[0])


def words_of(error: BaseException) -> str:
    """The text of an error, also of one whose text fails: then it says so."""
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - the code of a stranger's class
        return f"({type(error).__name__} has no text: asking for it raised {type(broken).__name__})"


def code_of(error: BaseException) -> str:
    """An error's own code, else its class name."""
    return error.code if isinstance(error, CauselineError) else type(error).__name__


def fault_of(error: BaseException) -> dict[str, str]:
    """What is told and kept of an error: `{code, message}`."""
    code = code_of(error)
    return {"code": code, "message": words_of(error) or code}


class Misuse(CauselineError):
    """The caller broke a rule of the API."""

    code = "misuse"


class Invalid(CauselineError):
    """Something from outside failed its checks. `findings` names every fault, one line each."""

    code = "invalid"

    def __init__(self, message: str, *, findings: Sequence[Any] = (), code: str | None = None, **facts: Any) -> None:
        super().__init__(message, code=code, **facts)
        self.findings: tuple[Any, ...] = tuple(findings)


class Missing(CauselineError):
    """The thing named is not there."""

    code = "not_found"


class Conflict(CauselineError):
    """Somebody moved first."""

    code = "conflict"


class Unavailable(CauselineError):
    """The outside did not answer. `retry_after` is in seconds where the other side said when."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after: float | None = None, code: str | None = None, **facts: Any) -> None:
        super().__init__(message, code=code, **facts)
        self.retry_after = retry_after


class Refused(CauselineError):
    """The outside answered no; asking again will not help."""

    code = "refused"


class Exhausted(CauselineError):
    """A limit was reached. `limit` names the field of the Limits record."""

    code = "exhausted"

    def __init__(self, message: str, *, limit: str, code: str | None = None, **facts: Any) -> None:
        super().__init__(message, code=code, **facts)
        self.limit = limit


class Corrupt(CauselineError):
    """Stored or imported bytes do not match their id."""

    code = "corrupt"


def check_argument(place: str, faults: Sequence[str]) -> None:
    """Raises Invalid for an argument with these faults; `causeline.shapes` has rules that find them."""
    if faults:
        findings = [f"{place}{'' if fault.startswith('[') else ': '}{fault}" for fault in faults]
        raise Invalid("; ".join(findings), findings=findings)

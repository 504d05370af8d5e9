"""What PostgreSQL's errors mean, by SQLSTATE: whose fault it is, and what to do next."""

from typing import Any

from causeline.errors import CauselineError, Conflict, Corrupt, Invalid, Unavailable

_STOPPED = "did not answer; nothing is half written, try again"
# By SQLSTATE, else by its class, the first two characters (PostgreSQL manual, appendix A).
_MEANINGS: dict[str, tuple[type[CauselineError], str]] = {
    "08": (Unavailable, _STOPPED),
    "22": (Invalid, "cannot hold a value"),
    "23": (Conflict, "has rows that contradict the write"),
    "25006": (Unavailable, "takes no writes; connect to the primary server"),
    "28": (Invalid, "refuses the user or password of the URL"),
    "3D000": (Invalid, "does not exist; make it with createdb, or correct the URL"),
    "40": (Unavailable, "is too busy with writes to the same session; try again"),
    "42": (Corrupt, "does not have the tables its format number promises; restore them from a copy"),
    "42501": (Invalid, "does not let this user work in its schema; grant it CREATE and USAGE"),
    "53": (Unavailable, "has no room or no connection left; make room, or allow more connections"),
    "54": (Invalid, "cannot hold a value of this size"),
    "57": (Unavailable, _STOPPED),
    "58": (Unavailable, "failed; see the server's log"),
    "URL": (Invalid, "cannot be reached by this URL"),
    "XX001": (Corrupt, "is damaged; restore it from a copy"),
    "XX002": (Corrupt, "has a damaged index; REINDEX it, or restore it from a copy"),
}


def explain(place: str, error: BaseException, *, opening: bool = False) -> CauselineError:
    """An error of PostgreSQL, of asyncpg or of the network in our words. `opening` says that nothing has worked yet."""
    state: Any = getattr(error, "sqlstate", None)
    if state is None and isinstance(error, ValueError):
        state = "URL"
    return explained(place, state or "", str(error) or type(error).__name__, opening=opening)


def explained(place: str, state: str, message: str, *, opening: bool = False) -> CauselineError:
    """As `explain`, from a SQLSTATE ("" for none) and a message."""
    kind, what = _MEANINGS.get(state) or _MEANINGS.get(state[:2]) or (Unavailable, _STOPPED)
    if opening and kind is Unavailable:
        what = "does not answer; see that the server runs and that the URL is right"
    told = f"{place} {what} ({message})"
    return Unavailable(told, retry_after=1.0) if kind is Unavailable else kind(told)

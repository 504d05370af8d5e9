"""How a model call fails, by who must act, and the one table from HTTP status to failure.

Law: pure. Every adapter and the scripted model translate through `failure`, so a retry policy sees
the same kinds from all of them. `retryable` says whether asking the same model again can help.
"""

from email.utils import parsedate_to_datetime
from typing import Any

from causeline.errors import CauselineError, Refused, Unavailable


class ModelError(CauselineError):
    """A model call failed. Its subclasses are also one of the eight kinds."""

    code = "model_error"
    retryable = False


class ModelUnavailable(ModelError, Unavailable):
    """The provider did not answer: overloaded, unreachable, or broken in the middle."""

    code = "model_unavailable"
    retryable = True


class RateLimited(ModelUnavailable):
    """The provider asks to come back later; `retry_after` is in seconds where it said when."""

    code = "rate_limited"


class QuotaSpent(ModelUnavailable):
    """The account has nothing left. Another model may answer, this one will not."""

    code = "quota_spent"
    retryable = False


class ModelTimeout(ModelUnavailable):
    """No answer, or no next piece of it, in time."""

    code = "model_timeout"


class StreamCut(ModelUnavailable):
    """The reply broke off before its end."""

    code = "stream_cut"


class BadReply(ModelUnavailable):
    """The provider answered with something that is not a reply."""

    code = "bad_reply"


class ModelRefused(ModelError, Refused):
    """The provider answered no: the request is wrong, too big or not allowed."""

    code = "bad_request"


class KeyRefused(ModelRefused):
    """The provider does not accept the key, or the key may not use this model."""

    code = "auth"


class UnknownModel(ModelRefused):
    """The provider has no such model or path."""

    code = "model_not_found"


class ContextTooLong(ModelRefused):
    """The request is longer than the model's context window."""

    code = "context_too_long"


_TOO_LONG = ("context_length_exceeded", "exceed_context_size", "context length", "context window", "prompt is too long", "maximum context")
_QUOTA = ("insufficient_quota", "billing", "credit balance", "insufficient credit")
_RETRY_STATUS = frozenset({408, 409, 425})


def failure(status: int, message: str, *, detail: str = "", retry_after: float | None = None, model: str = "") -> ModelError:
    """The error for an HTTP `status` from 400 up. `detail` is the provider's own code or type, if it gave one."""
    said = f"{message} {detail}".lower()
    text = f"Model {model or 'call'} answered {status}: {message}"
    facts: dict[str, Any] = {"status": status, "model": model, "detail": detail}
    if status in (402, 429):
        spent = status == 402 or any(word in said for word in _QUOTA)
        kind = QuotaSpent if spent else RateLimited
        return kind(text, retry_after=retry_after, **facts)
    if status >= 500 or status in _RETRY_STATUS:
        return ModelUnavailable(text, retry_after=retry_after, **facts)
    if any(word in said for word in _TOO_LONG) or status == 413:
        return ContextTooLong(text, **facts)
    if status in (401, 403):
        return KeyRefused(text, **facts)
    if status == 404:
        return UnknownModel(text, **facts)
    return ModelRefused(text, **facts)


def seconds_to_wait(value: str | None, *, now: float) -> float | None:
    """Seconds from a Retry-After header: a number, or an HTTP date measured from `now` (UTC seconds). RFC 9110, section 10.2.3."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except ValueError:
            return None
    return max(0.0, seconds) if seconds - seconds == 0.0 else None

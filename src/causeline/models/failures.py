"""How a model call fails, by who must act, and the one table from HTTP status to failure.

Law: pure. Every adapter and the scripted model translate through `failure`, so a retry policy sees
the same kinds from all of them. `retryable` says whether asking the same model again can help.
"""

from email.utils import parsedate_to_datetime
from typing import Any

from causeline.errors import CauselineError, Refused, Unavailable, words_of


class ModelError(CauselineError):
    """A model call failed. Its subclasses are also one of the eight kinds."""

    code = "model_error"
    retryable = False
    advice = ""


class ModelBroke(ModelError, Refused):
    """A model's own code raised something that is none of these. The code is that error's class, or `crashed` for what ends programs."""

    def __init__(self, error: BaseException) -> None:
        self.retryable = isinstance(error, Exception)
        words = words_of(error)
        name = type(error).__name__
        if self.retryable:
            super().__init__(words or name, code=name)
        else:
            super().__init__(": ".join(filter(None, (name, words))), code="crashed")


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
    advice = "Top up the account, or name a model of another account in fallbacks."


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
    advice = "Check the key in the variable named by api_key_env, and that it may use this model."


class UnknownModel(ModelRefused):
    """The provider has no such model or path, or it lives at another address."""

    code = "model_not_found"
    advice = "Check the model's name, base_url and chat_path."


class ContextTooLong(ModelRefused):
    """The request is longer than the model's context window."""

    code = "context_too_long"
    advice = 'Shorten the conversation, use context_mode="causal", or a model with a larger window.'


class PartNotTaken(ModelRefused):
    """A message holds a picture, a sound or a file, and the model takes none."""

    code = "part_not_taken"


_TOO_LONG = ("context_length_exceeded", "exceed_context_size", "context length", "context window", "prompt is too long", "maximum context")
_QUOTA = ("insufficient_quota", "billing", "credit balance", "insufficient credit")
_RETRY_STATUS = frozenset({408, 409, 425})


def failure(status: int, message: str, *, detail: str = "", retry_after: float | None = None, model: str = "") -> ModelError:
    """The error for an HTTP `status` from 300 up. `detail` is the provider's own code or type, if it gave one."""
    kind = _kind(status, f"{message} {detail}".lower())
    facts: dict[str, Any] = {"status": status, "model": model, "detail": detail}
    if issubclass(kind, ModelUnavailable):
        facts["retry_after"] = retry_after
    text = f"Model {model or 'call'} answered {status}: {message}"
    return kind(f"{text.rstrip('. ')}. {kind.advice}".rstrip(), **facts)


def _kind(status: int, said: str) -> type[ModelUnavailable] | type[ModelRefused]:
    if status in (402, 429) or "credit balance" in said:
        return QuotaSpent if status != 429 or any(word in said for word in _QUOTA) else RateLimited
    if status >= 500 or status in _RETRY_STATUS:
        return ModelUnavailable
    if status < 400:
        return UnknownModel  # A redirect, which is not followed: the key would go along.
    if status == 413 or any(word in said for word in _TOO_LONG):
        return ContextTooLong
    return {401: KeyRefused, 403: KeyRefused, 404: UnknownModel}.get(status, ModelRefused)


_FAILED_FINISHES = frozenset({
    "error", "abort", "aborted", "cancelled", "canceled", "failed", "failure", "network_error", "server_error", "timeout", "overloaded",
    "insufficient_system_resource", "malformed_function_call", "unexpected_tool_call", "missing_thought_signature",
})  # fmt: skip


def failed_finish(reason: str, model: str) -> ModelError | None:
    """The failure a reply ended in, if the word it ended with is one for a failure of the provider."""
    if reason.lower() not in _FAILED_FINISHES:
        return None
    return StreamCut(f"The reply of model {model} ended in a failure of the provider: {reason}.", model=model, detail=reason)


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

import pytest

from causeline.errors import Refused, Unavailable
from causeline.models.failures import failure, seconds_to_wait


@pytest.mark.parametrize(
    "status, message, detail, code, kind, retryable",
    [
        (429, "slow down", "rate_limit_exceeded", "rate_limited", Unavailable, True),
        (429, "You exceeded your current quota", "insufficient_quota", "quota_spent", Unavailable, False),
        (402, "pay", "", "quota_spent", Unavailable, False),
        (500, "oops", "", "model_unavailable", Unavailable, True),
        (503, "overloaded", "", "model_unavailable", Unavailable, True),
        (529, "overloaded", "", "model_unavailable", Unavailable, True),
        (408, "timeout", "", "model_unavailable", Unavailable, True),
        (401, "bad key", "", "auth", Refused, False),
        (403, "not yours", "", "auth", Refused, False),
        (404, "no model", "", "model_not_found", Refused, False),
        (400, "This model's maximum context length is 8192 tokens", "", "context_too_long", Refused, False),
        (400, "too long", "context_length_exceeded", "context_too_long", Refused, False),
        (413, "too large", "", "context_too_long", Refused, False),
        (400, "no", "", "bad_request", Refused, False),
        (422, "no", "", "bad_request", Refused, False),
    ],
)
def test_a_status_is_told_by_who_must_act(status, message, detail, code, kind, retryable):
    error = failure(status, message, detail=detail, model="m")
    assert (error.code, error.retryable) == (code, retryable)
    assert isinstance(error, kind)
    assert message in error.message
    assert error.facts["status"] == status


def test_the_wait_the_provider_asks_for_is_kept():
    error = failure(429, "slow down", retry_after=7.0)
    assert isinstance(error, Unavailable)
    assert error.retry_after == 7.0


@pytest.mark.parametrize(
    "value, seconds",
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("-1", 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 40.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value, seconds):
    assert seconds_to_wait(value, now=60.0) == seconds

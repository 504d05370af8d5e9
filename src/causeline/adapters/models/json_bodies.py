"""The JSON that goes to model servers and comes from them, and what it says when they fail.

Law: what goes out is valid JSON and Unicode whatever is in it. A body that describes an error becomes the ModelError of its
kind, whether it came with a status of its own, with status 200, or in the middle of a stream.
"""

import json
from typing import Any, cast

import orjson

from causeline.models.failures import BadReply, ModelError, failure
from causeline.models.messages import Json
from causeline.models.unicode_text import mend_value

_STATUS_OF = {
    "rate_limit": 429, "insufficient_quota": 429, "overloaded": 503, "server_error": 500, "servererror": 500, "api_error": 500,
    "timeout": 503, "unavailable": 503, "authentication": 401, "invalid_api_key": 401, "permission": 403, "not_found": 404,
    "too_large": 413, "billing": 402, "context": 400, "invalid_request": 400,
}  # fmt: skip
_SHOWN = 2_000


def encode(value: Any) -> bytes:
    """JSON bytes. Lone surrogates become U+FFFD, integers of any size are written as they are."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(mend_value(value), ensure_ascii=False, separators=(",", ":")).encode()


def error_of(body: Any, status: int, model: str, *, retry_after: float | None = None) -> ModelError:
    """The failure an error body describes. A body that came with status 200 is judged by its own code."""
    error: Any = cast(Json, body).get("error", cast(Json, body)) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        error = {"message": str(error)[:_SHOWN]}
    record = cast(Json, error)
    said = record.get("message")
    message = said if isinstance(said, str) and said else json.dumps(record, ensure_ascii=False, default=str)[:_SHOWN]
    words = " ".join(str(record[key]) for key in ("code", "type", "param") if record.get(key) is not None)
    if status < 300:
        status = _status(record, words)
        if not status:
            return BadReply(f"Model {model} answered with an error instead of a reply: {message}", model=model, detail=words)
    return failure(status, message, detail=words, retry_after=retry_after, model=model)


def _status(record: Json, words: str) -> int:
    """What an error in a reply would have had as its HTTP status; 0 where nothing says."""
    for key in ("code", "status", "status_code"):
        value = record.get(key)
        number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
        if isinstance(number, int) and not isinstance(number, bool) and 400 <= number < 600:
            return number
    return next((status for word, status in _STATUS_OF.items() if word in words.lower()), 0)


def read_object(text: str | bytes, model: str) -> Json:
    """The JSON object `text` is. Raises BadReply."""
    try:
        value: Any = orjson.loads(text)
    except ValueError:
        try:
            value = json.loads(text)  # Knows lone surrogates and numbers beyond 64 bits.
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        start = text[:200] if isinstance(text, str) else text[:200].decode("utf-8", "replace")
        raise BadReply(f"Model {model} sent something that is not a JSON object: {start!r}", model=model)
    return cast(Json, value)

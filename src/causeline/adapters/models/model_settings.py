"""`model_settings`: what an agent passes on to its provider as it is.

Law: what is passed on is known to the protocol, or stands in `extra_body` on the caller's own word; everything else is an
Invalid that names it, when the model is made. Fields that the library itself fills are refused.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from causeline.errors import Invalid
from causeline.models.messages import Json

_OWN: Mapping[str, str] = {
    "model": "the option model",
    "messages": "the prompt and history",
    "system": "the option system",
    "tools": "the option tools",
    "stream": "the option stream",
    "temperature": "the option temperature",
    "max_tokens": "the option max_tokens",
    "max_completion_tokens": "the option max_tokens",
    "response_format": "the options response_format and output_type",
}
CHAT_FIELDS = frozenset({
    "frequency_penalty", "logit_bias", "logprobs", "metadata", "min_p", "modalities", "parallel_tool_calls", "prediction",
    "presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning", "reasoning_effort", "repetition_penalty",
    "safety_identifier", "seed", "service_tier", "stop", "store", "thinking", "tool_choice", "top_k", "top_logprobs", "top_p", "user",
    "verbosity", "web_search_options",
})  # fmt: skip
MESSAGES_FIELDS = frozenset({
    "cache_control", "container", "context_management", "inference_geo", "metadata", "output_config", "service_tier", "speed",
    "stop_sequences", "thinking", "tool_choice", "top_k", "top_p",
})  # fmt: skip
_NUMBERS = frozenset({"frequency_penalty", "min_p", "presence_penalty", "repetition_penalty", "seed", "timeout", "top_k", "top_p"})


@dataclass(frozen=True, slots=True)
class Settings:
    """`body` are fields of the request, `headers` further headers, `timeout` the longest silence in seconds."""

    body: Json = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    timeout: float | None = None

    def beside(self, *, tools: bool, closed: bool) -> Json:
        """The fields for a request: what is about tools only where there are any, and no choice of one where they are closed."""
        left_out = {"tool_choice", "parallel_tool_calls"} if not tools else {"tool_choice"} if closed else set[str]()
        return {key: value for key, value in self.body.items() if key not in left_out}


def read_settings(settings: Mapping[str, Any] | None, known: frozenset[str], *, model: str) -> Settings:
    """The settings, checked. Raises Invalid with every finding."""
    if settings is None:
        return Settings()
    findings = [finding for key, value in settings.items() for finding in _findings(key, value, known)]
    if findings:
        raise Invalid(f"model_settings of {model}: {'; '.join(findings)}.", findings=[f"model_settings.{finding}" for finding in findings])
    special = {"extra_body", "extra_headers", "timeout"}
    body = {key: value for key, value in settings.items() if key not in special and value is not None}
    timeout = settings.get("timeout")
    return Settings(
        {**body, **(settings.get("extra_body") or {})},
        dict(settings.get("extra_headers") or {}),
        None if timeout is None else float(timeout),
    )


def _findings(key: str, value: Any, known: frozenset[str]) -> list[str]:
    if value is None:
        return []
    if key in _OWN:
        return [f"{key}: use {_OWN[key]}"]
    if key in ("extra_body", "extra_headers"):
        return [] if isinstance(value, Mapping) else [f"{key}: expected an object, got {type(value).__name__}"]
    if key not in known and key != "timeout":
        close = difflib.get_close_matches(key, [*known, "timeout", "extra_body"], 1)
        hint = f"did you mean {close[0]}?" if close else "what only your server knows goes into extra_body"
        return [f"{key}: unknown setting; {hint}"]
    if key in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float) or (key == "timeout" and value <= 0)):
        return [f"{key}: expected {'seconds above 0' if key == 'timeout' else 'a number'}, got {value!r}"]
    return []

"""Talking to a model, without knowing which."""

from causeline.models.fallback_model import FallbackModel
from causeline.models.limit_model import LimitModel
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import Model, Reply, Request
from causeline.models.retry_model import RetryModel
from causeline.models.scripted_model import ScriptedModel

__all__ = ["FallbackModel", "LimitModel", "Message", "Model", "Reply", "Request", "RetryModel", "ScriptedModel", "ToolCall", "ToolSpec"]

"""Talking to a model, without knowing which."""

from causeline.models.fallback import FallbackModel
from causeline.models.limit import LimitModel
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import Model, Reply, Request
from causeline.models.retry import RetryModel
from causeline.models.scripted import ScriptedModel

__all__ = ["FallbackModel", "LimitModel", "Message", "Model", "Reply", "Request", "RetryModel", "ScriptedModel", "ToolCall", "ToolSpec"]

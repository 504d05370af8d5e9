"""Talking to a model, without knowing which.

A Model turns a Request into a stream of deltas (`docs/how-to/write-a-model.md`); `register` gives a kind of models of your own a
name; `prices` is the table of what models cost.
"""

from causeline.models.fallback_model import FallbackModel
from causeline.models.kinds import register
from causeline.models.limit_model import LimitModel
from causeline.models.messages import Message, ToolCall, ToolSpec
from causeline.models.model import (
    Attempt,
    CallDelta,
    Delta,
    Finish,
    Model,
    ReasoningDelta,
    Reply,
    Request,
    Retracted,
    Served,
    TextDelta,
    Usage,
)
from causeline.models.parts import file, image
from causeline.models.price_table import prices
from causeline.models.retry_model import RetryModel
from causeline.models.scripted_model import ScriptedModel

__all__ = [
    "Attempt",
    "CallDelta",
    "Delta",
    "FallbackModel",
    "Finish",
    "LimitModel",
    "Message",
    "Model",
    "ReasoningDelta",
    "Reply",
    "Request",
    "Retracted",
    "RetryModel",
    "ScriptedModel",
    "Served",
    "TextDelta",
    "ToolCall",
    "ToolSpec",
    "Usage",
    "file",
    "image",
    "prices",
    "register",
]

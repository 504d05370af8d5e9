"""Models behind third-party libraries."""

from causeline.adapters.models.anthropic import AnthropicModel
from causeline.adapters.models.local import LocalModel
from causeline.adapters.models.model_names import open_model
from causeline.adapters.models.openai import OpenAIModel

__all__ = ["AnthropicModel", "LocalModel", "OpenAIModel", "open_model"]

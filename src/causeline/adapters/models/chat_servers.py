"""Servers that speak the OpenAI chat-completions protocol, one row each: where they are, and where they differ.

Law: data alone. What a server wants is read off its row; no other module knows a server by its name. Each row follows the
server's own documentation. A server at an address of one's own goes by `GENERIC`, which gives back what it was given.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_ALL = frozenset({"image_url", "input_audio", "file"})
_IMAGES = frozenset({"image_url"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatServer:
    """One kind of server.

    `url`         its address; "" where only the caller can know it. The variable `<KIND>_BASE_URL` names another one.
    `key_env`     the variable with the key; "" where none is needed.
    `auth`        header and prefix the key is sent with.
    `max_tokens`  the field that bounds a reply.
    `schemas`     whether a reply can be held to a JSON Schema; else it is asked for an object and shown the schema.
    `asks_usage`  whether usage in a stream has to be asked for by `stream_options`.
    `parts`       the parts of a message it takes beside text.
    `gives_back`  the fields of an assistant's message that it gave and wants back: `content` stands for parts of thinking.
    `call_id`     the form a call's id must have; another one is replaced.
    """

    url: str = ""
    key_env: str = ""
    auth: tuple[str, str] = ("Authorization", "Bearer ")
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    schemas: bool = True
    asks_usage: bool = True
    parts: frozenset[str] = _IMAGES
    gives_back: frozenset[str] = frozenset()
    call_id: re.Pattern[str] | None = None


GENERIC = ChatServer(
    key_env="OPENAI_API_KEY",
    parts=_ALL,
    gives_back=frozenset({"reasoning_content", "reasoning", "reasoning_details", "extra_content", "content"}),
)

SERVERS: Mapping[str, ChatServer] = {
    "openai": ChatServer(url="https://api.openai.com/v1", key_env="OPENAI_API_KEY", max_tokens="max_completion_tokens", parts=_ALL),
    "azure": ChatServer(key_env="AZURE_OPENAI_API_KEY", auth=("api-key", ""), max_tokens="max_completion_tokens", parts=_ALL),
    "deepseek": ChatServer(
        url="https://api.deepseek.com",
        key_env="DEEPSEEK_API_KEY",
        schemas=False,
        parts=frozenset(),
        gives_back=frozenset({"reasoning_content"}),
    ),
    "gemini": ChatServer(
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        key_env="GEMINI_API_KEY",
        parts=frozenset({"image_url", "input_audio"}),
        gives_back=frozenset({"extra_content"}),
    ),
    "groq": ChatServer(url="https://api.groq.com/openai/v1", key_env="GROQ_API_KEY", max_tokens="max_completion_tokens"),
    "mistral": ChatServer(
        url="https://api.mistral.ai/v1",
        key_env="MISTRAL_API_KEY",
        asks_usage=False,
        gives_back=frozenset({"content"}),
        call_id=re.compile(r"[a-zA-Z0-9]{9}"),
    ),
    "openrouter": ChatServer(
        url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY", parts=_ALL, gives_back=frozenset({"reasoning_details"})
    ),
    "together": ChatServer(url="https://api.together.ai/v1", key_env="TOGETHER_API_KEY"),
    "ollama": ChatServer(url="http://localhost:11434/v1", gives_back=frozenset({"reasoning"})),
    "vllm": ChatServer(url="http://localhost:8000/v1", parts=_ALL, gives_back=frozenset({"reasoning", "reasoning_content"})),
    "llamacpp": ChatServer(url="http://localhost:8080/v1", parts=_ALL, gives_back=frozenset({"reasoning_content"})),
}


def base_url_of(kind: str) -> str:
    """Where the server of this kind is: what `<KIND>_BASE_URL` says, or else its own address, "" if nobody knows."""
    named = os.environ.get(f"{kind.upper()}_BASE_URL", "")
    if named or kind != "azure":
        return named or SERVERS[kind].url
    resource = os.environ.get("AZURE_OPENAI_ENDPOINT", "").rstrip("/")
    return f"{resource}/openai/v1" if resource else ""

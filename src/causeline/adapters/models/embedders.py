"""Embedders by their names: any server that speaks the OpenAI protocol, or a static model in this process.

Law: nothing is asked and no key is looked for before the first text is to be embedded. Vectors come back in the order of the texts.
"""

import asyncio
import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, Protocol, cast

import orjson

from causeline.adapters.models.chat_servers import SERVERS, base_url_of
from causeline.adapters.models.connection import Connection, MissingSdk, checked_url, read_key
from causeline.errors import Invalid, Unavailable

TEXTS = 96
"""Texts in one request."""
SECONDS, CONNECT_SECONDS = 30.0, 5.0
STATIC = "model2vec"


class NamedEmbedder(Protocol):
    """Turns texts into vectors; see `causeline.memory.long_term.Embedder`."""

    name: str

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]: ...

    async def aclose(self) -> None: ...


def embedder(
    name: str, *, base_url: str | None = None, api_key_env: str | None = None, dimensions: int | None = None, timeout: float = SECONDS
) -> NamedEmbedder:
    """`KIND:NAME`: a model of a server (`openai:text-embedding-3-small`, `ollama:nomic-embed-text`, ...), whose kinds, addresses and keys
    are those of chat models; or `model2vec:FOLDER`, a static model in this process, from a folder that is there (the package has to be
    installed).

    `base_url` is the address of another server, `api_key_env` the variable with its key, `dimensions` how long vectors shall be,
    `timeout` the longest wait in seconds. Raises Invalid for a kind there is not.
    """
    kind, divider, model = name.partition(":")
    if not divider or not model or kind not in (*SERVERS, STATIC):
        raise Invalid(f"{name!r} names no embedder; write KIND:NAME with one of {', '.join((*SERVERS, STATIC))}")
    if kind == STATIC:
        if (base_url, api_key_env, dimensions) != (None, None, None):
            raise Invalid(f"{name} runs in this process; base_url, api_key_env and dimensions are for servers")
        return StaticEmbedder(model)
    return ServerEmbedder(kind, model, base_url=base_url, api_key_env=api_key_env, dimensions=dimensions, timeout=timeout)


class ServerEmbedder:
    """See `embedder`."""

    def __init__(
        self, kind: str, model: str, *, base_url: str | None, api_key_env: str | None, dimensions: int | None, timeout: float
    ) -> None:
        self.name = f"{kind}:{model}"
        url = base_url or base_url_of(kind)
        if not url:
            raise Invalid(f"{self.name}: the kind {kind} has no address of its own: give base_url, or set {kind.upper()}_BASE_URL")
        self._kind, self._model, self._url = kind, model, checked_url(url)
        self._key_env = SERVERS[kind].key_env if api_key_env is None else api_key_env
        self._dimensions = dimensions
        self._timeout = timeout
        self._connection: Connection | None = None

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Raises what keeps the server from answering."""
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), TEXTS):
            vectors += await self._batch(texts[start : start + TEXTS])
        return vectors

    async def _batch(self, texts: Sequence[str]) -> list[Sequence[float]]:
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._dimensions is not None:
            body["dimensions"] = self._dimensions
        connection = self._connection = self._connection or self._connected()
        response = await connection.post("/embeddings", orjson.dumps(body))
        try:
            data = await response.aread()
        finally:
            await response.aclose()
        try:
            rows = cast("list[dict[str, Any]]", orjson.loads(data)["data"])
            vectors = [row["embedding"] for row in sorted(rows, key=lambda row: row.get("index", 0))]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{self.name}: the server's answer holds no embeddings: {data[:200]!r}") from error
        if len(vectors) != len(texts):
            raise Unavailable(f"{self.name}: {len(vectors)} embeddings for {len(texts)} texts")
        return vectors

    def _connected(self) -> Connection:
        key = read_key(self._url, self._key_env or None)
        header, prefix = SERVERS[self._kind].auth
        headers = {header: prefix + key} if key else {}
        return Connection("openai", self._url, self._model, headers, secret=key, silence=self._timeout, connect=CONNECT_SECONDS)

    async def aclose(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None


class StaticEmbedder:
    """A model2vec model, read from its folder when it is first used, in a thread."""

    def __init__(self, folder: str) -> None:
        self.name = f"{STATIC}:{folder}"
        self._folder = folder
        self._model: Any = None

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Raises MissingSdk."""
        return await asyncio.to_thread(self._embed, list(texts))

    def _embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        if self._model is None:
            if importlib.util.find_spec(STATIC) is None:
                raise MissingSdk(f"{self.name} needs the package {STATIC}; install it with: pip install {STATIC}", package=STATIC)
            module: Any = importlib.import_module(STATIC)
            self._model = module.StaticModel.from_pretrained(self._folder)
        return self._model.encode(texts).tolist()

    async def aclose(self) -> None:
        """Nothing is held open."""

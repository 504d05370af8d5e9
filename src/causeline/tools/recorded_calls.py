"""Tools that answer from a log: the same call has the result it had then, and nothing is run.

Law: nothing outside is touched. A call that is not in the recording fails, with the ones of its tool that are.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from causeline.causal import CausalNode, canonical
from causeline.causal.payload import as_run, fields, is_decision
from causeline.models.messages import Json
from causeline.tools.json_schema import Schema, shortened
from causeline.tools.tool import TOOL_NAME, Origin, Tool, ToolContext, ToolError, ToolResult

BUILT_IN = frozenset({"remember", "read_skill"})
"""Tools that an agent brings itself."""
MAX_SHOWN = 5


class UnrecordedCall(ToolError):
    """A call that is not in the recording."""

    code = "unrecorded_call"


class RecordedCalls:
    """Results by name and arguments. A call that was made more than once has its results in turn, and the last one from there on."""

    def __init__(self, nodes: Iterable[CausalNode]) -> None:
        self.misses: list[str] = []
        self._results: dict[tuple[str, str], list[ToolResult]] = {}
        self._times: Counter[tuple[str, str]] = Counter()
        asked: dict[str, tuple[str, Any]] = {}
        decided: dict[str, list[Any]] = {}
        for node in nodes:
            payload = fields(node.payload)
            call_id = str(payload.get("call_id"))
            if node.kind == "tool_call":
                asked[call_id] = (payload["name"], payload["args"])
            elif is_decision(node.kind, payload):
                decided.setdefault(call_id, []).append(payload)
            elif node.kind == "tool_result" and call_id in asked:
                name, arguments = asked[call_id]
                key = _key(name, as_run(arguments, decided.get(call_id, ())))
                self._results.setdefault(key, []).append(ToolResult(payload["result"], ok=bool(payload["ok"])))

    def names(self) -> tuple[str, ...]:
        """The tools that were called."""
        return tuple(dict.fromkeys(name for name, _ in self._results))

    def result(self, name: str, arguments: Json) -> ToolResult:
        """What the call gave. Raises UnrecordedCall."""
        key = _key(name, arguments)
        results = self._results.get(key)
        if results is None:
            self.misses.append(self._difference(name, key[1]))
            raise UnrecordedCall(self.misses[-1])
        result = results[min(self._times[key], len(results) - 1)]
        self._times[key] += 1
        return result

    def tools(self, like: Iterable[Tool] = ()) -> tuple[Tool, ...]:
        """The tools of the recording. Those that are also in `like` have the description and schema of there; all of `like` are there,
        called or not. Nobody is asked whether they may be called, since nothing is done."""
        known = {tool.name: tool for tool in like}
        names = [*known, *(name for name in self.names() if name not in known and name not in BUILT_IN and TOOL_NAME.fullmatch(name))]
        return tuple(self._tool(name, known.get(name)) for name in names)

    def _tool(self, name: str, like: Tool | None) -> Tool:
        schema = like.body.schema if like is not None else Schema({"type": "object", "properties": {}})
        body = RecordedBody(self, name, schema)
        if like is None:
            return Tool(name, "", body, effects=False)
        return replace(like, body=body, effects=False, approval=None, timeout=None, retries=0, client=False, human=False, output=None)

    def _difference(self, name: str, arguments: str) -> str:
        others = [text for tool, text in self._results if tool == name]
        shown = "".join(f"\n  recorded: {shortened(text)}" for text in others[:MAX_SHOWN])
        more = f"\n  and {len(others) - MAX_SHOWN} more" if len(others) > MAX_SHOWN else ""
        never = "" if others else "\n  recorded: no call of this tool"
        return f"This call of {name} is not recorded, so it was not run.\n  asked now: {shortened(arguments)}{shown}{more}{never}"


@dataclass(frozen=True, slots=True)
class RecordedBody:
    """The body of a recorded tool: whether arguments fit was decided then."""

    calls: RecordedCalls
    name: str
    schema: Schema

    @property
    def origin(self) -> Origin | None:
        return None

    def findings(self, arguments: Json) -> list[str]:
        return []

    async def run(self, arguments: Json, context: ToolContext) -> ToolResult:
        return self.calls.result(self.name, arguments)


def _key(name: str, arguments: Any) -> tuple[str, str]:
    return name, arguments if isinstance(arguments, str) else canonical(arguments).decode()

"""Whether an answer is backed by what was done: a policy looks at the turn before its answer counts.

Law: off unless asked for, and never the end of a run: an answer with gaps is asked for again as often as other answers that do not fit,
then it counts, with the gaps on record.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from causeline.causal import Append, CausalNode
from causeline.causal.payload import field_text, fields
from causeline.errors import words_of
from causeline.models.messages import Message
from causeline.models.transcript import goal_content, result_text

KEYWORDS = "keywords"
CompletionPolicy = Callable[[str, Sequence[CausalNode], Any], Sequence[str]]
"""What is missing, in sentences for the model: of the task's text, the nodes of the log since it was given, and the answer."""

READS = frozenset({"read", "read_file", "list_files", "search"})
WRITES = frozenset({"write", "edit", "delete", "create", "move", "write_file", "edit_file", "delete_file", "mutation"})
_IGNORED = re.compile(r"(^|/)(node_modules|dist|build|coverage|logs?|te?mp|\.?cache|__pycache__|\.git)(/|$)|\.(log|pid|tmp|pyc)$")
_WANTS_READ = frozenset({"read", "inspect", "review"})
_WANTS_WRITE = frozenset({"add", "apply", "build", "fix", "harden", "implement", "update", "write"})
_WANTS_CHECK = frozenset({"check", "test", "syntax"})
_DONE_ALREADY = re.compile(
    r"already\s+(satisfied|done|there|present|implemented|fixed)|no\s+changes?\s+(is|was|are|were)?\s*(needed|necessary|required)",
    re.IGNORECASE,
)
_CHECKS = re.compile(r"check|test|lint|verify", re.IGNORECASE)


class CompletionWatch:
    """What was done in the turn, and what the policy makes of it."""

    def __init__(self, policy: str | CompletionPolicy) -> None:
        self._policy: CompletionPolicy = keyword_gaps if isinstance(policy, str) else policy
        self._task = ""
        self._turn: list[CausalNode] = []
        self._changed: set[str] = set()

    def fold(self, node: CausalNode) -> None:
        """One node more in the log."""
        if node.kind == "goal":
            self._task, self._turn, self._changed = Message("user", goal_content(node.payload)).text, [], set()
        self._turn.append(node)
        path = changed_path(node.kind, node.payload)
        if path:
            self._changed.add(path)

    def after_reads(self, appends: Sequence[Append]) -> list[Append]:
        """Verifications for resources that are read after they were changed in this turn."""
        return [
            Append("verification", {"method": "post_mutation_read", "path": path}, parents=append.parents, advance=False)
            for append in appends
            if (path := read_path(append.kind, append.payload)) in self._changed
        ]

    def gaps(self, answer: Any) -> list[str]:
        """What the policy finds missing. A policy that fails finds that it has failed."""
        try:
            return [str(gap) for gap in self._policy(self._task, self._turn, answer)]
        except Exception as error:  # noqa: BLE001 - whatever a policy does wrong, the answer stands, and says so
            return [f"the completion policy failed: {words_of(error) or type(error).__name__}"]


def changed_path(kind: str, payload: Any) -> str:
    """The path that a resource node says was changed; "" for every other node, and for files that nobody means."""
    return _path(kind, payload, WRITES)


def read_path(kind: str, payload: Any) -> str:
    """The path that a resource node says was read, else ""."""
    return _path(kind, payload, READS)


def _path(kind: str, payload: Any, operations: frozenset[str]) -> str:
    known = fields(payload)
    if kind != "resource" or known.get("operation") not in operations or known.get("succeeded") is not True:
        return ""
    path = field_text(known, "path")
    return "" if _IGNORED.search(path) else path


def keyword_gaps(task: str, nodes: Sequence[CausalNode], answer: Any) -> list[str]:
    """The policy `"keywords"`: what the words of a task ask for (to read, to change, to check, to restart, to smoke) has to have been
    done in its turn, and a file is read before it is edited. A change makes earlier checks stale."""
    wanted = set(re.findall(r"[a-z]+", task.lower()))
    done = _Done()
    for node in nodes:
        done.take(node)
    gaps = [f"{path} was edited before it was read." for path in done.blind]
    if wanted & _WANTS_READ and not done.read:
        gaps.append("The task asks to read, and nothing was read.")
    if wanted & _WANTS_WRITE and not done.changed and not _DONE_ALREADY.search(result_text(answer)):
        gaps.append("The task asks for a change, and nothing was changed; if none is needed, say so.")
    for word, what in (("restart", "restarted"), ("smoke", "smoke-tested")):
        if word in wanted and word not in done.verified:
            gaps.append(f"The task asks for it, and nothing was {what} after the last change.")
    if wanted & _WANTS_CHECK and "check" not in done.verified:
        gaps.append("The task asks for a check, and nothing was checked after the last change.")
    return gaps


class _Done:
    """What the nodes of a turn show: what was read and changed, and what was verified since."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.changed: set[str] = set()
        self.blind: dict[str, None] = {}
        self.verified: set[str] = set()

    def take(self, node: CausalNode) -> None:
        read, changed = read_path(node.kind, node.payload), changed_path(node.kind, node.payload)
        payload = fields(node.payload)
        if read:
            self.read.add(read)
        elif changed:
            if "edit" in field_text(payload, "operation") and changed not in self.read | self.changed:
                self.blind[changed] = None
            self.changed.add(changed)
            self.verified.clear()
        elif node.kind == "verification":
            self._verified(field_text(payload, "method"))
        elif node.kind == "tool_result" and payload.get("ok") is True:
            self._ran(field_text(payload, "tool"), payload.get("result"))

    def _verified(self, method: str) -> None:
        if method in ("restart", "smoke"):
            self.verified.add(method)
        elif method not in ("decision", "completion", ""):
            self.verified.add("check")

    def _ran(self, tool: str, result: Any) -> None:
        declared = cast("Mapping[str, Any]", result).get("verification") is True if isinstance(result, Mapping) else False
        if declared or _CHECKS.search(tool):
            self.verified.add("check")
        self.verified |= {word for word in ("restart", "smoke") if word in tool}

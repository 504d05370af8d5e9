"""A session as a tree: what was asked, what the model said to it, which calls it made, what came of them.

Law: pure. A run is a trunk; what a later run of the same branch does to a call of an earlier one (a decision, a result) hangs on that
call. Text from outside is cleaned and cut to a line.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from causeline.causal import CausalNode
from causeline.causal.view.node_text import decision_text, node_text
from causeline.cli.views.clean_text import one_line, short, shown
from causeline.cli.views.narration import Piece, Style
from causeline.cli.views.open_questions import Standing, questions, why
from causeline.cli.views.run_end import tokens
from causeline.cli.views.trace import asked
from causeline.plain_text import counted
from causeline.runtime.records import CallRow, Checkpoint, Link, Run

_STYLES: Mapping[str, Style] = {"goal": "title", "answer": "good", "tool_call": "call", "protocol_error": "bad"}
_LABELS: Mapping[str, str] = {
    "inference": "model", "tool_call": "call", "tool_result": "result", "verification": "decision", "protocol_error": "fault",
}  # fmt: skip


@dataclass(slots=True)
class Twig:
    """A line, and what hangs on it."""

    text: str
    style: Style = "plain"
    twigs: "list[Twig]" = field(default_factory=list["Twig"])


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of one session: the links of a branch, its runs, how interrupted ones stand, the ledger rows, and by (run, call id)
    what agents did that a call started as runs of their own."""

    links: Sequence[Link]
    runs: Sequence[Run]
    standings: Mapping[str, Standing] = field(default_factory=dict[str, Standing])
    calls: Sequence[CallRow] = ()
    below: "Mapping[tuple[str, str], Told]" = field(default_factory=dict[tuple[str, str], "Told"])


def tree(told: Told) -> list[Twig]:
    """A trunk for each run of the branch, in order."""
    return _Grower(told).grow()


def drawn(twigs: Iterable[Twig], *, width: int = 160) -> list[Piece]:
    """The lines of a tree; the first level stands at the margin."""
    pieces: list[Piece] = []
    for twig in twigs:
        pieces.append(Piece(f"{short(twig.text, width)}\n", twig.style))
        pieces.extend(_branches(twig.twigs, "", width))
    return pieces


def _branches(twigs: Sequence[Twig], margin: str, width: int) -> Iterable[Piece]:
    for twig in twigs:
        last = twig is twigs[-1]
        yield Piece(f"{margin}{'└─ ' if last else '├─ '}", "quiet")
        yield Piece(f"{short(twig.text, max(width - len(margin) - 3, 40))}\n", twig.style)
        yield from _branches(twig.twigs, f"{margin}{'   ' if last else '│  '}", width)


class _Grower:
    """Hangs the nodes of a branch on each other, in the order of its steps."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._runs = {run.id: run for run in told.runs}
        self._calls = {(row.run, row.call_id): row for row in told.calls}
        self._twigs: dict[str, Twig] = {}
        self._open: dict[str, tuple[Twig, CallRow]] = {}  # calls that have no result on this branch
        self._trunk = Twig("")
        self._bough = self._trunk
        here = {link.checkpoint.run for link in told.links}
        self._forks: dict[str, list[Run]] = {}
        for run in told.runs:
            if run.at and run.id not in here:
                self._forks.setdefault(run.at, []).append(run)

    def grow(self) -> list[Twig]:
        trunks: list[Twig] = []
        current = ""
        for link in self._told.links:
            if not trunks or link.checkpoint.run != current:
                current = link.checkpoint.run
                self._trunk = self._bough = self._run(current)
                trunks.append(self._trunk)
            self._step(link)
        for twig, row in self._open.values():
            twig.twigs.append(Twig(row.state, "quiet"))
        return trunks

    def _run(self, name: str) -> Twig:
        run = self._runs.get(name)
        if run is None:
            return Twig(f"run {name}", "title")
        stands = why(run, self._told.standings)
        origin = f"fork of {run.at}" if run.at and not run.answers else ""
        status = f"{run.status}{f' ({stands})' if stands else ''}"
        facts = "  ".join(fact for fact in (f"agent {one_line(run.agent)}", status, origin, tokens(run.usage)) if fact)
        trunk = Twig(f"run {name}  {facts}", "title")
        if run.answers:
            trunk.twigs.append(Twig(asked(run), "quiet"))
        if run.error:
            trunk.twigs.append(Twig(shown(run.error.get("message") or ""), "bad"))
        if name in self._told.standings:
            trunk.twigs.extend(Twig(piece.text.strip(), piece.style) for piece in questions(self._told.standings[name]))
        return trunk

    def _step(self, link: Link) -> None:
        if link.checkpoint.facts.get("epoch"):
            self._bough.twigs.append(Twig("taken over by another process", "quiet"))
        for node in link.nodes:
            twig = Twig(self._line(node, link.checkpoint), _STYLES.get(node.kind, "plain"))
            self._twigs[node.id] = twig
            self._holder(node).twigs.append(twig)
            if node.kind == "goal":
                self._bough = twig
            elif node.kind == "tool_result":
                self._open.pop(node.payload["call_id"], None)
            elif node.kind == "tool_call":
                twig.twigs.extend(self._of_call(twig, link.checkpoint.run, node.payload["call_id"]))
        for fork in self._forks.get(link.checkpoint.id, ()):
            self._bough.twigs.append(Twig(f"fork {fork.id}  {asked(fork)}  {fork.status}", "quiet"))

    def _holder(self, node: CausalNode) -> Twig:
        """What the node hangs on: a goal on its run, a reply on the goal, all else on the node it was made from."""
        if node.kind in ("system", "goal"):
            return self._trunk
        if node.kind == "inference":
            return self._bough
        return next((self._twigs[parent] for parent in node.parents if parent in self._twigs), self._bough)

    def _of_call(self, twig: Twig, run: str, call_id: str) -> Iterable[Twig]:
        row = self._calls.get((run, call_id))
        if row is not None and row.attempts > 1:
            yield Twig(f"{row.attempts} attempts", "quiet")
        if row is not None:
            self._open[call_id] = (twig, row)
        below = self._told.below.get((run, call_id))
        if below is not None:
            yield from tree(below)

    def _line(self, node: CausalNode, checkpoint: Checkpoint) -> str:
        label = f"{_LABELS.get(node.kind, node.kind):<9} "
        text = _words(node)
        return f"{label}{text}{_spent(checkpoint.facts) if node.kind == 'inference' else ''}"


def _words(node: CausalNode) -> str:
    payload: Any = node.payload
    match node.kind:
        case "inference":
            return shown(payload.get("text") or "") if payload.get("text") else "calls " + ", ".join(
                one_line(str(call.get("name"))) for call in payload.get("calls") or ()
            )  # fmt: skip
        case "tool_result":
            return f"{'' if payload.get('ok') else 'failed: '}{shown(payload.get('result'))}"
        case "verification" if payload.get("method") == "decision":
            return decision_text(payload)
        case _:
            return node_text(node.kind, payload)


def _spent(facts: Mapping[str, Any]) -> str:
    """Model, time, tokens and failed attempts of a step that asked a model, in brackets."""
    ms = f"{facts['ms']:.0f} ms" if isinstance(facts.get("ms"), int | float) else ""
    failed = counted(len(facts["attempts"]), "failed attempt") if facts.get("attempts") else ""
    parts = (one_line(str(facts.get("model") or "")), ms, tokens(facts.get("usage")), failed)
    text = ", ".join(part for part in parts if part)
    return f"  [{text}]" if text else ""

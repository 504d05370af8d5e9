"""The trace of a branch in lines: runs, their steps, and the causal nodes each step added.

Law: pure. Everything shown is cleaned and cut to a line; ids are whole, since other commands take them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from causeline.causal import CausalNode
from causeline.causal.view.node_text import decision_text, node_text
from causeline.cli.views.clean_text import one_line, short, shown
from causeline.cli.views.narration import Piece, Style
from causeline.cli.views.open_questions import Standing, questions, why
from causeline.cli.views.run_end import tokens
from causeline.plain_text import counted
from causeline.runtime.records import Checkpoint, Link, Run

WIDTH = 160
_NONE: Mapping[str, Standing] = {}
_STYLES: Mapping[str, Style] = {"tool_call": "call", "protocol_error": "bad", "goal": "title", "answer": "title"}


def trace(
    links: Sequence[Link], runs: Mapping[str, Run], standings: Mapping[str, Standing] = _NONE, *, width: int = WIDTH
) -> Sequence[Piece]:
    """Every step of these links in order, under the run it belongs to."""
    pieces: list[Piece] = []
    current = None
    for link in links:
        if link.checkpoint.run != current:
            current = link.checkpoint.run
            pieces.extend(_run(current, runs.get(current), standings, width))
        pieces.append(Piece(f"  {_step(link.checkpoint)}\n", "quiet"))
        pieces.extend(_node(node, width) for node in link.nodes)
    return pieces


def _run(name: str, run: Run | None, standings: Mapping[str, Standing], width: int) -> Sequence[Piece]:
    if run is None:
        return (Piece(f"\nrun {name}\n", "title"),)
    told = why(run, standings)
    status = f"{run.status}{f' ({told})' if told else ''}"
    fork = f"fork of {run.at}" if run.at and not run.answers else ""
    facts = "  ".join(one for one in (status, fork, f"agent {one_line(run.agent)}", when(run.started_at), tokens(run.usage)) if one)
    fault = f"  {shown((run.error or {}).get('message') or '', WIDTH)}\n" if run.error else ""
    return (
        Piece(f"\nrun {name}  {asked(run)}\n", "title"), Piece(f"  {facts}\n", "quiet"), Piece(fault, "bad"),
        *(Piece(f"  {decision_text(one, run.owner)}\n", "call") for one in run.answers.values()),
        *(questions(standings[name], width=width) if name in standings else ()),
    )  # fmt: skip


def _step(checkpoint: Checkpoint) -> str:
    facts = checkpoint.facts
    way = f"{node_name(checkpoint.node)} -> {checkpoint.port}"
    spent = f"{facts['ms']:.0f} ms" if isinstance(facts.get("ms"), int | float) else ""
    rows = (
        f"step {checkpoint.step:<3} {checkpoint.id}",
        f"{way:<22}",
        spent,
        tokens(facts.get("usage")),
        one_line(str(facts.get("model") or "")),
        counted(len(facts["attempts"]), "failed attempt") if facts.get("attempts") else "",
        "taken over" if facts.get("epoch") else "",
    )
    return "  ".join(row for row in rows if row).rstrip()


def _node(node: CausalNode, width: int) -> Piece:
    place = f"    {node.kind:<14} {node.id}  "
    return Piece(f"{place}{short(node_text(node.kind, node.payload), max(width - len(place), 40))}\n", _STYLES.get(node.kind, "plain"))


def node_name(node: str) -> str:
    """The last word of a node's IRI or of a placement's name."""
    return one_line(node).rpartition(":")[2]


def when(time: str | None) -> str:
    """A stored time, to the second, in UTC."""
    return f"{time[:10]} {time[11:19]}" if time else "-"


def asked(run: Run) -> str:
    """What a run was asked, on one short line."""
    given: Sequence[Mapping[str, Any]] = run.input
    if run.answers:
        return f"({', '.join(sorted({str(one.get('decision')) for one in run.answers.values()}))})"
    return shown(given[0].get("content", ""), 60) if given else "-"

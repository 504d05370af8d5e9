"""Scenarios of graphs of one's own: a scatter whose items are documents, an embedded document, a placement that tries again, two branches.

Nodes have no ledger: one that dies after its effect runs again. So these leave each effect once for its place, as a careful node would.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from causeline.causal import Append
from causeline.graph import Context, Graph, Node, Outcome, node
from causeline.policy import RetryPolicy
from causeline.run.scope import RunScope
from causeline.runtime.program import GraphProgram, Program
from causeline.testing.killpoints.scenarios import Scenario, once

ITEMS = ["a", "b", "c", "d"]


def nodes(effects: Path) -> Sequence[Node]:
    """Nodes that take in, do, fail at first, and sum up."""

    def leave(ctx: Context) -> str:
        key = "/".join(map(str, ctx.path))
        if not effects.exists() or f"{key}\n" not in effects.read_text(encoding="utf-8"):
            with effects.open("a", encoding="utf-8") as file:
                file.write(f"{key}\n")
                file.flush()
                os.fsync(file.fileno())
        return key

    @node("urn:sweep:take", ("done",))
    def take(ctx: Context) -> Outcome:
        said = [Append("goal", {"text": one.text}) for one in ctx.use(RunScope).input]
        return Outcome("done", {"items": ITEMS, "log": said})

    @node("urn:sweep:do", ("done",))
    def do(ctx: Context) -> Outcome:
        return Outcome("done", {"did": leave(ctx)})

    @node("urn:sweep:item", ("success", "error"))
    def each(ctx: Context) -> Outcome:
        return Outcome("success", {"did": leave(ctx)})

    @node("urn:sweep:flaky", ("done",))
    def flaky(ctx: Context) -> Outcome:
        if ctx.attempt < 3:
            raise ConnectionError("not yet")
        return Outcome("done", {"did": leave(ctx)})

    @node("urn:sweep:sum", ("done",))
    def total(ctx: Context) -> Outcome:
        return Outcome("done", {"result": {"answer": ctx.state.get("all") or ctx.state.get("did")}})

    return take, do, each, flaky, total


def _inner(name: str) -> Graph:
    return (
        Graph(f"urn:sweep:dag:{name}")
        .node("first", "urn:sweep:do", {"done": "then"})
        .node("then", "urn:sweep:do", {"done": "end"})
        .terminal("end")
        .entry("main", "first")
    )


def scattering(effects: Path) -> Sequence[Program]:
    joined: dict[str, str] = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join")
    document = (
        Graph("urn:sweep:dag:scatter")
        .node("take", "urn:sweep:take", {"done": "each"})
        .scatter("each", "items", joined, dag="urn:sweep:dag:item", reducer="aggregate", concurrency=2)
        .gather("join", ["each"], "map", mapping={"did": "all"}, outputs=dict.fromkeys(("success", "error", "empty"), "sum"))
        .node("sum", "urn:sweep:sum", {"done": "end"})
        .terminal("end")
        .entry("main", "take")
        .build()
    )
    return [GraphProgram(document, nodes(effects), documents=[_inner("item").build()])]


def embedding(effects: Path) -> Sequence[Program]:
    deep = (
        Graph("urn:sweep:dag:deep")
        .embed("deeper", "urn:sweep:dag:leaf", {"success": "after", "error": "bad"}, state_output={"did": "did"})
        .node("after", "urn:sweep:do", {"done": "end"})
        .terminal("end")
        .terminal("bad", "failed")
        .entry("main", "deeper")
        .build()
    )
    document = (
        Graph("urn:sweep:dag:embed")
        .node("take", "urn:sweep:take", {"done": "inside"})
        .embed("inside", "urn:sweep:dag:deep", {"success": "sum", "error": "bad"}, state_output={"did": "did"})
        .node("sum", "urn:sweep:sum", {"done": "end"})
        .terminal("end")
        .terminal("bad", "failed")
        .entry("main", "take")
        .build()
    )
    return [GraphProgram(document, nodes(effects), documents=[deep, _inner("leaf").build()])]


def retrying(effects: Path) -> Sequence[Program]:
    policy = RetryPolicy(max_attempts=3, base_delay=0.001, jitter_factor=0.0)
    document = (
        Graph("urn:sweep:dag:retry")
        .node("take", "urn:sweep:take", {"done": "flaky"})
        .node("flaky", "urn:sweep:flaky", {"done": "sum"}, retry=policy)
        .node("sum", "urn:sweep:sum", {"done": "end"})
        .terminal("end")
        .entry("main", "take")
        .build()
    )
    return [GraphProgram(document, nodes(effects))]


def branching(effects: Path) -> Sequence[Program]:
    """Two branches: a scatter of documents beside an embedded document and two steps; both add to one list, and they meet."""
    joined: dict[str, str] = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join")
    document = (
        Graph("urn:sweep:dag:branches")
        .phase("take", "urn:sweep:take", "pre")
        .scatter("each", "items", joined, dag="urn:sweep:dag:item", concurrency=2)
        .gather("join", ["each"], "append", dict.fromkeys(("success", "error", "empty"), "meet"), target="all", field="did")
        .node("one", "urn:sweep:do", {"done": "inside"})
        .embed("inside", "urn:sweep:dag:leaf", {"success": "few", "error": "bad"}, state_output={"deep.did": "did"})
        .scatter("few", "items", dict.fromkeys(joined, "fewer"), node="urn:sweep:item", concurrency=2)
        .gather("fewer", ["few"], "append", dict.fromkeys(("success", "error", "empty"), "meet"), target="all", field="did")
        .gather("meet", ["join", "fewer"], "discard", {"success": "sum", "error": "bad", "empty": "bad"})
        .node("sum", "urn:sweep:sum", {"done": "end"})
        .terminal("end")
        .terminal("bad", "failed")
        .entry("main", "each")
        .entry("beside", "one")
        .build()
    )
    return [GraphProgram(document, nodes(effects), documents=[_inner("item").build(), _inner("leaf").build()])]


GRAPHS = (
    Scenario("scatter", (), once, programs=scattering),
    Scenario("embed", (), once, programs=embedding),
    Scenario("retry", (), once, programs=retrying),
    Scenario("branches", (), once, programs=branching, branches=True),
)

"""`causeline show`: the trace of a session, or its causal graph."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from causeline.causal.view.drawing import causal_graph, draw
from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, SessionName, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.narration import Piece
from causeline.cli.views.open_questions import Standing, standing
from causeline.cli.views.terminal import Terminal
from causeline.cli.views.trace import asked, trace
from causeline.cli.views.tree import Told, drawn, tree
from causeline.cli.whole_ids import whole_run, whole_session
from causeline.errors import Missing
from causeline.plain_text import counted
from causeline.runtime.export_import import call_row, checkpoint_row, run_row
from causeline.runtime.records import CallRow, Link, Run
from causeline.runtime.runtime import Runtime


def command(
    session: SessionName,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Only this run, also where another branch is the session's now.")] = None,
    as_tree: Annotated[
        bool, typer.Option("--tree", help="Print what was asked, said, called and answered as a tree, agents below agents too.")
    ] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Print the causal graph as Mermaid text instead of the trace.")] = False,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print the causal graph for Graphviz instead of the trace.")] = False,
    as_svg: Annotated[bool, typer.Option("--svg", help="Print the causal graph as a picture instead of the trace.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print the trace of a session, or its causal graph.

    The trace has its runs, their steps with checkpoints, times and tokens, and the causal nodes each step added.
    """

    async def show() -> None:
        async with opened(store) as runtime:
            place, shown_run = await place_of(runtime, session, run)
            links, runs = await history(runtime, place, shown_run)
            standings = await standing(runtime, await runtime.runs(place), place)
            calls = [row for one in runs for row in await runtime.calls(one.id)] if as_json or as_tree else []
            below = await told_below(runtime, runs, await runtime.runs()) if as_tree and not as_json else {}
        if as_json:
            print(line(as_object(place, links, runs, calls, graph=graph)))
        elif graph or as_dot or as_svg:
            print(draw([node for link in links for node in link.nodes], "dot" if as_dot else "svg" if as_svg else "mermaid"), end="")
        elif as_tree:
            terminal = Terminal()
            terminal.pieces(drawn(tree(Told(links, runs, standings, calls, below)), width=terminal.width))
        else:
            _print(place, links, runs, standings)

    leave(show())


async def place_of(runtime: Runtime, name: str, run: str | None) -> tuple[str, str | None]:
    """The session and the run that a command line means: a session, or a run in its place; each by the beginning of its id."""
    if run is not None:
        run = await whole_run(runtime, run)
    session = await whole_session(runtime, name)
    try:
        return (await runtime.session(session)).id, run
    except Missing:
        try:
            row = await runtime.run(await whole_run(runtime, name))
        except Missing:
            return session, run  # which is then missed by its name
        return row.session, row.id


async def history(runtime: Runtime, session: str, run: str | None = None) -> tuple[Sequence[Link], Sequence[Run]]:
    """The session's branch with all its runs; with `run` that run and its steps. Raises Missing."""
    links = await runtime.links(session)
    runs = await runtime.runs(session)
    if run is None:
        return links, runs
    found = [one for one in runs if one.id == run]
    if not found:
        raise Missing(f"session {session} has no run {run!r}; `causeline runs {session}` lists them", run=run)
    links = await runtime.links(session, found[0].head) if found[0].head is not None else ()
    return [link for link in links if link.checkpoint.run == run], found


async def told_below(runtime: Runtime, runs: Sequence[Run], among: Sequence[Run]) -> dict[tuple[str, str], Told]:
    """What the runs did, `among` all of the store, that calls of these runs started, at any depth."""
    ids = {run.id for run in runs}
    below: dict[tuple[str, str], list[Run]] = {}
    for run in among:
        if run.parent_run in ids and run.parent_call is not None:
            below.setdefault((run.parent_run, run.parent_call), []).append(run)
    found: dict[tuple[str, str], Told] = {}
    for call, started in below.items():
        links, rows = await history(runtime, started[0].session)
        calls = [row for run in rows for row in await runtime.calls(run.id)]
        found[call] = Told(links, rows, await standing(runtime, rows, started[0].session), calls, await told_below(runtime, rows, among))
    return found


def as_object(session: str, links: Sequence[Link], runs: Sequence[Run], calls: Sequence[CallRow], *, graph: bool) -> dict[str, Any]:
    """`{session, head, runs, checkpoints, nodes, calls, graph?}`, rows in the export's shapes, checkpoints with their facts."""
    nodes = [node for link in links for node in link.nodes]
    found: dict[str, Any] = {
        "session": session,
        "head": links[-1].checkpoint.id if links else None,
        "runs": [run_row(one) for one in runs],
        "checkpoints": [{**checkpoint_row(link.checkpoint), "facts": dict(link.checkpoint.facts)} for link in links],
        "nodes": [node.to_json(index) for index, node in enumerate(nodes, 1)],
        "calls": [call_row(one) for one in calls],
    }
    return {**found, "graph": causal_graph(nodes)} if graph else found


def _print(session: str, links: Sequence[Link], runs: Sequence[Run], standings: Mapping[str, Standing]) -> None:
    terminal = Terminal()
    terminal.say(f"session {session}  head {links[-1].checkpoint.id if links else 'none'}")
    terminal.pieces(trace(links, {one.id: one for one in runs}, standings, width=terminal.width))
    here = {link.checkpoint.run for link in links}
    others = [one for one in runs if one.id not in here]
    if others:
        terminal.pieces([Piece(f"\n{counted(len(others), 'run')} not on this branch (see them with --run):\n", "quiet")])
        terminal.pieces(Piece(f"  {one.id}  {one.status}  {asked(one)}\n") for one in others)

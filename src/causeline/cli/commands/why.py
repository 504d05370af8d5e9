"""`causeline why`: what the model had read when it said or did something."""

from collections.abc import Sequence
from typing import Annotated

import typer

from causeline.causal import AgentState, CausalNode
from causeline.causal.view.node_text import node_text
from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal, table
from causeline.cli.views.tree import Twig, drawn
from causeline.cli.whole_ids import whole_node, whole_run, whole_session
from causeline.errors import Missing
from causeline.runtime.runtime import Runtime


def command(
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="A causal node's id, cw_..., or a run's: its answer. Without one: what was said last."),
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="In this session, where several have the node.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what lies behind that: all the causes of the model's reply.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print what the model had read when it said or did something, as a tree from the effect up to its causes.

    Those are the reply of the model that a causal node came from, and what this reply was made from. In a conversation that the
    model reads whole, the last things said stand for everything before them; --all lists that too, oldest first, back to the
    system prompt and the question.
    """

    async def why() -> None:
        async with opened(store) as runtime:
            place = None if session is None else await whole_session(runtime, session)
            log, name = await log_of(runtime, node or await latest(runtime, place), place)
        found = read_set(log, name, everything=everything)
        if as_json:
            print(line({"node": name, "why": [one.to_json() for one in found]}))
            return
        terminal = Terminal()
        if everything:
            for row in table((node.id, node.kind, node_text(node.kind, node.payload)) for node in found):
                terminal.say(row)
        else:
            terminal.pieces(drawn(upward(log, name, found), width=terminal.width))
        terminal.say(_remark(log, name, found, everything=everything), "quiet")

    leave(why())


async def log_of(runtime: Runtime, name: str, session: str | None) -> tuple[AgentState, str]:
    """The log to read, and the node that is asked about: a node of this id, or the last that the model said in a run. Raises Missing."""
    if name.startswith("cw_"):
        node = await whole_node(runtime, name, session)
        return await runtime.log_with(node, session), node
    try:
        run = await runtime.run(await whole_run(runtime, name))
    except Missing:
        return await runtime.log_with(name, session), name
    log = (await runtime.branch(run.session, run.head)).state
    said = [node.id for node in log.nodes if node.kind in ("answer", "inference")]
    if not said:
        raise Missing(f"the model has said nothing in run {run.id} yet", run=run.id)
    return log, said[-1]


def read_set(log: AgentState, node: str, *, everything: bool) -> Sequence[CausalNode]:
    """The read set of a node's inference and that inference; with `everything` all the causes of the inference. In log order."""
    found = log.why(node)
    if not everything or not found:
        return found
    reply = found[-1]
    chosen = {reply.id, *log.ancestors([reply.id])}
    return [one for one in log.nodes if one.id in chosen]


async def latest(runtime: Runtime, session: str | None) -> str:
    """The run, of a session or of all, that has come furthest last. Raises Missing where nothing ran yet."""
    runs = [run for run in await runtime.runs(session) if run.head is not None and run.parent_call is None]
    if not runs:
        raise Missing("nothing has been said yet; `causeline run` asks an agent")
    return runs[-1].id


def upward(log: AgentState, name: str, found: Sequence[CausalNode]) -> Sequence[Twig]:
    """The node, above it the reply it came from, above that what the reply was made from; a cause hangs on the first it led to."""
    chosen = {node.id: node for node in (*found, log.node(name))}
    hung: set[str] = set()

    def grown(node: CausalNode) -> Twig:
        hung.add(node.id)
        twig = Twig(f"{node.kind:<12} {node.id}  {node_text(node.kind, node.payload)}", "title" if node.id == name else "plain")
        twig.twigs.extend(grown(chosen[parent]) for parent in reversed(node.parents) if parent in chosen and parent not in hung)
        return twig

    trunk = grown(chosen[name])
    rest = [node for node in found if node.id not in hung]
    return [trunk, *(grown(node) for node in reversed(rest) if node.id not in hung)]


def _remark(log: AgentState, node: str, found: Sequence[CausalNode], *, everything: bool) -> str:
    if not found:
        return f"no inference led to this: it is a {log.node(node).kind}, which comes from outside the model"
    further = len(read_set(log, node, everything=True)) - len(found)
    if everything or not further:
        return "these are all the causes there are"
    return f"{further} more lie behind these (--all)"

"""`causeline why`: what the model had read when it said or did something."""

from collections.abc import Sequence
from typing import Annotated

import typer

from causeline.causal import AgentState, CausalNode
from causeline.causal.view.node_text import node_text
from causeline.cli.opening import leave, opened, whole_id
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal, table
from causeline.errors import Missing
from causeline.runtime.runtime import Runtime


def command(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A causal node's id, cw_..., or a run's: its answer.")],
    session: Annotated[str | None, typer.Option(metavar="ID", help="In this session, where several have the node.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what lies behind that: all the causes of the model's reply.")] = False,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print what the model had read when it said or did something.

    That is the read set of a causal node: the reply of the model it came from, last, and the heads of the log that this reply was
    made from. In a conversation that the model reads whole, the heads stand for everything before them; --all lists that too, back
    to the system prompt and the question.
    """

    async def why() -> None:
        async with opened(store) as runtime:
            log, name = await log_of(runtime, node, session)
        found = read_set(log, name, everything=everything)
        if as_json:
            print(line({"node": name, "why": [one.to_json() for one in found]}))
            return
        terminal = Terminal()
        for row in table((one.id, one.kind, node_text(one.kind, one.payload)) for one in found):
            terminal.say(row)
        terminal.say(_remark(log, name, found, everything=everything), "quiet")

    leave(why())


async def log_of(runtime: Runtime, name: str, session: str | None) -> tuple[AgentState, str]:
    """The log to read, and the node that is asked about: a node of this id, or the last that the model said in a run. Raises Missing."""
    if name.startswith("cw_"):
        return await runtime.log_with(name, session), name
    try:
        run = await runtime.run(await whole_id(runtime, "run", name))
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


def _remark(log: AgentState, node: str, found: Sequence[CausalNode], *, everything: bool) -> str:
    if not found:
        return f"no inference led to this: it is a {log.node(node).kind}, which comes from outside the model"
    further = len(read_set(log, node, everything=True)) - len(found)
    if everything or not further:
        return "the last one is the model's reply; the others are all the causes it has"
    return f"the last one is the model's reply; the others are what it was made from; {further} more lie behind them (--all)"

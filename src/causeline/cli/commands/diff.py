"""`causeline diff`: what changed between two checkpoints or the ends of two runs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from causeline.causal import AgentState, CausalNode, diff
from causeline.causal.view.node_text import node_text
from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_checkpoint, whole_run
from causeline.runtime.runtime import Runtime

_WHERE = "A checkpoint (ck_...) or a run, which stands for its end."


def command(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_WHERE)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help=_WHERE)],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print what only one of two logs has: - for the first, + for the second, and which resources differ."""

    async def compare() -> None:
        async with opened(store) as runtime:
            found = diff(await _log(runtime, before), await _log(runtime, after))
        if as_json:
            pairs = {key: [None if node is None else node.id for node in pair] for key, pair in found.resources.items()}
            rows: dict[str, Any] = {"common": found.common, "before": _rows(found.before), "after": _rows(found.after), "resources": pairs}
            print(line(rows))
            return
        terminal = Terminal()
        terminal.say(f"{found.common} nodes in both", "quiet")
        for sign, nodes in (("-", found.before), ("+", found.after)):
            for node in nodes:
                terminal.say(f"{sign} {node.id}  {node.kind}  {node_text(node.kind, node.payload)[:160]}")
        for key in found.resources:
            terminal.say(f"~ {key}")

    leave(compare())


async def _log(runtime: Runtime, name: str) -> AgentState:
    if name.startswith("ck_"):
        place = await runtime.checkpoint(await whole_checkpoint(runtime, name))
        return (await runtime.branch(place.session, place.id)).state
    run = await runtime.run(await whole_run(runtime, name))
    return (await runtime.branch(run.session, run.head)).state if run.head is not None else AgentState()


def _rows(nodes: Iterable[CausalNode]) -> list[dict[str, Any]]:
    return [node.to_json() for node in nodes]

"""`causeline diff`: what changed between two checkpoints or the ends of two runs."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from causeline.causal import CausalNode
from causeline.causal.payload import as_text
from causeline.causal.view.changes import changed_fields
from causeline.causal.view.node_text import node_text
from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_checkpoint, whole_node, whole_run, whole_session
from causeline.runtime.runtime import Runtime

_WHERE = "A checkpoint (ck_...), a run, which stands for its end, or a session; or a causal node (cw_...), two versions of one thing."


def command(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_WHERE)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help=_WHERE)],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print what only one of two logs has: - for the first, + for the second, and which resources differ."""

    async def compare() -> None:
        async with opened(store) as runtime:
            found = await runtime.diff(await _whole(runtime, before), await _whole(runtime, after))
        if as_json:
            pairs = {key: [None if node is None else node.id for node in pair] for key, pair in found.resources.items()}
            changes = {key: [list(change) for change in _changes(pair)] for key, pair in found.resources.items()}
            rows: dict[str, Any] = {"common": found.common, "before": _rows(found.before), "after": _rows(found.after), "resources": pairs}
            print(line({**rows, "changes": changes}))
            return
        terminal = Terminal()
        terminal.say(f"{found.common} nodes in both", "quiet")
        for sign, nodes in (("-", found.before), ("+", found.after)):
            for node in nodes:
                terminal.say(f"{sign} {node.id}  {node.kind}  {node_text(node.kind, node.payload)[:160]}")
        for key, pair in found.resources.items():
            terminal.say(f"~ {key}")
            for path, old, new in _changes(pair):
                terminal.say(f"    {path or 'payload'}: {_short(old)} -> {_short(new)}")

    leave(compare())


async def _whole(runtime: Runtime, name: str) -> str:
    """The name that this is the beginning of: of a checkpoint, of a run, or of a session."""
    if name.startswith("cw_"):
        return await whole_node(runtime, name)
    if name.startswith("ck_"):
        return await whole_checkpoint(runtime, name)
    run = await whole_run(runtime, name)
    return run if run != name else await whole_session(runtime, name)


def _changes(pair: tuple[CausalNode | None, CausalNode | None]) -> list[tuple[str, Any, Any]]:
    """Where two versions differ; nothing where one of them is not there."""
    before, after = pair
    return changed_fields(before.payload, after.payload) if before is not None and after is not None else []


def _short(value: Any) -> str:
    return "-" if value is None else as_text(value)[:200]


def _rows(nodes: Iterable[CausalNode]) -> list[dict[str, Any]]:
    return [node.to_json() for node in nodes]

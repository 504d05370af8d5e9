"""`causeline history`: the versions of a file, a resource or a note."""

from typing import Annotated

import typer

from causeline.causal.view.node_text import node_text
from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal, table
from causeline.cli.views.trace import when
from causeline.cli.whole_ids import whole_session


def command(
    key: Annotated[str, typer.Argument(metavar="KEY", help="A path, or a whole resource key such as semantic:memory:NAME.")],
    session: Annotated[str, typer.Option(metavar="ID", help="In this session.")],
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print every version of a file, a resource or a note, oldest first."""

    async def versions() -> None:
        async with opened(store) as runtime:
            found = await runtime.history(key, await whole_session(runtime, session))
        if as_json:
            print(line({"key": found[0].resource_key, "versions": [node.to_json() for node in found]}))
            return
        terminal = Terminal()
        for row in table((node.id, when(node.created_at), node_text(node.kind, node.payload)) for node in found):
            terminal.say(row)

    leave(versions())

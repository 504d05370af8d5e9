"""`causeline why`: what the model had read when it said or did something."""

from typing import Annotated

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.options import DEFAULT_STORE, AsJson, Store
from causeline.cli.terminal import Terminal, table
from causeline.cli.text import line
from causeline.cli.trace import node_text


def command(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A causal node's id, cw_...; `causeline show SESSION` prints them.")],
    session: Annotated[str | None, typer.Option(metavar="ID", help="In this session, where several have the node.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print what the model had read when it said or did something.

    That is the read set of a causal node: the reply of the model it came from, last, and what that reply was made from.
    """

    async def why() -> None:
        async with opened(store) as runtime:
            found = await runtime.why(node, session)
        if as_json:
            print(line({"node": node, "why": [one.to_json() for one in found]}))
            return
        for row in table((one.id, one.kind, node_text(one.kind, one.payload)) for one in found):
            Terminal().say(row)

    leave(why())

"""`causeline import`: take an exported session into a store."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store, store_words
from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.clean_text import line
from causeline.cli.views.terminal import Terminal
from causeline.errors import Conflict
from causeline.view_models.html_page import export_in


def command(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An export, a page of one, or a bare causal log as JSON; - reads standard input.")
    ],
    head: Annotated[str | None, typer.Option(metavar="CK", help="The checkpoint id the file must end at, known from elsewhere.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Verify an export whole, then take it in. Nothing is written if anything in it is wrong, or if the session is here already.

    A bare causal log becomes a session of its own.
    """

    async def take_in() -> None:
        data = export_in(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes())
        async with opened(store, new=True) as runtime:
            try:
                session = await runtime.import_(data, head=head)
            except Conflict as error:
                raise Conflict(
                    error.message, code="session_exists" if error.code == "session_exists" else "exists", **error.facts
                ) from error
            found = (await runtime.branch(session)).head
        if as_json:
            print(line({"session": session, "head": found.id if found else None}))
            return
        Terminal().say(f"imported session {session}, head {found.id if found else 'none'}", "good")
        Terminal().say(f"  {command_line('show', session, *store_words(store))}", "call")

    leave(take_in())

"""`causeline recall`: what earlier runs have to say, with its sources."""

from typing import Annotated

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import clean, line
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_session
from causeline.errors import Misuse


def command(
    session: Annotated[str | None, typer.Argument(metavar="[SESSION]", help="Only what this session's runs have to say.")] = None,
    query: Annotated[str, typer.Option(metavar="TEXT", help="What it should be about: runs that share its words come first.")] = "",
    most: Annotated[int, typer.Option("--runs", min=1, help="At most so many runs.")] = 5,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=1, help="At most so many tokens, estimated.")] = 1000,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Print what a later run would be told of earlier ones.

    Bounded, best first; each line with its run, step and causal node.
    """
    if session is None and not query.strip():
        raise Misuse("say what to recall: a SESSION, or --query TEXT over all of them")

    async def recall() -> None:
        async with opened(store) as runtime:
            place = None if session is None else await whole_session(runtime, session)
            found = await runtime.recall(place, query, k=most, max_tokens=max_tokens)
        if as_json:
            print(line({"text": found.text, "citations": [dict(one) for one in found.citations]}))
        else:
            Terminal().say(clean(found.text) or "nothing found")

    leave(recall())

"""`causeline query`: SPARQL over what led to what."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, AsJson, Store
from causeline.cli.views.clean_text import clean, line, one_line, short
from causeline.cli.views.terminal import Terminal, table
from causeline.cli.whole_ids import whole_session

_WIDTH = 100


def command(
    sparql: Annotated[str, typer.Argument(metavar="SPARQL", help="A query; the prefixes prov, ns, rdfs, rdf and xsd are known.")],
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only this session.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Ask the provenance of what was done, in SPARQL.

    Runs, steps, calls, causal nodes, agents, models and people are statements in PROV-O terms; docs/reference/memory.md lists them.
    SELECT prints a table, ASK yes or no, CONSTRUCT and DESCRIBE print N-Triples.
    """

    async def query() -> None:
        async with opened(store) as runtime:
            answer = await runtime.query(sparql, session=None if session is None else await whole_session(runtime, session))
        if as_json:
            print(line(answer))
        else:
            _print(answer)

    leave(query())


def _print(answer: Any) -> None:
    terminal = Terminal()
    if isinstance(answer, bool):
        terminal.say("yes" if answer else "no")
    elif isinstance(answer, str):
        terminal.say(clean(answer.rstrip("\n")))
    elif not answer:
        terminal.say("nothing found", "quiet")
    else:
        rows: list[Mapping[str, Any]] = answer
        names = list(dict.fromkeys(name for row in rows for name in row))
        cells = [[short(one_line(row[name]["value"]), _WIDTH) if name in row else "" for name in names] for row in rows]
        for printed in table([names, *cells]):
            terminal.say(printed)

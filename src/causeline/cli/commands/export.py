"""`causeline export`: a session as one file that proves itself."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from causeline.causal import verify_export
from causeline.cli.opening import leave, opened
from causeline.cli.shared_arguments import DEFAULT_STORE, SessionName, Store
from causeline.cli.views.terminal import Terminal
from causeline.cli.whole_ids import whole_checkpoint, whole_session
from causeline.errors import Misuse
from causeline.runtime.export_import import rows_of
from causeline.runtime.records import Link
from causeline.runtime.runtime import Runtime
from causeline.view_models.html_page import page
from causeline.view_models.waterfall import call_times

_EVENTS = 20_000
"""Of runs with more events the tool calls are drawn as long as their step."""


def command(
    session: SessionName,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to standard output.")] = None,
    at: Annotated[str | None, typer.Option(metavar="CK", help="The branch that ends at this checkpoint, instead of the session's.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every branch of the session.")] = False,
    html: Annotated[
        bool, typer.Option("--html", help="A page to look at: conversation, timeline and causes, with the export itself inside.")
    ] = False,
    store: Store = DEFAULT_STORE,
) -> None:
    """Write a session as one file. `causeline verify FILE` checks it anywhere, `causeline import FILE` takes it into a store.

    The head that is printed, written down elsewhere, later proves that the file is this history and all of it.
    """
    if output is None and sys.stdout.isatty():
        raise Misuse("an export is long: name a file with -o FILE, or send the output somewhere with > or |")

    async def export() -> None:
        async with opened(store) as runtime:
            place = await whole_session(runtime, session)
            end = None if at is None else await whole_checkpoint(runtime, at, place)
            data = await runtime.export(place, at=end, all=everything)
            written = await _page(runtime, data) if html else data + b"\n"
        if output is None:
            sys.stdout.buffer.write(written)
            sys.stdout.buffer.flush()
            return
        output.write_bytes(written)
        Terminal().say(f"wrote {output}: {len(written):,} bytes, head {verify_export(data).head}")

    leave(export())


async def _page(runtime: Runtime, data: bytes) -> bytes:
    """The export as a page."""
    bundle = verify_export(data)
    _, runs, links, _ = rows_of(bundle, bundle.owner, "")
    times: dict[tuple[str, str], tuple[float, float | None]] = {}
    for run in runs:
        if (await runtime.run(run.id)).last_event <= _EVENTS:
            times.update(call_times([event async for event in runtime.events(run.id, sub_runs=False)] if run.finished_at else []))
    heads = {link.checkpoint.id: link for link in links}
    branch: list[Link] = []
    at = bundle.head
    while at is not None:
        branch.append(heads[at])
        at = heads[at].checkpoint.parent
    return page(bundle, data, branch[::-1], {run.id: run for run in runs}, times)

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


def command(
    session: SessionName,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here instead of to standard output.")] = None,
    at: Annotated[str | None, typer.Option(metavar="CK", help="The branch that ends at this checkpoint, instead of the session's.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every branch of the session.")] = False,
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
        if output is None:
            sys.stdout.buffer.write(data + b"\n")
            sys.stdout.buffer.flush()
            return
        output.write_bytes(data + b"\n")
        Terminal().say(f"wrote {output}: {len(data) + 1:,} bytes, head {verify_export(data).head}")

    leave(export())

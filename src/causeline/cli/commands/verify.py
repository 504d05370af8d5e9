"""`causeline verify`: check an export without any store."""

from pathlib import Path
from typing import Annotated, Any

import typer

from causeline.causal import Export, verify
from causeline.cli.shared_arguments import AsJson
from causeline.cli.views.clean_text import line
from causeline.cli.views.narration import counted
from causeline.cli.views.terminal import Terminal


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export, or a bare causal log as JSON.")],
    head: Annotated[str | None, typer.Option(metavar="CK", help="The checkpoint id the export must end at, known from elsewhere.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check an export: its bytes, its digest, every id and every link. The first fault is named.

    Without --head this proves that the file is whole and consistent. With the head id you wrote down, it also proves
    that nothing was cut off its end and that it is not another history.
    """
    found = verify(file.read_bytes(), head)
    if isinstance(found, Export):
        row: dict[str, Any] = {
            "ok": True, "session": found.session, "head": found.head, "nodes": len(found.state) + len(found.nodes),
            "checkpoints": len(found.checkpoints), "runs": len(found.runs), "digest": found.digest,
        }  # fmt: skip
        counts = f"{counted(row['nodes'], 'node')}, {counted(row['checkpoints'], 'checkpoint')}, {counted(row['runs'], 'run')}"
        told = f"ok: {counts}; head {found.head}"
    else:
        row = {"ok": True, "nodes": len(found), "frontier": found.frontier}
        told = f"ok: {counted(len(found), 'node')}, {counted(len(found.frontier), 'head')} in force"
    if as_json:
        print(line(row))
    else:
        Terminal().say(told, "good")

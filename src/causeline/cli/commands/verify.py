"""`causeline verify`: check an export without any store."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from causeline.causal import Export, verify
from causeline.cli.opening import leave, opened, own_store
from causeline.cli.shared_arguments import AsJson
from causeline.cli.views.clean_text import clean, line
from causeline.cli.views.error_report import FAILED
from causeline.cli.views.terminal import Terminal
from causeline.errors import Misuse
from causeline.plain_text import counted
from causeline.view_models.html_page import export_in


def command(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="An export, a page of one, or a bare causal log as JSON; - reads standard input."),
    ] = None,
    head: Annotated[str | None, typer.Option(metavar="CK", help="The checkpoint id the export must end at, known from elsewhere.")] = None,
    store: Annotated[str | None, typer.Option("--store", metavar="URL", help="Check everything in this store instead of a file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check an export: its bytes, its digest, every id and every link. The first fault is named. With --store, check a whole store.

    Without --head this proves that the file is whole and consistent. With the head id you wrote down, it also proves
    that nothing was cut off its end and that it is not another history.
    """
    if store is not None and file is None and head is None:
        leave(_check_store(store, as_json=as_json))
    if file is None or store is not None:
        raise Misuse("name a FILE to check, or a whole store with --store URL")
    found = verify(export_in(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()), head)
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


async def _check_store(store: str, *, as_json: bool) -> int:
    """Check every session of a store; 1 where anything in it is no run's writing."""
    own_store(store, "verify --store")
    async with opened(store) as runtime:
        report = await runtime.verify_store()
    if as_json:
        print(line({"ok": report.ok, **asdict(report)}))
        return 0 if report.ok else FAILED
    terminal = Terminal()
    for fault in report.faults:
        where = f"session {fault.session}" + (f", run {fault.run}" if fault.run else "")
        terminal.say(f"{where}: {clean(fault.message)}", "bad")
    counts = f"{counted(report.sessions, 'session')}, {counted(report.runs, 'run')}, {counted(report.checkpoints, 'checkpoint')}"
    terminal.say(f"ok: {counts}" if report.ok else f"{counted(len(report.faults), 'fault')} in {counts}", "good" if report.ok else "bad")
    return 0 if report.ok else FAILED

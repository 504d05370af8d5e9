"""`causeline graph`: check and draw graph documents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from causeline.cli.shared_arguments import AsJson
from causeline.cli.views.clean_text import clean, line
from causeline.cli.views.error_report import FAILED
from causeline.cli.views.terminal import Terminal
from causeline.graph import DocumentError, Finding, load, mermaid
from causeline.graph import check as check_document
from causeline.plain_text import counted

app = typer.Typer(
    help="Check and draw graph documents.", add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip

GraphFile = Annotated[Path, typer.Argument(metavar="FILE", help="A graph document, JSON-LD.")]


@app.command()
def check(file: GraphFile, as_json: AsJson = False) -> None:
    """List everything that is wrong with a document, with its placement and its place in the file. Exit code 1 if there is anything.

    Only what the document itself shows is checked; which nodes there are is known when it is registered.
    """
    findings = found(file)
    if as_json:
        print(line({"findings": [one.to_json() for one in findings]}))
    else:
        terminal = Terminal()
        for one in findings:
            terminal.say(clean(str(one)))
        told = f"{file}: {counted(len(findings), 'finding')}" if findings else f"ok: {file}"
        terminal.say(told, "bad" if findings else "good")
    raise typer.Exit(FAILED if findings else 0)


def found(file: Path) -> Sequence[Finding]:
    """The findings of a document, also of one that cannot be read as a document."""
    data = file.read_bytes()
    try:
        return check_document(load(data))
    except DocumentError as error:
        return [one for one in error.findings if isinstance(one, Finding)]


@app.command(name="mermaid")
def draw(file: GraphFile) -> None:
    """Print a document as a Mermaid flowchart."""
    print(mermaid(load(file.read_bytes())), end="")

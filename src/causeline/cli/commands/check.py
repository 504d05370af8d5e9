"""`causeline check`: everything that is wrong with an agent's file, at once."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any

import typer

from causeline.assemble import examine_agent
from causeline.cli.shared_arguments import AsJson
from causeline.cli.views.clean_text import clean, line
from causeline.cli.views.error_report import FAILED
from causeline.cli.views.terminal import Terminal, set_aside
from causeline.plain_text import counted


def command(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="agent.toml, .json, .hcl, or module:name, file.py:name.")],
    as_json: AsJson = False,
) -> None:
    """List everything that is wrong with an agent's file, by line.

    Its tools are loaded and its models are opened: a script that is none, or a key or package that is missing here, is a finding too.
    Nothing is run and nothing is sent. Exit code 1 if there are any findings.
    """
    with set_aside() if as_json else nullcontext():  # its modules may print
        name, findings = asyncio.run(examine_agent(agent))
    if as_json:
        print(line({"agent": name, "findings": [finding_row(one) for one in findings]}))
    else:
        terminal = Terminal()
        for finding in findings:
            terminal.say(clean(str(finding)))
        told = f"{agent}: {counted(len(findings), 'finding')}" if findings else f"ok: agent {name}"
        terminal.say(told, "bad" if findings else "good")
    raise typer.Exit(FAILED if findings else 0)


def finding_row(finding: Any) -> Mapping[str, Any]:
    """`{message, place, file, line}` as far as the finding knows them."""
    if is_dataclass(finding) and not isinstance(finding, type):
        return asdict(finding)
    return {"message": str(finding)}

"""`causeline new`: a directory with an agent that runs."""

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from causeline.cli.views.clean_text import command as command_line
from causeline.cli.views.terminal import Terminal
from causeline.errors import Conflict

FILES = ("agent.toml", "tools.py", "script.json", "README.md")


def command(directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that is not there yet, or is empty.")]) -> None:
    """Write a small agent into a new directory.

    Its settings, a tool, and a script for a model that needs no network: it runs as it is. Nothing that is there is overwritten.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Conflict(f"{directory} is there already and not an empty directory; choose another name", code="exists")
    directory.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        with (directory / name).open("xb") as file:
            file.write(resources.files("causeline.cli.template").joinpath(name).read_bytes())
    terminal = Terminal()
    terminal.say(f"wrote {', '.join(str(directory / name) for name in FILES)}", "good")
    terminal.say("Ask it something:")
    terminal.say(f"  cd {directory}", "call")
    terminal.say(f"  {command_line('run', 'How many lamps are there?', '--agent', 'agent.toml')}", "call")

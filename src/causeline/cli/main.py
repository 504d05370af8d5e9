"""The command table, and the one place where errors become messages and exit codes.

Law: importing this module loads no command. A command's module is imported when it is called.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from causeline.cli.views.error_report import report, set_debug
from causeline.cli.views.terminal import harden_streams

_PANELS: Mapping[str, Mapping[str, str]] = {
    "Begin": {"demo": "Watch an agent work, die, come back and remember.", "new": "Write a small agent into a new directory."},
    "Run": {
        "run": "Ask an agent, and watch it work.",
        "chat": "Talk to an agent, turn by turn.",
        "answer": "Answer an open question.",
        "resume": "Go on with a run whose process is gone.",
        "cancel": "Ask a run to stop, and wait until it has.",
        "fork": "Start a new run from an earlier checkpoint.",
        "replay": "Go through a run again; show what differs from then.",
        "worker": "Drive the runs that nobody drives, until told to stop.",
        "serve": "Serve agents over HTTP: /v1, AG-UI at /ag-ui, /docs.",
        "mcp": "Offer an agent as a tool over the Model Context Protocol.",
    },
    "Look": {
        "sessions": "List the sessions, newest last.",
        "runs": "List runs, newest last, with their open questions.",
        "show": "Print the trace of a session, or its causal graph.",
        "watch": "Follow a run, wherever it is driven.",
        "why": "Print what the model had read when it said something.",
        "recall": "Print what a later run would be told of earlier ones.",
        "query": "Ask the provenance of what was done, in SPARQL.",
        "history": "Print every version of a file, a resource or a note.",
        "diff": "Print what only one of two logs has.",
    },
    "Keep": {
        "export": "Write a session as one file.",
        "import": "Verify an export whole, then take it in.",
        "verify": "Check an export: its bytes, every id and every link.",
        "delete": "Remove a session and all that belongs to it, for good.",
        "migrate": "Bring the schema of a store up to date.",
    },
    "Check": {"check": "List everything that is wrong with an agent's file.", "graph": "Check and draw graph documents."},
}
"""The commands with a line on each: the list of all of them is printed without loading any."""
COMMANDS = tuple(name for names in _PANELS.values() for name in names)
_HOMES = {"demo": "demo", "import": "commands.import_"}
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


def _debug(value: bool) -> bool:
    if value:
        set_debug(True)
    return value


_DEBUG = "Show the Python traceback of an error, and of tools that failed."
Debug = Annotated[bool, typer.Option("--debug", callback=_debug, help=_DEBUG, show_default=False)]


class _Table(TyperGroup):
    """Finds a command by name: it is `command`, or the group `app`, of the module `causeline.cli.commands.NAME`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _load(cmd_name) if cmd_name in COMMANDS else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for panel, commands in _PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(list(commands.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(COMMANDS)  # the names from which a misspelt one is guessed
        return super().resolve_command(ctx, args)


def _load(name: str) -> Any:
    module = import_module(f"causeline.cli.{_HOMES.get(name, f'commands.{name}')}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, context_settings=_SETTINGS)(module.command)
    command: Any = typer.main.get_command(app)
    command.name = name
    command.params.append(_debug_option())
    return command


def _debug_option() -> Any:
    """`--debug` as an option for every command, kept from the command's own arguments."""
    one = typer.Typer(add_completion=False)

    @one.command()
    def _switch(debug: Debug = False) -> None: ...

    option: Any = typer.main.get_command(one).params[0]
    option.expose_value = False
    return option


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import version  # noqa: PLC0415 - takes a while, and is asked for seldom

        print(f"causeline {version('causeline')}")
        raise typer.Exit


app = typer.Typer(cls=_Table, add_completion=False, rich_markup_mode=None, context_settings=_SETTINGS, no_args_is_help=True)


@app.callback(
    epilog="The store is --store URL, else CAUSELINE_STORE, else sqlite:///.causeline/store.db. `causeline COMMAND --help` tells more."
)
def root(
    debug: Debug = False,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.", show_default=False)
    ] = False,
) -> None:
    """ReAct agents that survive, explain themselves and remember."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and leave with its exit code."""
    harden_streams()
    set_debug(False)
    try:
        typer.main.get_command(app).main(arguments, prog_name="causeline")
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a message
        sys.exit(report(error))

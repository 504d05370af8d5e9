"""Arguments and options that several commands share, so that one word means one thing everywhere."""

import os
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

from causeline.runtime.records import RUN_STATUSES

DEFAULT_STORE = "sqlite:///.causeline/store.db"
STORE_VARIABLE = "CAUSELINE_STORE"


def _statuses(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        if value not in RUN_STATUSES:
            raise typer.BadParameter(f"{value!r} is no status; write one of {', '.join(RUN_STATUSES)}")
    return values


Store = Annotated[
    str,
    typer.Option(
        "--store",
        "--server",
        envvar=STORE_VARIABLE,
        metavar="URL",
        help="Where sessions are kept: sqlite:///FILE, postgresql://HOST/DATABASE, or the http:// address of a server.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for another program.")]
EventsAsJson = Annotated[bool, typer.Option("--json", help="Print one event a line as JSON, then one object with the result.")]
Statuses = Annotated[
    list[str] | None,
    typer.Option(
        "--status", metavar="STATUS", callback=_statuses, help=f"Only those that stand so: {', '.join(RUN_STATUSES)}. May be given again."
    ),
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the newest N.")]
AgentFile = Annotated[
    str,
    typer.Option(
        "--agent",
        "-a",
        metavar="AGENT",
        help="The agent: agent.toml, .json, .hcl, or module:name, file.py:name. With --server the name of an agent it serves.",
    ),
]
OtherAgent = Annotated[
    str | None, typer.Option("--agent", "-a", metavar="AGENT", help="Use this agent instead of the one stored with the run.")
]
Model = Annotated[
    str | None, typer.Option(metavar="NAME", help="Use this model instead of the agent's: openai:NAME, local:smollm2, scripted:FILE.")
]
BaseUrl = Annotated[str | None, typer.Option("--base-url", metavar="URL", help="Where the model's API is, instead of the agent's.")]
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="A session id; `causeline sessions` lists them.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run id; `causeline runs` lists them.")]
OnBusy = Annotated[
    Literal["reject", "enqueue", "cancel"],
    typer.Option("--on-busy", help="If a run of the session is under way: refuse, wait for it, or cancel it."),
]


def is_server(store: str) -> bool:
    """True for the address of a causeline server, which does what a command asks for."""
    return store.startswith(("http://", "https://"))


def store_words(store: str) -> Sequence[str]:
    """The words that make another command line use the same store: none if it would anyway."""
    return () if store == (os.environ.get(STORE_VARIABLE) or DEFAULT_STORE) else ("--store", store)

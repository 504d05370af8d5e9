"""What clients send to /v1, and the rows that they are sent. Unknown fields are refused."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from causeline.errors import Invalid
from causeline.runtime.records import Checkpoint, Interrupt, Run, Session

NAME = r"^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$"
Json = dict[str, Any]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewSession(_Body):
    """A session to be created; without an id it gets one."""

    id: str | None = Field(None, max_length=128, examples=["trip-planning"])
    metadata: Json | None = Field(
        None, description="Free to use; `{{ metadata.NAME }}` in a system prompt reads it.", examples=[{"user": "ada"}]
    )
    context: Json | None = Field(None, description="The context object that the first run starts with.")


class Decision(_Body):
    """What a person decided about one open interrupt."""

    interrupt_id: str = Field(max_length=128)
    decision: Literal["approve", "deny", "edit", "answer", "retry", "record", "fail"]
    value: Any = Field(None, description="New arguments (edit), the answer, or the result (record).")
    reason: str | None = Field(None, max_length=20_000)
    by: str | None = Field(None, max_length=200, description="Who decided; the owner where it is left out.")

    def to_plain(self) -> Json:
        """The decision as the runtime takes it: keys that were not sent are not there."""
        return {name: value for name, value in self.model_dump(exclude_unset=True).items() if name != "interrupt_id"}


class NewRun(_Body):
    """A run to be started. `prompt` is short for one user message."""

    agent: str | None = Field(None, max_length=200, description="Needed where the server has several agents.")
    run_id: str | None = Field(None, max_length=128, description="A name for the run. The same name with the same body is the same run.")
    prompt: str | None = None
    messages: list[Json] | None = Field(None, max_length=10_000)
    tools: list[Json] = Field(default_factory=list[Json], max_length=256, description="Definitions of tools that the client executes.")
    context: Json | None = None
    checkpoint_id: str | None = Field(None, max_length=128, description="Start from this checkpoint instead of the session's head: a fork.")
    mode: Literal["attached", "detached"] = "attached"
    on_busy: Literal["reject", "enqueue", "cancel"] = "reject"
    resume: list[Decision] = Field(default_factory=list[Decision], max_length=1000)

    def input(self) -> Sequence[Mapping[str, Any]] | str | None:
        """What the caller says. Raises Invalid where it is said twice, or beside answers."""
        if self.prompt is not None and self.messages is not None:
            raise Invalid("send prompt or messages, not both", findings=["prompt: there are messages too"])
        says = self.prompt if self.prompt is not None else self.messages
        if self.resume and (isinstance(says, str) or any(message.get("role") == "user" for message in says or ())):
            raise Invalid("a run answers questions or says something new, not both", findings=["resume: there is a user message too"])
        return says


class Page(_Body):
    """One page of a list; `next` goes into `after` for the following one, null at the end."""

    data: list[Json]
    next: str | None = None


def session_row(session: Session) -> Json:
    """`{id, head, metadata, created_at, updated_at}`."""
    row = asdict(session)
    return {name: row.get(name) for name in ("id", "head", "metadata", "created_at", "updated_at")}


def run_row(run: Run) -> Json:
    """A run without what only the runtime needs: its lease, and the definition of its agent."""
    row = asdict(run)
    hidden = ("owner", "manifest", "holder", "beat", "queue", "cancel_requested")
    return {name: value for name, value in row.items() if name not in hidden}


def checkpoint_row(checkpoint: Checkpoint) -> Json:
    """The names of an export: `{id, session, run, step, parent, path, node, port, next, appended, frontier, delta, created_at, facts}`."""
    row = asdict(checkpoint)
    row.pop("position")
    return row


def interrupt_row(interrupt: Interrupt) -> Json:
    """`{id, session, run, path, kind, tool_call_id, name, arguments, question, reason, state, answered_by}`."""
    row = asdict(interrupt)
    hidden = ("args_hash", "checkpoint", "decision", "parent_call")
    return {name: value for name, value in row.items() if name not in hidden}

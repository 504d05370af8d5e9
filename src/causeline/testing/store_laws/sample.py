"""Rows to write and a way to read everything back: what the laws have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import pytest

from causeline.causal import AgentState, CausalNode, checkpoint_id
from causeline.errors import Conflict
from causeline.run.ledger import Call, CallState
from causeline.runtime.records import CallRow, Checkpoint, Commit, Interrupt, OnBusy, Progress, Run, RunPatch, Session
from causeline.runtime.store import Store

OWNER = "ada"
KINDS: tuple[Any, ...] = (Session, Run, Checkpoint, CallRow, Interrupt, Progress)
AT = "2026-11-30T10:00:00.000Z"
LATER = "2026-11-30T10:00:01.000Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What the laws run on.

    `connect` gives a Store on the same, at first empty, data each time; it is not opened yet. A backend that is
    not `durable` gives the same object each time. `process` says how another process gets such a Store:
    `"module:function"` and the function's only argument, for example `("causeline.adapters.stores:open_store",
    "sqlite:///x.db")`; None where no other process can.
    """

    connect: Callable[[], Store]
    durable: bool = True
    process: tuple[str, str] | None = None


def new_run(name: str = "r1", **fields: Any) -> Run:
    """A run that starts at once, with a user message."""
    given: dict[str, Any] = {
        "id": name,
        "session": "s1",
        "owner": OWNER,
        "status": "running",
        "agent": "librarian",
        "created_at": AT,
        "holder": "h1",
        "input": [{"role": "user", "content": "hello"}],
    }
    return Run(**(given | fields))


def new_call(call_id: str = "call_1", state: CallState = "pending", **fields: Any) -> Call:
    """A ledger row."""
    given: dict[str, Any] = {
        "call_id": call_id,
        "name": "lookup",
        "arguments": {"q": "cats"},
        "args_hash": "0" * 64,
        "state": state,
        "index": 0,
        "step": 0,
    }
    return Call(**(given | fields))


def new_interrupt(checkpoint: str, name: str = "int_1", run: str = "r1", session: str = "s1", **fields: Any) -> Interrupt:
    """An open approval."""
    given: dict[str, Any] = {
        "id": name,
        "session": session,
        "run": run,
        "checkpoint": checkpoint,
        "kind": "approval",
        "tool_call_id": "call_1",
        "name": "lookup",
        "args_hash": "0" * 64,
        "arguments": {"q": "cats"},
        "question": "May it?",
        "reason": "effects",
        "path": ["librarian", "helper"],
        "parent_call": "call_9",
    }
    return Interrupt(**(given | fields))


class Writer:
    """Writes one run as a runner does: it knows the head, the log and the next event number of its branch."""

    def __init__(self, store: Store, run: Run, *, head: str | None = None, session_head: str | None = None) -> None:
        self.store = store
        self.run = run
        self.head = head or run.base
        self.session_head = session_head or self.head
        self.state = AgentState()
        self.step = 0
        self.next_event = 1

    def commit(self, **fields: Any) -> Commit:
        """A commit of this run and epoch; nothing is in it yet."""
        given: dict[str, Any] = {
            "run": self.run.id,
            "session": self.run.session,
            "owner": self.run.owner,
            "epoch": self.run.epoch,
            "at": AT,
            "expect_head": self.session_head,
        }
        return Commit(**(given | fields))

    def next(
        self, texts: Sequence[Any] = ("one",), *, events: int = 0, at: str = AT, extra: Mapping[str, Any] | None = None, **fields: Any
    ) -> Commit:
        """The next step: a goal node for each text, and so many events. `extra` are fields of the checkpoint."""
        nodes = [self.state.append("goal", text, created_at=at) for text in texts]
        checkpoint = self.checkpoint(nodes, at=at, **(extra or {}))
        told = [{"type": "text_message_content", "delta": f"d{self.next_event + place}"} for place in range(events)]
        return self.commit(checkpoint=checkpoint, nodes=nodes, events=told, first_event=self.next_event if events else 0, at=at, **fields)

    def checkpoint(self, nodes: Sequence[CausalNode], *, at: str = AT, facts: Mapping[str, Any] | None = None, **fields: Any) -> Checkpoint:
        """A checkpoint of the next step that appends these nodes; its id is the real one."""
        hashed: dict[str, Any] = {
            "parent": self.head,
            "run": self.run.id,
            "path": [],
            "node": "call_model",
            "port": "tools",
            "next": "call_tools",
            "appended": [node.id for node in nodes],
            "frontier": sorted(self.state.frontier),
            "delta": {"n": {"op": "override", "value": self.step}},
            "position": {"at": self.step},
        } | fields
        return Checkpoint(
            id=checkpoint_id(**hashed), session=self.run.session, step=self.step, created_at=at, facts=facts or {"ms": 1.5}, **hashed
        )

    async def write(self, commit: Commit) -> Commit:
        """Commit, and stand behind it."""
        await self.store.commit(commit)
        if commit.checkpoint is not None:
            self.head = self.session_head = commit.checkpoint.id
            self.step += 1
        self.next_event += len(commit.events)
        return commit

    async def go(self, count: int = 1, **fields: Any) -> str:
        """Write so many steps; returns the head."""
        for place in range(count):
            await self.write(self.next([f"{self.run.id} {self.step} {place}"], **fields))
        assert self.head is not None
        return self.head

    async def ask(self, *names: str) -> Sequence[Interrupt]:
        """Write a step that opens interrupts."""
        commit = self.next()
        assert commit.checkpoint is not None
        opened = [new_interrupt(commit.checkpoint.id, name, self.run.id, self.run.session, tool_call_id=f"call_{name}") for name in names]
        await self.write(replace(commit, interrupts=opened))
        return opened

    async def end(self, status: str = "succeeded", **fields: Any) -> None:
        """The last commit of the run."""
        patch = RunPatch(status=status, stop_reason=fields.pop("stop_reason", "answered"), finished_at=LATER, **fields)  # type: ignore[arg-type]
        await self.write(self.commit(patch=patch))


async def begin(store: Store, name: str = "r1", *, on_busy: OnBusy = "reject", **fields: Any) -> Writer:
    """Start a run that runs at once."""
    started = await store.start(new_run(name, **fields), on_busy)
    assert started.run.status == "running"
    return Writer(store, started.run)


async def queue(store: Store, name: str, **fields: Any) -> Run:
    """Start a run that waits."""
    started = await store.start(new_run(name, **({"status": "queued", "holder": None} | fields)), "enqueue")
    assert started.run.status == "queued"
    return started.run


async def take(store: Store, run: Run, holder: str = "h2", at: str = LATER) -> Run | None:
    """Claim a run whose lease reads as in this row."""
    return await store.claim(run.owner, run.id, holder, epoch=run.epoch, beat=run.beat, at=at)


async def run_row(store: Store, name: str = "r1", owner: str = OWNER) -> Run:
    """The stored row of a run."""
    rows = await store.rows(Run, owner=owner, id=name)
    assert len(rows) == 1
    return rows[0]


async def session_row(store: Store, name: str = "s1", owner: str = OWNER) -> Session:
    """The stored row of a session."""
    rows = await store.rows(Session, owner=owner, id=name)
    assert len(rows) == 1
    return rows[0]


def plain(value: Any) -> Any:
    """A record as plain JSON values, so that a tuple and the list it comes back as are equal."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    return value


async def everything(store: Store, owner: str | None = None) -> dict[str, Any]:
    """All that can be read of one owner or of all, as plain values."""
    found: dict[str, Any] = {kind.__name__: plain(await store.rows(kind, owner=owner)) for kind in KINDS}
    for run in await store.rows(Run, owner=owner):
        found[f"events of {run.owner} {run.id}"] = plain(await store.events(run.owner, run.id, 0))
    for session in await store.rows(Session, owner=owner):
        for row in await store.rows(Checkpoint, owner=session.owner, session=session.id):
            found[f"branch of {session.owner} {session.id} {row.id}"] = plain(await store.branch(session.owner, session.id, row.id))
    return found


async def refused(code: str, attempt: Any) -> Conflict:
    """Await something that must be refused with a Conflict of this code."""
    with pytest.raises(Conflict) as refusal:
        await attempt
    assert refusal.value.code == code
    return refusal.value


def later(run: Run, **fields: Any) -> Run:
    """The same row with other fields."""
    return replace(run, **fields)

"""`Client`: what `Runtime` does, done by a server."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Self, TypeVar, cast

import httpx2

from causeline.causal import AgentState, CausalNode, verify_export
from causeline.client.rows import call_row, plain_answer, record
from causeline.client.transport import Transport
from causeline.events import Event
from causeline.models.messages import Message
from causeline.run.scope import Recalled
from causeline.runtime.branch_history import Branch
from causeline.runtime.export_import import rows_of
from causeline.runtime.handle import After, RunHandle, RunResult
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Interrupt, InterruptState, Link, OnBusy, Run, Session

Record = TypeVar("Record", Session, Run, Checkpoint, Interrupt)
PAGE = 200
RECONNECTS = 5


class Client:
    """The verbs of `Runtime` over HTTP: `async with Client("http://127.0.0.1:8000", token) as runtime:`.

    An agent is named, since it runs on the server. Errors are those of a Runtime; Unavailable where the server does not answer.
    Without a token `CAUSELINE_TOKEN` is used where it is set.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 30.0, http: httpx2.AsyncClient | None = None) -> None:
        self._server = Transport(url, token, timeout=timeout, http=http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the connections; runs go on."""
        await self._server.aclose()

    # running

    async def start(
        self,
        agent: Any = None,
        prompt: str | Sequence[Message | Mapping[str, Any]] | None = None,
        *,
        session: str | None = None,
        run_id: str | None = None,
        at: str | None = None,
        context: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
        on_busy: OnBusy = "reject",
        drive: bool = True,
    ) -> RunHandle:
        """Start a run on the server; it goes on whoever follows it. The server drives it, whatever `drive` says."""
        body = {
            "agent": _name(agent),
            "run_id": run_id,
            "tools": list(tools),
            "context": context,
            "checkpoint_id": at,
            "on_busy": on_busy,
            **({"prompt": prompt} if isinstance(prompt, str) else {"messages": _messages(prompt)}),
        }
        return await self._start(session, body)

    async def answer(
        self,
        run_id: str | None,
        decisions: Mapping[str, Mapping[str, Any]],
        *,
        agent: Any = None,
        new_run_id: str | None = None,
        on_busy: OnBusy = "reject",
    ) -> RunHandle:
        """Answer open questions; a new run goes on from them."""
        session = (await self.run(run_id)).session if run_id is not None else None
        resume = [{"interrupt_id": name, **decision} for name, decision in decisions.items()]
        return await self._start(session, {"agent": _name(agent), "run_id": new_run_id, "on_busy": on_busy, "resume": resume})

    async def _start(self, session: str | None, body: Mapping[str, Any]) -> RunHandle:
        path = "/v1/runs" if session is None else f"/v1/sessions/{session}/runs"
        plain = {name: value for name, value in body.items() if value is not None}
        started = await self._server.json("POST", path, body={**plain, "mode": "detached"})
        return RunHandle(self, started["run_id"], started["session_id"])

    async def resume(self, run_id: str, *, agent: Any = None) -> RunHandle:
        """The server takes over runs whose process is gone by itself; this is the run, to be followed."""
        run = await self.run(run_id)
        return RunHandle(self, run.id, run.session)

    async def cancel(self, run_id: str) -> None:
        """Ask a run to stop; what finished is kept."""
        await self._server.json("POST", f"/v1/runs/{run_id}/cancel")

    async def events(self, run_id: str, after: After = None, *, sub_runs: bool = True) -> AsyncGenerator[Event, None]:
        """The run's events, live until its last one. A connection that breaks is made again where it broke."""
        cursor: int | None = None if after == "now" else (after or 0)
        broken = 0
        while True:
            ended, heard = False, False
            async for event in self._connection(run_id, cursor):
                cursor, heard = event["seq"], True
                ended = event["type"] in ("run_finished", "run_error")
                if sub_runs or event["type"] != "sub_run_event":
                    yield cast("Event", event)
            broken = 0 if heard else broken + 1
            if ended or broken > RECONNECTS or ((await self.run(run_id)).status not in ACTIVE and not heard):
                return

    async def _connection(self, run_id: str, cursor: int | None) -> AsyncGenerator[Mapping[str, Any], None]:
        async with self._server.lines(f"/v1/runs/{run_id}/events", after=cursor) as lines:
            if lines is None:
                return
            async for line in lines:
                if line.startswith("data:"):
                    yield json.loads(line[5:])

    async def result(self, run_id: str) -> RunResult:
        """Wait for the run's end and say how it ended."""
        while (run := await self.run(run_id)).status in ACTIVE:
            async for _ in self.events(run_id, "now"):
                pass
        asked = await self.interrupts(run=run_id) if run.status == "interrupted" else ()
        return RunResult(
            run_id=run.id,
            session=run.session,
            status=run.status,
            stop_reason=run.stop_reason,
            answer=run.answer,
            output=run.answer,
            interrupts=[row for row in asked if row.state == "open"],
            pending_tool_call_ids=run.pending_tool_call_ids,
            usage=run.usage,
            head=run.head,
            error=run.error,
            answered_by=next((row.answered_by for row in asked if row.answered_by), None),
        )

    async def final(self, run_id: str) -> RunResult:
        """How the chain of answers that begins with this run ended."""
        result = await self.result(run_id)
        while result.answered_by is not None:
            result = await self.result(result.answered_by)
        return result

    # reading

    async def run(self, run_id: str) -> Run:
        return record(Run, await self._server.json("GET", f"/v1/runs/{run_id}"))

    async def runs(self, session: str | None = None) -> Sequence[Run]:
        """Runs, oldest first."""
        path = "/v1/runs" if session is None else f"/v1/sessions/{session}/runs"
        return [record(Run, row) for row in reversed(await self._all(path))]

    async def session(self, session: str) -> Session:
        return record(Session, await self._server.json("GET", f"/v1/sessions/{session}"))

    async def sessions(self) -> Sequence[Session]:
        """Sessions, oldest first."""
        return [record(Session, row) for row in reversed(await self._all("/v1/sessions"))]

    async def create_session(
        self, session: str | None = None, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        body = {name: value for name, value in {"id": session, "metadata": metadata, "context": context}.items() if value is not None}
        return record(Session, await self._server.json("POST", "/v1/sessions", body=body))

    async def put_session(self, session: str, *, context: Mapping[str, Any]) -> None:
        """Give the session's next run this context object."""
        await self._server.json("PUT", f"/v1/sessions/{session}/context", body=context)

    async def context(self, session: str) -> Mapping[str, Any]:
        return await self._server.json("GET", f"/v1/sessions/{session}/context")

    async def messages(self, session: str, at: str | None = None) -> Sequence[Message]:
        rows = await self._all(f"/v1/sessions/{session}/messages", checkpoint_id=at)
        return [Message.from_json(row) for row in rows]

    async def checkpoints(self, session: str, run: str | None = None) -> Sequence[Checkpoint]:
        """Checkpoints, oldest first."""
        rows = await self._all(f"/v1/sessions/{session}/checkpoints", run_id=run)
        return [record(Checkpoint, row) for row in reversed(rows)]

    async def calls(self, run_id: str) -> Sequence[CallRow]:
        return [call_row(row) for row in (await self._server.json("GET", f"/v1/runs/{run_id}/calls"))["data"]]

    async def interrupts(
        self, session: str | None = None, *, run: str | None = None, status: Sequence[InterruptState] = ()
    ) -> Sequence[Interrupt]:
        """Questions of a run, of a session, or all."""
        path = f"/v1/runs/{run}/interrupts" if run is not None else "/v1/interrupts"
        rows = await self._server.json("GET", path, query={"session": session})
        found = [record(Interrupt, row) for row in rows["data"]]
        return [row for row in found if not status or row.state in status]

    async def query(self, sparql: str, *, session: str | None = None) -> Any:
        """SPARQL over the caller's provenance, in the shapes of `Runtime.query`."""
        return plain_answer(await self._server.answer("/v1/sparql", {"query": sparql, "session": session}))

    async def checkpoint(self, checkpoint: str) -> Checkpoint:
        return record(Checkpoint, await self._server.json("GET", f"/v1/checkpoints/{checkpoint}"))

    async def links(self, session: str, at: str | None = None) -> Sequence[Link]:
        """The branch with its nodes, out of an export that is verified here."""
        bundle = verify_export(await self.export(session, at))
        return rows_of(bundle, bundle.owner, "")[2]

    async def branch(self, session: str, at: str | None = None) -> Branch:
        """Log, channels and messages at a checkpoint (None: the session's head)."""
        return Branch.read(await self.links(session, at))

    async def log_with(self, node_id: str, session: str | None = None) -> AgentState:
        return AgentState.from_json(await self._server.json("GET", f"/v1/nodes/{node_id}/log", query={"session": session}))

    async def why(self, node_id: str, session: str | None = None) -> Sequence[CausalNode]:
        return (await self.log_with(node_id, session)).why(node_id)

    async def recall(self, session: str | None = None, query: str = "", *, k: int = 5, max_tokens: int = 1000) -> Recalled:
        found = await self._server.json("GET", "/v1/recall", query={"session": session, "query": query, "k": k, "max_tokens": max_tokens})
        return Recalled(found["text"], found["citations"])

    async def stored_events(self, run_id: str, after: int = 0) -> Sequence[Event]:
        """The events that are durable at this moment."""
        last, events = (await self.run(run_id)).last_event, list[Event]()
        if last > after:
            async for event in self.events(run_id, after):
                events.append(event)
                if event["seq"] >= last:
                    break
        return events

    # keeping

    async def export(self, session: str, at: str | None = None, all: bool = False) -> bytes:
        return await self._server.data("GET", f"/v1/sessions/{session}/export", query={"at": at, "all": "true" if all else None})

    async def import_(self, data: bytes, *, head: str | None = None) -> str:
        body = await self._server.data("POST", "/v1/sessions/import", content=data, query={"head": head})
        return json.loads(body)["session"]

    async def delete(self, session: str) -> None:
        await self._server.json("DELETE", f"/v1/sessions/{session}")

    async def _all(self, path: str, **query: Any) -> list[Mapping[str, Any]]:
        """Every row of a list, page by page."""
        rows: list[Mapping[str, Any]] = []
        after: str | None = None
        while True:
            page = await self._server.json("GET", path, query={**query, "limit": PAGE, "after": after})
            rows += page["data"]
            after = page["next"]
            if after is None:
                return rows


def _name(agent: Any) -> str | None:
    return agent if agent is None or isinstance(agent, str) else agent.name


def _messages(prompt: Sequence[Message | Mapping[str, Any]] | None) -> list[Any] | None:
    if prompt is None:
        return None
    return [message.to_json() if isinstance(message, Message) else dict(message) for message in prompt]

"""Sessions as they are stored: read, explained, recalled, carried from store to store, removed.

Law: reading changes nothing, and what belongs to another owner is not there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack, get_args

from causeline.causal import AgentState, CausalNode, Difference, Export, compare_versions, diff, history, verify
from causeline.errors import Conflict, Invalid, Missing, check_argument
from causeline.memory.long_term import Embed, Embedder, LongTermMemory
from causeline.models.messages import Message
from causeline.policy import Clock
from causeline.run.scope import Recalled
from causeline.runtime import export_import
from causeline.runtime.branch_history import CONTEXT, Branch
from causeline.runtime.chains import Chains, names_below
from causeline.runtime.inputs import json_object
from causeline.runtime.open_ends import said_behind
from causeline.runtime.records import ACTIVE, CallRow, Checkpoint, Interrupt, InterruptState, Link, Run, RunStatus, Session
from causeline.runtime.run_digests import digests_of
from causeline.runtime.run_names import checked_name, given_name, new_name
from causeline.runtime.run_recall import LogRecall
from causeline.runtime.store import Store
from causeline.runtime.store_check import StoreReport, every_link, verify_store
from causeline.runtime.times import iso
from causeline.shapes import TEXT, choice, list_of, whole


class Paging(TypedDict, total=False):
    """One page of a list: at most `limit` rows that follow the row with the id `after`, `newest` first or last."""

    limit: int | None
    after: str | None
    newest: bool


class Sessions:
    """One owner's sessions in a store. Whoever inherits says in `_check_open` whether the store may be used."""

    def __init__(self, store: Store, owner: str, clock: Clock) -> None:
        self.store = store
        self.owner = owner
        self.clock = clock

    def _check_open(self) -> None:
        """Raises Misuse where the store may not be used now."""

    @property
    def _opened(self) -> Store:
        """The store, while this runtime is open. Raises Misuse."""
        self._check_open()
        return self.store

    # what there is

    async def sessions(self, **paging: Unpack[Paging]) -> Sequence[Session]:
        """Sessions, oldest first unless `newest`."""
        return await self._opened.rows(Session, owner=self.owner, **paging)

    async def session(self, session: str) -> Session:
        """The session's row. Raises Missing."""
        return await self._session(session)

    async def runs(self, session: str | None = None, *, status: Sequence[RunStatus] = (), **paging: Unpack[Paging]) -> Sequence[Run]:
        """Runs of a session or of all, oldest first unless `newest`. Raises Invalid for a status that there is not."""
        check_argument("status", list_of(choice(*get_args(RunStatus)))(status))
        return await self._opened.rows(Run, owner=self.owner, session=session, status=status, **paging)

    async def run(self, run_id: str) -> Run:
        """The run's row. Raises Missing."""
        return await self._row(run_id)

    async def checkpoints(self, session: str, run: str | None = None, **paging: Unpack[Paging]) -> Sequence[Checkpoint]:
        """Checkpoints of all branches, oldest first unless `newest`. Raises Missing."""
        await self._session(session)
        return await self._opened.rows(Checkpoint, owner=self.owner, session=session, run=run, **paging)

    async def checkpoint(self, checkpoint: str) -> Checkpoint:
        """The checkpoint of this id, of whichever session. Raises Missing."""
        rows = await self._opened.rows(Checkpoint, owner=self.owner, id=given_name(checkpoint))
        if not rows:
            raise Missing(f"no checkpoint {checkpoint!r}; `causeline show SESSION` lists those of a session", checkpoint=checkpoint)
        return rows[0]

    async def calls(self, run_id: str) -> Sequence[CallRow]:
        """The run's ledger rows. Raises Missing."""
        await self._row(run_id)
        return await self._opened.rows(CallRow, owner=self.owner, run=run_id)

    async def interrupts(
        self, session: str | None = None, *, run: str | None = None, status: Sequence[InterruptState] = ()
    ) -> Sequence[Interrupt]:
        """Questions to people, of a session, of a run (those of runs below it too), or all: each once then, as the topmost session holds it
        that waits for the answer. Raises Missing."""
        if session is not None:
            await self._session(session)
        if run is None:
            rows = await self._opened.rows(Interrupt, owner=self.owner, session=session, status=status)
            return rows if session is not None else await self._each_once(rows)
        asked = await self._row(run)
        rows = await self._opened.rows(Interrupt, owner=self.owner, session=asked.session, status=status)
        return [row for row in rows if run == row.run or (asked.head is not None and row.checkpoint == asked.head)]

    async def interrupt(self, interrupt: str, *, session: str | None = None) -> Interrupt:
        """The question of this id, open or not, as this session holds it; without one, the session of the topmost run that waits for
        the answer. Raises Missing."""
        rows = await self._opened.rows(Interrupt, owner=self.owner, id=given_name(interrupt), session=session)
        if not rows:
            raise Missing(f"no interrupt {interrupt!r}{f' in session {session}' if session else ''}", interrupt=interrupt)
        return await self._topmost(rows)

    async def _topmost(self, rows: Sequence[Interrupt]) -> Interrupt:
        """Of one question's rows the one of the session whose top run waits for the answer."""
        if len(rows) == 1:
            return rows[0]
        top = (await Chains(self._opened, self.owner).levels(await self._row(rows[0].run)))[0].root
        return next((row for row in rows if row.session == top.session), rows[0])

    async def _each_once(self, rows: Sequence[Interrupt]) -> Sequence[Interrupt]:
        questions: dict[str, list[Interrupt]] = {}
        for row in rows:
            questions.setdefault(row.id, []).append(row)
        return [await self._topmost(held) for held in questions.values()]

    async def waiting_run(self, interrupt: Interrupt) -> Run:
        """The run of the question's session that has stopped for it: the one that asks, or one that waits for a run below it."""
        return await Chains(self._opened, self.owner).asker(interrupt)

    # what is true at a checkpoint

    async def links(self, session: str, at: str | None = None) -> Sequence[Link]:
        """The checkpoints from the root to `at` (None: the session's head), each with the nodes it appended. Raises Missing."""
        row = await self._session(session)
        return await self._opened.branch(self.owner, session, at if at is not None else row.head)

    async def branch(self, session: str, at: str | None = None) -> Branch:
        """Log, channels and messages at a checkpoint (None: the session's head). Raises Missing."""
        return Branch.read(await self.links(session, at))

    async def messages(self, session: str, at: str | None = None) -> Sequence[Message]:
        """What was said, oldest first. At the session's head that includes what callers said in runs that were cancelled while they
        waited behind it."""
        branch = await self.branch(session, at)
        if at is not None:
            return branch.messages()
        return [*branch.messages(), *await said_behind(self._opened, self.owner, session, branch.head.run if branch.head else None)]

    async def context(self, session: str) -> Mapping[str, Any]:
        """The context object that the next run starts with: the one that was put, else that of the session's head."""
        row = await self._session(session)
        if row.next_context is not None:
            return row.next_context
        return (await self.branch(session)).channels.get(CONTEXT) or {}

    async def open_client_calls(self, session: str) -> frozenset[str]:
        """Ids of the calls at the session's head that only the client can answer, and has not."""
        open_calls = (await self.branch(session)).transcript.open
        if not open_calls:
            return frozenset()
        rows = await self._opened.rows(CallRow, owner=self.owner, session=session)
        return frozenset(row.call.call_id for row in rows if row.call.client and row.call.call_id in open_calls)

    async def log_with(self, node_id: str, session: str | None = None) -> AgentState:
        """The log of the branch that holds a node, as it was when the node was added. Raises Missing."""
        node_id = given_name(node_id)
        for place, _ in await self._opened.node(self.owner, node_id):
            if session is not None and place != session:
                continue
            for checkpoint in await self._opened.rows(Checkpoint, owner=self.owner, session=place):
                if node_id in checkpoint.appended:
                    return (await self.branch(place, checkpoint.id)).state
        where = "" if session is None else f" in session {session}"
        what = "" if node_id.startswith("cw_") else " (a causal node's id begins with cw_)"
        raise Missing(
            f"no causal node {node_id!r}{where}{what}; `causeline show SESSION` prints the ids of a session's nodes", node=node_id
        )

    async def why(self, node_id: str, session: str | None = None) -> Sequence[CausalNode]:
        """The inference that led to a node and what it had read, in log order. Raises Missing."""
        return (await self.log_with(node_id, session)).why(node_id)

    async def history(self, key: str, session: str) -> Sequence[CausalNode]:
        """Every version of a file, a resource or a note at the session's head, oldest first: by its whole key, such as
        `semantic:memory:home`, or by a path. Raises Missing."""
        log = (await self.branch(session)).state
        for form in ("{}", "resource:{}", "resource:file:{}", "semantic:{}"):
            versions = history(log, form.format(key))
            if versions:
                return versions
        raise Missing(f"session {session} has no version of {key!r}", key=key)

    async def diff(self, before: str, after: str) -> Difference:
        """What only one of two logs has. Each is named by a checkpoint, by a run, which stands for its end, or by a session, which stands
        for its head; two causal nodes are compared as versions. Raises Missing."""
        before, after = given_name(before), given_name(after)
        if before.startswith("cw_") and after.startswith("cw_"):
            return compare_versions(await self._node(before), await self._node(after))
        return diff(await self._log_of(before), await self._log_of(after))

    async def _log_of(self, name: str) -> AgentState:
        if name.startswith("ck_"):
            return (await self.branch((await self.checkpoint(name)).session, name)).state
        if await self._opened.rows(Session, owner=self.owner, id=given_name(name)):
            return (await self.branch(name)).state
        run = await self.run(name)
        return (await self.branch(run.session, run.head)).state if run.head is not None else AgentState()

    async def _node(self, name: str) -> CausalNode:
        found = await self._opened.node(self.owner, name)
        if not found:
            raise Missing(f"no causal node {name!r}", node=name)
        return found[0][1]

    def memory(self, *, embedder: Embedder | Embed | None = None) -> LongTermMemory:
        """This owner's long-term memory in this same store; see `causeline.memory.MemoryStore`."""
        return LongTermMemory(self._opened.memory(), owner=self.owner, embedder=embedder, clock=self.clock)

    async def verify_store(self) -> StoreReport:
        """Read and check every session of this owner, and name every fault."""
        return await verify_store(self._opened, owner=self.owner)

    # changing what is kept beside the log

    async def create_session(
        self, session: str | None = None, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        """A new session with metadata and the context of its first run. Raises Conflict (`session_exists`) for a known id."""
        now = self.clock.now()
        name = checked_name("session id", session) if session is not None else new_name("ses_", now)
        if await self._opened.rows(Session, owner=self.owner, id=name):
            raise Conflict(f"session {name} is there already", code="session_exists", session=name)
        return await self._put(name, metadata, context)

    async def put_session(
        self, session: str, *, metadata: Mapping[str, Any] | None = None, context: Mapping[str, Any] | None = None
    ) -> Session:
        """Replace a session's metadata, or the context that its next run starts with in place of the branch's. Raises Missing."""
        return await self._put((await self._session(session)).id, metadata, context)

    async def _put(self, session: str, metadata: Mapping[str, Any] | None, context: Mapping[str, Any] | None) -> Session:
        for what, value in (("metadata", metadata), ("context", context)):
            if value is not None:
                json_object(what, value)
        return await self._opened.put_session(self.owner, session, iso(self.clock.now()), metadata=metadata, context=context)

    async def recall(self, session: str | None = None, query: str = "", *, k: int = 5, max_tokens: int = 1000) -> Recalled:
        """What runs that have ended have to say, of one session or of all, cited and bounded; with a query, those that have to do with
        it. Raises Missing."""
        if session is not None:
            await self._session(session)
        check_argument("query", TEXT(query))
        check_argument("k", whole(1)(k))
        check_argument("max_tokens", whole(1)(max_tokens))
        return await LogRecall(self._opened).search(self.owner, query, session=session, most=k, max_tokens=max_tokens)

    async def export(self, session: str, at: str | None = None, all: bool = False) -> bytes:
        """The session's head branch, the branch of `at`, or every branch, as one file that proves itself."""
        row = await self._session(session)
        head = at if at is not None else row.head
        links = await (every_link if all else _one_branch)(self._opened, self.owner, session, head)
        runs = await self._opened.rows(Run, owner=self.owner, session=session)
        return export_import.export(row, head, links, runs, await self._opened.rows(CallRow, owner=self.owner, session=session))

    async def import_(self, data: bytes, *, head: str | None = None) -> str:
        """Take in an exported session after verifying all of it; return its id. A bare log becomes a session of its own.

        Raises VerifyError, Conflict if the session is here, Misuse for a `head` with a bare log, which has none.
        """
        if not isinstance(data, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - text is what callers try
            raise Invalid(f"an export is bytes, not {type(data).__name__}; read the file as bytes")
        now = self.clock.now()
        found = verify(data, head)
        bundle = (
            found if isinstance(found, Export) else export_import.as_bundle(found, new_name("ses_", now), new_name("run_", now), iso(now))
        )
        session, runs, links, calls = export_import.rows_of(bundle, self.owner, iso(now))
        await self._opened.load(session, runs, links, calls)
        await self._opened.memory().put((self.owner, "runs"), digests_of(runs, links, iso(now)))
        return bundle.session

    async def delete(self, session: str) -> None:
        """Remove a session and all that belongs to it, with the sessions of the runs below its own. Raises Missing, and, before anything is
        removed, Conflict while a run is active, or while a run of another session waits for an answer to a question that is asked here."""
        await self._session(session)
        await self._check_nobody_waits(session)
        known = {one.id for one in await self.sessions()}
        found = [session]
        for name in found:
            if await self._opened.rows(Run, owner=self.owner, session=name, status=tuple(ACTIVE), limit=1):
                found = [name]  # the store refuses it
                break
            calls = await self._opened.rows(CallRow, owner=self.owner, session=name)
            below = dict.fromkeys(names_below(row.call)[1] for row in calls)
            found += [name for name in below if name in known and name not in found]
        for name in reversed(found):
            await self._opened.delete(self.owner, name)

    async def _check_nobody_waits(self, session: str) -> None:
        """Raises Conflict where the answer to an open question of this session is wanted by a run above."""
        for row in await self._opened.rows(Interrupt, owner=self.owner, session=session, status=("open",)):
            top = await self.interrupt(row.id)
            if top.session != session and top.state == "open":
                raise Conflict(
                    f"session {session} is below session {top.session}, whose run waits for the answer to {row.id}; answer that, or "
                    f"delete session {top.session}",
                    code="session_busy",
                    session=session,
                    interrupt=row.id,
                )

    async def _row(self, run_id: str) -> Run:
        rows = await self._opened.rows(Run, owner=self.owner, id=given_name(run_id))
        if not rows:
            raise Missing(f"no run {run_id!r}; `causeline runs` lists them", run=run_id)
        return rows[0]

    async def _session(self, session: str) -> Session:
        rows = await self._opened.rows(Session, owner=self.owner, id=given_name(session))
        if not rows:
            raise Missing(f"no session {session!r}; `causeline sessions` lists them", session=session)
        return rows[0]

    async def _interrupt(self, name: str) -> Interrupt:
        """The open question of this id. Raises Missing, Conflict where it is open no longer."""
        interrupt = await self.interrupt(name)
        if interrupt.state != "open":
            raise Conflict(f"interrupt {name} was {interrupt.state} already", code="interrupt_closed", interrupt=name)
        return interrupt


async def _one_branch(store: Store, owner: str, session: str, head: str | None) -> Sequence[Link]:
    return await store.branch(owner, session, head)

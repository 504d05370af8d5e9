"""Laws of reading: branches, nodes, rows by filter, and that other owners see nothing."""

from dataclasses import replace
from typing import Any

import pytest

from causeline.errors import Invalid, Missing, Misuse
from causeline.runtime.records import CallRow, Checkpoint, Interrupt, Link, Progress, Run, Session
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import (
    KINDS,
    OWNER,
    Writer,
    begin,
    everything,
    new_call,
    new_interrupt,
    new_run,
    plain,
    queue,
    refused,
)  # fmt: skip


class BranchLaws:
    """A branch is what leads to its head, and nothing else."""

    async def test_a_branch_is_read_from_the_root_to_any_of_its_checkpoints(self, store: Store) -> None:
        writer = await begin(store)
        commits = [await writer.write(writer.next([f"{n} {k}" for k in range(n % 3)])) for n in range(7)]
        for count in range(1, 8):
            checkpoint = commits[count - 1].checkpoint
            assert checkpoint is not None
            links = await store.branch(OWNER, "s1", checkpoint.id)
            assert plain([link.checkpoint for link in links]) == plain([commit.checkpoint for commit in commits[:count]])
            assert [list(link.nodes) for link in links] == [list(commit.nodes) for commit in commits[:count]]
        assert await store.branch(OWNER, "s1", None) == []

    async def test_a_fork_does_not_hold_the_other_branch(self, store: Store) -> None:
        first = await begin(store)
        root = await first.go()
        left = await first.go(3)
        await first.end()
        fork = await begin(store, "r2", at=root)
        fork.session_head = left
        right = await fork.go(2)
        lefts = await store.branch(OWNER, "s1", left)
        rights = await store.branch(OWNER, "s1", right)
        assert [link.checkpoint.run for link in rights] == ["r1", "r2", "r2"]
        assert lefts[0] == rights[0]
        shared = {node.id for link in lefts for node in link.nodes} & {node.id for link in rights for node in link.nodes}
        assert shared == set(lefts[0].checkpoint.appended)

    async def test_a_node_another_branch_has_is_listed_again(self, store: Store) -> None:
        first = await begin(store)
        root = await first.go()
        await first.write(first.next(["same", "left"]))
        left = first.head
        await first.end()
        fork = await begin(store, "r2", at=root)
        fork.state.append("goal", "r1 0 0", created_at="2026-11-30T10:00:00.000Z")
        fork.session_head = left
        await fork.write(fork.next(["same", "right", "right again"], at="2026-11-30T11:00:00.000Z"))
        (_, before), (_, after) = await store.branch(OWNER, "s1", left), await store.branch(OWNER, "s1", fork.head)
        assert after.checkpoint.appended[0] == before.checkpoint.appended[0]
        assert [node.payload for node in after.nodes] == ["same", "right", "right again"]
        assert after.nodes[0] == before.nodes[0]
        assert await store.node(OWNER, after.nodes[0].id) == [("s1", before.nodes[0])]

    async def test_a_head_of_nowhere_or_elsewhere_is_missing(self, store: Store) -> None:
        head = await (await begin(store)).go()
        await begin(store, "r2", session="s2")
        for owner, session, at in (
            (OWNER, "s2", head),
            ("bob", "s1", head),
            (OWNER, "s1", "ck_" + "0" * 24),
            (OWNER, "s1", "x"),
            (OWNER, "s9", head),
        ):
            with pytest.raises(Missing):
                await store.branch(owner, session, at)

    async def test_a_node_is_found_in_every_session_of_its_owner(self, store: Store) -> None:
        for session in ("s1", "s2"):
            writer = await begin(store, f"run of {session}".replace(" ", "-"), session=session)
            await writer.write(writer.next(["shared"]))
        other = await begin(store, owner="bob")
        commit = await other.write(other.next(["shared"]))
        name = commit.nodes[0].id
        assert [session for session, _ in await store.node(OWNER, name)] == ["s1", "s2"]
        assert [(session, node.payload) for session, node in await store.node("bob", name)] == [("s1", "shared")]
        assert await store.node(OWNER, "cw_" + "0" * 24) == []
        assert await store.node(OWNER, "nonsense") == []


async def _two_sessions(store: Store) -> None:
    """Two runs in each of two sessions of one owner, with rows of every kind."""
    for session in ("s1", "s2"):
        names = [f"{session}-a", f"{session}-b"]
        first = await begin(store, names[0], session=session)
        commit = first.next([session], events=1)
        assert commit.checkpoint is not None
        await first.write(commit)
        await first.write(first.commit(
            calls=[new_call("c1", "succeeded"), new_call("c2")],
            interrupts=[new_interrupt(commit.checkpoint.id, f"int_{session}", names[0], session)],
            progress=[Progress(run=names[0], step=5, path=[], index=0, port="done", writes=None)],
        ))  # fmt: skip
        await first.end()
        await (await begin(store, names[1], session=session, input=[])).go()


class RowLaws:
    """Rows are filtered by what is given, oldest first."""

    @pytest.mark.parametrize(
        "kind, given, expected",
        [
            (Session, {}, ["s1", "s2"]),
            (Session, {"id": "s2"}, ["s2"]),
            (Session, {"session": "s1"}, ["s1"]),
            (Session, {"id": "s9"}, []),
            (Run, {}, ["s1-a", "s1-b", "s2-a", "s2-b"]),
            (Run, {"session": "s2"}, ["s2-a", "s2-b"]),
            (Run, {"id": "s2-a"}, ["s2-a"]),
            (Run, {"run": "s2-a"}, ["s2-a"]),
            (Run, {"status": ("running",)}, ["s1-b", "s2-b"]),
            (Run, {"status": ("queued", "running"), "session": "s2"}, ["s2-b"]),
            (Run, {"status": ("succeeded", "running"), "limit": 3}, ["s1-a", "s1-b", "s2-a"]),
            (Run, {"session": "s1", "id": "s2-a"}, []),
            (Run, {"limit": 0}, []),
            (CallRow, {"run": "s1-a"}, ["c1", "c2"]),
            (CallRow, {"session": "s2", "status": ("pending",)}, ["c2"]),
            (CallRow, {"id": "c1"}, ["c1", "c1"]),
            (CallRow, {"session": "s2", "run": "s1-a"}, []),
            (CallRow, {"limit": 3}, ["c1", "c2", "c1"]),
            (Interrupt, {}, ["int_s1", "int_s2"]),
            (Interrupt, {"run": "s2-a", "status": ("open",)}, ["int_s2"]),
            (Interrupt, {"id": "int_s1"}, ["int_s1"]),
            (Interrupt, {"status": ("superseded", "open"), "session": "s2"}, ["int_s2"]),
            (Interrupt, {"status": ("superseded", "answered")}, []),
            (Interrupt, {"run": "s2-b"}, []),
        ],
    )
    async def test_rows_are_filtered(self, store: Store, kind: Any, given: dict[str, Any], expected: list[str]) -> None:
        await _two_sessions(store)
        found = await store.rows(kind, owner=OWNER, **given)
        assert [row.call.call_id if isinstance(row, CallRow) else row.id for row in found] == expected

    async def test_checkpoints_and_progress_are_filtered(self, store: Store) -> None:
        await _two_sessions(store)
        rows = await store.rows(Checkpoint, owner=OWNER)
        assert [(row.session, row.run) for row in rows] == [("s1", "s1-a"), ("s1", "s1-b"), ("s2", "s2-a"), ("s2", "s2-b")]
        assert await store.rows(Checkpoint, owner=OWNER, session="s2") == rows[2:]
        assert await store.rows(Checkpoint, owner=OWNER, run="s1-b") == rows[1:2]
        assert await store.rows(Checkpoint, owner=OWNER, id=rows[3].id) == rows[3:]
        assert await store.rows(Checkpoint, owner=OWNER, id="nonsense") == []
        assert await store.rows(Checkpoint, owner=OWNER, limit=1) == rows[:1]
        assert [row.run for row in await store.rows(Progress, owner=OWNER)] == ["s1-a", "s2-a"]
        assert [row.run for row in await store.rows(Progress, owner=OWNER, session="s2")] == ["s2-a"]
        assert await store.rows(Progress, owner=OWNER, run="s1-b") == []

    @pytest.mark.parametrize(
        "kind, given",
        [
            (Session, {"run": "r"}), (Session, {"status": ("open",)}), (Checkpoint, {"status": ("open",)}), (Progress, {"id": "x"}),
            (Progress, {"status": ("x",)}), (Writer, {}), (dict, {}),
        ],
    )  # fmt: skip
    async def test_a_filter_the_kind_does_not_have_is_misuse(self, store: Store, kind: Any, given: dict[str, Any]) -> None:
        with pytest.raises(Misuse):
            await store.rows(kind, owner=OWNER, **given)

    @pytest.mark.parametrize("text", ["' OR '1'='1", "x') OR 1=1 --", "%", "*", "s1' UNION SELECT 1", "?1", "$1"])
    async def test_a_filter_is_a_value_and_nothing_else(self, store: Store, text: str) -> None:
        await (await begin(store)).go()
        for kind in KINDS[:5]:
            assert await store.rows(kind, owner=OWNER, id=text) == []
            assert await store.rows(kind, owner=text) == []
            assert await store.rows(kind, owner=OWNER, session=text) == []
        assert await store.rows(Run, owner=OWNER, status=(text,)) == []


class OwnerLaws:
    """Rows of another owner do not exist."""

    async def test_another_owner_reads_nothing(self, store: Store) -> None:
        await _two_sessions(store)
        head = (await store.rows(Session, owner=OWNER))[0].head
        assert (
            await everything(store, "bob")
            == await everything(store, "")
            == {kind: [] for kind in ("Session", "Run", "Checkpoint", "CallRow", "Interrupt", "Progress")}
        )
        with pytest.raises(Missing):
            await store.branch("bob", "s1", head)
        with pytest.raises(Missing):
            await store.events("bob", "s1-a", 0)
        for row in await store.rows(Checkpoint, owner=OWNER):
            for name in row.appended:
                assert await store.node("bob", name) == []

    async def test_another_owner_changes_nothing(self, store: Store) -> None:
        await _two_sessions(store)
        waiting = await queue(store, "s1-c", session="s1")
        before = await everything(store, OWNER)
        for attempt in (
            store.cancel("bob", "s1-b", "2026-11-30T12:00:00.000Z"), store.delete("bob", "s1"),
            store.start(new_run("x", owner="bob", session="s1", input=[], answers={"int_s1": {}}), "reject"),
        ):  # fmt: skip
            with pytest.raises(Missing):
                await attempt
        assert await store.claim("bob", waiting.id, "h", epoch=0, beat=0, at="2026-11-30T12:00:00.000Z") is None
        assert await everything(store, OWNER) == before

    async def test_a_worker_sees_every_owner(self, store: Store) -> None:
        await begin(store)
        await begin(store, owner="bob")
        await queue(store, "r2", owner="carol")
        assert [(run.owner, run.id) for run in await store.rows(Run, owner=None, status=("queued", "running"))] == [
            (OWNER, "r1"), ("bob", "r1"), ("carol", "r2"),
        ]  # fmt: skip
        assert [row.owner for row in await store.rows(Session, owner=None, session="s1")] == [OWNER, "bob", "carol"]


class WholeSessionLaws:
    """Importing and deleting a session."""

    async def _read(self, store: Store, owner: str = OWNER, session: str = "s1") -> tuple[Any, ...]:
        (row,) = await store.rows(Session, owner=owner, id=session)
        links: dict[str, Link] = {}
        for checkpoint in await store.rows(Checkpoint, owner=owner, session=session):
            links[checkpoint.id] = (await store.branch(owner, session, checkpoint.id))[-1]
        runs = await store.rows(Run, owner=owner, session=session)
        return row, runs, list(links.values()), await store.rows(CallRow, owner=owner, session=session)

    async def _forked(self, store: Store) -> tuple[Any, ...]:
        first = await begin(store)
        root = await first.go()
        await first.write(first.next(["same"], calls=[new_call(), new_call("c2", "succeeded", result=2**80)]))
        await first.end(answer={"n": 1})
        fork = await begin(store, "r2", at=root)
        fork.session_head = first.head
        await fork.write(fork.next(["same", "other"]))
        await fork.end()
        return await self._read(store)

    async def test_what_was_read_can_be_loaded_again(self, store: Store) -> None:
        session, runs, links, calls = await self._forked(store)
        await store.delete(OWNER, "s1")
        await store.load(session, runs, links[::-1], calls)
        again = await self._read(store)
        assert again[0] == session
        assert [plain(run) | {"queue": 0} for run in again[1]] == [plain(run) | {"queue": 0} for run in runs]
        assert sorted(map(repr, again[2])) == sorted(map(repr, links))
        assert again[3] == calls
        assert await store.events(OWNER, "r1", 0) == []
        after = await begin(store, "r3")
        assert after.run.base == session.head
        assert after.run.queue > max(run.queue for run in again[1])
        await after.go()

    async def test_a_session_that_is_there_is_not_loaded_over(self, store: Store) -> None:
        session, runs, links, calls = await self._forked(store)
        before = await everything(store)
        await refused("session_exists", store.load(session, runs, links, calls))
        await refused("session_exists", store.load(replace(session, head=None), [], [], []))
        assert await everything(store) == before

    async def test_a_load_that_does_not_hold_together_leaves_nothing(self, store: Store) -> None:
        session, runs, links, calls = await self._forked(store)
        await store.delete(OWNER, "s1")
        attempts: list[tuple[Any, ...]] = [
            (session, runs[:1], links, calls), (session, runs, links[1:], calls), (session, runs, [], calls),
            (session, runs, links, [replace(calls[0], run="r9")]), (session, [replace(runs[0], owner="bob"), runs[1]], links, calls),
            (replace(session, head="ck_" + "0" * 24), runs, links, calls),
            (session, runs, [replace(links[0], nodes=[]), *links[1:]], calls),
        ]  # fmt: skip
        for bad in attempts:
            with pytest.raises(Invalid):
                await store.load(*bad)
        await begin(store, "r2", session="s2")
        before = await everything(store)
        await refused("run_conflict", store.load(session, runs, links, calls))
        assert await everything(store) == before

    async def test_a_deleted_session_is_gone(self, store: Store) -> None:
        await _two_sessions(store)
        await (await begin(store, "s1-a", session="s1", owner="bob")).go()
        kept = await everything(store, "bob"), await store.rows(CallRow, owner=OWNER, session="s2")
        writer = Writer(store, (await store.rows(Run, owner=OWNER, id="s1-b"))[0])
        nodes = [name for row in await store.rows(Checkpoint, owner=OWNER, session="s1") for name in row.appended]
        await writer.end()
        await store.delete(OWNER, "s1")
        for kind in KINDS:
            assert await store.rows(kind, owner=OWNER, session="s1") == []
        assert await store.rows(Run, owner=OWNER, id="s1-a") == []
        for name in nodes:
            assert "s1" not in [session for session, _ in await store.node(OWNER, name)]
        with pytest.raises(Missing):
            await store.events(OWNER, "s1-a", 0)
        with pytest.raises(Missing):
            await store.delete(OWNER, "s1")
        assert (await everything(store, "bob"), await store.rows(CallRow, owner=OWNER, session="s2")) == kept
        assert (await begin(store, "s1-a", session="s1")).run.base is None
        assert await store.events(OWNER, "s1-a", 0) == []
        assert await store.rows(CallRow, owner=OWNER, session="s1") == []

    async def test_an_active_session_is_not_deleted(self, store: Store) -> None:
        writer = await begin(store)
        await writer.go()
        before = await everything(store)
        await refused("session_busy", store.delete(OWNER, "s1"))
        assert await everything(store) == before
        await queue(store, "r2")
        await writer.end()
        await refused("session_busy", store.delete(OWNER, "s1"))
        await store.cancel(OWNER, "r2", "2026-11-30T12:00:00.000Z")
        await store.delete(OWNER, "s1")
        assert await everything(store, OWNER) == await everything(store, "nobody")

"""Forks and the store's size: a branch holds exactly its own past, and nothing is written twice."""

import sqlite3

import pytest

from causeline import tool
from causeline.causal import canonical, verify_export
from tests.agent.stage import Turns, calls
from tests.scenarios.world import World, end, playing

FILLER = "the quick brown fox %d jumps over a lazy dog and runs away from it as fast as it can; "


@tool(effects=False)
async def look(n: int) -> str:
    """Looks."""
    return f"saw {n}"


def walk(rounds: int):
    return [*[calls(("look", {"n": n}, f"c{n}")) for n in range(rounds)], {"text": "done"}]


async def test_a_fork_holds_what_was_true_at_its_base_and_nothing_later(world: World):
    """A fork after step 2 of 5 is byte for byte what a session was that had gone no further; the first branch stays as it was."""
    async with world.stage(Turns(walk(5), [{"text": "another way"}]), [look]) as s:
        await s.run("go", run_id="r")
        whole = await s.runtime.export("s")
        base = [one for one in await s.steps() if one.node == "call_tools"][1]
        early = (await s.log(at=base.id)).to_json()
        late = {node["id"] for node in (await s.log()).to_json()["nodes"]} - {node["id"] for node in early["nodes"]}
        tip = (await s.runtime.sessions())[0].head
        forked = await s.run("otherwise", at=base.id)
        branch = (await s.log(at=forked.head)).to_json()
        assert branch["nodes"][: len(early["nodes"])] == early["nodes"]
        assert not late & {node["id"] for node in branch["nodes"]}
        assert [one.text for one in s.model.last.messages] == ["go", "", "saw 0", "", "saw 1", "otherwise"]
        assert await s.runtime.export("s", at=tip) == whole
        assert verify_export(whole).head == tip


async def test_after_a_fork_the_head_moves_with_every_run_and_both_branches_stay(world: World):
    """Later runs go on from the fork, not from where it began; the other branch can still be read and gone on with."""
    async with world.stage(Turns(walk(2), [{"text": "second"}], [{"text": "third"}], [{"text": "fourth"}])) as s:
        first = await s.run("one")
        base = (await s.steps())[1]
        heads = [first.head]
        for text in ("two", "three", "four"):
            heads.append((await s.run(text, **({"at": base.id} if text == "two" else {}))).head)
            assert (await s.runtime.sessions())[0].head == heads[-1]
        assert len(set(heads)) == 4
        assert [text for role, text in await s.said() if role == "user"] == ["one", "two", "three", "four"]
        back = await s.run("five", at=first.head)
        assert [one.text for one in await s.runtime.messages("s", back.head) if one.role == "user"] == ["one", "five"]
        verify_export(await s.runtime.export("s", all=True))


async def _size(world: World, rounds: int) -> int:
    """Bytes of the database after that many rounds with a kilobyte of text each."""

    @tool(effects=False)
    async def read(n: int) -> str:
        """Reads a page."""
        return "".join(FILLER % (n * 1000 + line) for line in range(11))

    place = World(f"sqlite:///{world.folder}/{rounds}.db", world.folder)
    agent, _ = playing([*[calls(("read", {"n": n})) for n in range(rounds)], {"text": "done"}], [read], max_steps=1_000)
    async with place.process(agent) as runtime:
        assert (await (await runtime.start(agent, "go", session="s")).result()).status == "succeeded"
    with sqlite3.connect(f"{world.folder}/{rounds}.db") as database:
        (pages,), (size,) = database.execute("PRAGMA page_count").fetchone(), database.execute("PRAGMA page_size").fetchone()
    database.close()
    return pages * size


async def test_bytes_on_disk_grow_with_what_was_added(disk: World):
    """A round costs the same bytes at the end of a long run as at its beginning."""
    sizes = [await _size(disk, rounds) for rounds in (80, 160, 320)]
    early, late = (sizes[1] - sizes[0]) / 80, (sizes[2] - sizes[1]) / 160
    assert late == pytest.approx(early, rel=0.1)
    payload = 320 * len("".join(FILLER % (100_000 + line) for line in range(11)))
    assert sizes[2] < 3 * payload


async def test_a_fork_copies_nothing(disk: World):
    """Going on from an early or a late checkpoint of a long run costs the same bytes, which are those of its own steps."""
    agent, _ = playing(Turns(walk(120), [{"text": "another way"}]), [look])
    async with disk.process(agent) as runtime:
        await end(await runtime.start(agent, "go", session="s"))
        steps = await runtime.checkpoints("s")
        forks = [await end(await runtime.start(agent, "fork", session="s", at=at.id)) for at in (steps[10], steps[-1])]
        written = [await runtime.checkpoints("s", run.run_id) for run in forks]
    sizes = [sum(len(canonical([one.delta, one.position, one.appended, one.frontier])) for one in own) for own in written]
    assert [len(own) for own in written] == [3, 3]
    assert max(sizes) < 2_000
    assert sizes[0] == pytest.approx(sizes[1], abs=100)

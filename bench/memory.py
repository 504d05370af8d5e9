"""Figures of memory, recall and provenance, beside what others need for the same in the same run:

    python -m bench.memory [--quality] [--runs 10000] [--memories 100000]

Times are medians. --quality measures instead how often the session that holds an answer is among the first k, over sessions made by
rule, beside plain BM25 (bm25s) on the same texts.
"""

import argparse
import asyncio
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import causeline
from bench.figures import agent
from bench.made_sessions import Asked, made_sessions
from causeline.adapters.stores import open_store
from causeline.causal import AgentState
from causeline.memory import Literal, MemoryStore, TripleStore, hint
from causeline.memory.items import StoredItem
from causeline.memory.lexical import words
from causeline.memory.long_term import item_of
from causeline.memory.reasoning_trace import GENERATED_BY, GRAPH, INFORMED_BY, KIND, VALUE
from causeline.runtime.note_keeping import NoteKeeping
from causeline.runtime.records import Run
from causeline.runtime.run_digests import lines_of, pages

ROUNDS = 1_000
REPEATS = 15
BATCH = 2_000
AT = "2026-01-01T00:00:00.000Z"


def tell(what: str, value: float, unit: str, target: str = "", note: str = "") -> None:
    """One line of the table."""
    print(f"{what:<58}{value:>10,.2f} {unit:<8}{target:<14}{note}", flush=True)


def median(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Milliseconds, after one time that does not count."""
    work()
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


async def median_of(work: Callable[[], Awaitable[Any]], repeats: int = REPEATS) -> float:
    """As `median`, for a coroutine function."""
    await work()
    times: list[float] = []
    for _ in range(repeats):
        started = time.perf_counter()
        await work()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


# provenance of a run


async def provenance(folder: str) -> None:
    """What a durable round costs in CPU, how much of it is for memory while nobody asks, and what it costs when somebody does."""
    spent = 0.0
    add, end = NoteKeeping.with_step, NoteKeeping.with_end

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            nonlocal spent
            started = time.perf_counter()
            try:
                return method(*arguments)
            finally:
                spent += time.perf_counter() - started

        return run

    bot = agent(ROUNDS)
    async with causeline.open(f"sqlite:///{folder}/provenance.db", agents=[bot]) as runtime:
        NoteKeeping.with_step, NoteKeeping.with_end = timed(add), timed(end)
        try:
            started = time.perf_counter()
            run = await (await runtime.start(bot, "go", session="s")).result()
            whole = time.perf_counter() - started
        finally:
            NoteKeeping.with_step, NoteKeeping.with_end = add, end
        tell(f"a durable round ({ROUNDS:,} of them)", whole / ROUNDS * 1e6, "us")
        tell("  of it for recall and provenance, nobody asks", spent / ROUNDS * 1e6, "us", "<= 5 %", f"{spent / whole:.2%}")
        count = "SELECT (COUNT(?s) AS ?n) { ?s a ns:Step }"
        started = time.perf_counter()
        (row,) = await runtime.query(count, timeout=60)
        tell("  built when somebody asks first", (time.perf_counter() - started) / ROUNDS * 1e6, "us", "", f"{row['n']['value']} steps")
        chain = f"SELECT (COUNT(?x) AS ?n) {{ <urn:causeline:run:{run.run_id}:step:{2 * ROUNDS}> prov:wasInformedBy+ ?x }}"
        tell("SPARQL path over the steps of the run, warm", await median_of(lambda: runtime.query(chain)), "ms")
        tell(f"recall of the run of {ROUNDS:,} rounds, warm", await median_of(lambda: runtime.recall("s")), "ms", "<= 1.5 ms")


# a chain of 1,000 steps


def chain() -> None:
    """The chain of the seed's pipeline, walked from its end, beside rdflib and a recursive query."""
    store = TripleStore()
    run = f"{GRAPH}r"
    store.assert_quads(quad for step in range(ROUNDS) for quad in _step(run, step))
    last = f"{run}:step:{ROUNDS - 1}"
    assert hint(store, "r").count(";") == ROUNDS - 1
    tell(f"hint over a chain of {ROUNDS:,} steps, warm", median(lambda: hint(store, "r")), "ms", "<= 1.5 ms")
    tell("  worked out anew, after a change of the store", median(lambda: changed_hint(store)), "ms")
    path = f"SELECT (COUNT(?x) AS ?n) {{ GRAPH <{run}> {{ <{last}> <{INFORMED_BY}>+ ?x }} }}"
    tell("  the same as a property path in SPARQL", median(lambda: store.query(path)), "ms")
    tell("  SQLite, a recursive query", median(_recursive()), "ms")
    theirs = _rdflib(store, last)
    if theirs is not None:
        tell("  rdflib, hop by hop", median(theirs, 3), "ms")


def changed_hint(store: TripleStore) -> str:
    """The hint of a store that has just changed."""
    note = ("urn:example:note", KIND, Literal("note"), "urn:example:elsewhere")
    store.retract(*note) if store.ask(*note) else store.assert_quads([note])
    return hint(store, "r")


def _step(run: str, step: int) -> Iterator[tuple[Any, ...]]:
    subject = f"{run}:step:{step}"
    yield subject, KIND, Literal("final" if step == ROUNDS - 1 else "thought"), run
    yield subject, VALUE, Literal(f"thought number {step}"), run
    yield subject, GENERATED_BY, run, run
    if step:
        yield subject, INFORMED_BY, f"{run}:step:{step - 1}", run


def _recursive() -> Callable[[], Any]:
    file = sqlite3.connect(":memory:")
    file.execute("create table step (no integer primary key, kind text, value text, before integer)")
    file.executemany("insert into step values (?, 'thought', ?, ?)", [(no, f"thought number {no}", no - 1) for no in range(ROUNDS)])
    walk = """with recursive chain (no, value, before) as (
        select no, value, before from step where no = ? union all
        select s.no, s.value, s.before from chain c join step s on s.no = c.before) select value from chain"""
    return lambda: file.execute(walk, (ROUNDS - 1,)).fetchall()


def _rdflib(store: TripleStore, last: str) -> Callable[[], Any] | None:
    try:
        import rdflib
    except ImportError:
        print("  rdflib is not installed: skipped")
        return None
    data = rdflib.Dataset()
    data.parse(data=store.dump("nquads"), format="nquads")
    graph = data.graph(rdflib.URIRef(f"{GRAPH}r"))
    before, value = rdflib.URIRef(INFORMED_BY), rdflib.URIRef(VALUE)

    def walk() -> list[Any]:
        step: Any = rdflib.URIRef(last)
        found: list[Any] = []
        while step is not None:
            found.append(graph.value(step, value))
            step = graph.value(step, before)
        return found

    assert len(walk()) == ROUNDS
    return walk


# one run among many


async def among_runs(folder: str, number: int) -> None:
    """Digests as runs commit them, then recall by the words of one."""
    store = open_store(f"sqlite:///{folder}/runs.db")
    await store.open()
    for start in range(0, number, BATCH):
        rows = [page for place in range(start, min(start + BATCH, number)) for page in _digest(place)]
        await store.memory().put(("default", "runs"), rows)
    await store.close()
    async with causeline.open(f"sqlite:///{folder}/runs.db") as runtime:
        wanted = number // 2
        found = await runtime.recall(query=f"the crate numbered x{wanted}x")
        assert f"r{wanted} " in found.text.splitlines()[0], found.text[:200]
        took = await median_of(lambda: runtime.recall(query=f"the crate numbered x{wanted}x"))
        tell(f"recall of one run among {number:,}", took, "ms", "<= 20 ms")
        tell("  by words that all of them have", await median_of(lambda: runtime.recall(query="where is the crate")), "ms")


def _digest(place: int) -> Iterator[StoredItem]:
    log = AgentState()
    log.append("goal", {"text": f"Where is the crate numbered x{place}x?"}, created_at=AT)
    log.append(
        "inference", {"text": "", "calls": [{"id": "c", "name": "look", "arguments": {"aisle": place % 97}}], "finish": "x"}, created_at=AT
    )
    log.append("tool_result", {"call_id": "c", "tool": "look", "result": f"shelf {place % 31}", "ok": True}, created_at=AT)
    log.append("answer", f"It is on shelf {place % 31} of aisle {place % 97}.", created_at=AT)
    run = Run(id=f"r{place}", session=f"s{place}", owner="default", status="succeeded", agent="a", created_at=AT)
    yield from pages(run, [line for node in log.nodes for line in lines_of(node, 0)], AT)


# search among many memories


async def among_memories(folder: str, number: int) -> None:
    """A SQLite file of memories, searched by words."""
    url = f"sqlite:///{folder}/memories.db"
    store = open_store(url)
    await store.open()
    texts = [_memory(place) for place in range(number)]
    started = time.perf_counter()
    for start in range(0, number, BATCH):
        items = [
            item_of(("users", f"u{place % 50}"), f"k{place}", {"n": place}, now=1e9, text=texts[place])
            for place in range(start, min(start + BATCH, number))
        ]
        await store.memory().put(("default", "memories"), [StoredItem(item=item, words=words(item.text)) for item in items])
    kept = time.perf_counter() - started
    await store.close()
    tell(f"keeping {number:,} memories, each", kept / number * 1e6, "us")
    async with MemoryStore.open(url) as memory:
        query = f"which harbour has lantern {number // 3}"
        assert (await memory.search(("users",), query))[0].value == {"n": number // 3}
        tell(f"search among {number:,} memories", await median_of(lambda: memory.search(("users",), query)), "ms", "<= 10 ms")
        common = await median_of(lambda: memory.search(("users",), "harbour lantern keeper"))
        tell("  by words that all of them have", common, "ms", "<= 10 ms")
    tell("  SQLite, FTS5 by its own bm25()", median(_fts(texts, number // 3)), "ms")


def _memory(place: int) -> str:
    towns = ("Porto", "Bergen", "Naples", "Gdansk", "Izmir", "Cork", "Split")
    return (
        f"The keeper of lantern {place} in the harbour of {towns[place % 7]} prefers {('tea', 'rum', 'milk')[place % 3]} at {place % 24} h"
    )


def _fts(texts: Sequence[str], wanted: int) -> Callable[[], Any]:
    file = sqlite3.connect(":memory:")
    file.execute("create virtual table memory using fts5 (words)")
    file.executemany("insert into memory values (?)", [(text,) for text in texts])
    query = "select rowid from memory where memory match ? order by bm25(memory) limit 5"
    return lambda: file.execute(query, (f'"harbour" OR "lantern" OR "{wanted}"',)).fetchall()


# quality


async def quality(folder: str) -> None:
    """Recall@k of the session that holds the answer."""
    sessions, asked = made_sessions()
    print(f"{len(sessions)} sessions made by rule, {len(asked)} questions; share of questions whose session is among the first k\n")
    print(f"{'':<46}{'k=1':>8}{'k=3':>8}{'k=5':>8}{'k=10':>8}")
    async with MemoryStore.open(f"sqlite:///{folder}/quality.db") as memory:
        for name, text in sessions.items():
            await memory.put(("sessions",), name, None, text=text)
        ours = [[item.key for item in await memory.search(("sessions",), question.text, k=10)] for question in asked]
        unrelated = [await memory.search(("sessions",), text) for text in ("quantum chromodynamics", "zebra crossing paint", "?!")]
    _row("causeline, words alone", ours, asked)
    theirs = _bm25(sessions, asked)
    if theirs is not None:
        _row("bm25s, its own words without stop words", theirs, asked)
    for kind in dict.fromkeys(question.kind for question in asked):
        chosen = [place for place, question in enumerate(asked) if question.kind == kind]
        picked = [asked[place] for place in chosen]
        _row(f"  {kind}: causeline", [ours[place] for place in chosen], picked)
        if theirs is not None:
            _row(f"  {kind}: bm25s", [theirs[place] for place in chosen], picked)
    print(f"\nmemories found for three questions about nothing that is kept: {sum(map(len, unrelated))}")


def _row(what: str, found: Sequence[Sequence[str]], asked: Sequence[Asked]) -> None:
    shares = [statistics.mean(question.session in names[:k] for names, question in zip(found, asked, strict=True)) for k in (1, 3, 5, 10)]
    print(f"{what:<46}" + "".join(f"{share:>8.1%}" for share in shares))


def _bm25(sessions: dict[str, str], asked: Sequence[Asked]) -> list[list[str]] | None:
    try:
        import bm25s
    except ImportError:
        print("bm25s is not installed: skipped")
        return None
    names = list(sessions)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(sessions.values()), stopwords="en", show_progress=False), show_progress=False)
    rows, _ = index.retrieve(
        bm25s.tokenize([question.text for question in asked], stopwords="en", show_progress=False), k=10, show_progress=False
    )
    return [[names[place] for place in row] for row in rows.tolist()]


async def run(options: argparse.Namespace) -> None:
    """Everything that was asked for, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="causeline-bench-") as folder:
        if options.quality:
            await quality(folder)
            return
        await provenance(folder)
        chain()
        await among_runs(folder, options.runs)
        await among_memories(folder, options.memories)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--memories", type=int, default=100_000)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()

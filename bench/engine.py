"""What the graph engine costs per visit and per item, beside asyncio's own means in the same run.

Run: python -m bench.engine

`floor` is one asyncio.TaskGroup with a semaphore doing the same calls (for the loop: awaiting the calls one after the other).
Each figure is the best of three.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from causeline.graph import Dispatcher, Graph, Limits, Outcome, node

ITEMS = 10_000
ROUTES: dict[str, str] = dict.fromkeys(("all-success", "partial", "all-error", "empty"), "join")


@node("urn:bench:count", ports=("again", "done"), inline=True)
def count(ctx):
    number = ctx.state["n"] + 1
    return Outcome("again" if number < ITEMS else "done", {"n": number})


@node("urn:bench:plain", ports=("success",), inline=True)
def plain(ctx):
    return Outcome("success", {"out": ctx.item})


@node("urn:bench:waiting", ports=("success",))
async def waiting(ctx):
    await asyncio.sleep(0)
    return Outcome("success", {"out": ctx.item})


def fan(name: str, concurrency: int, **body: Any) -> Graph:
    joined: dict[str, str] = dict.fromkeys(("success", "error", "empty"), "end")
    return (
        Graph(f"urn:bench:{name}:{concurrency}")
        .scatter("fan", "items", ROUTES, concurrency=concurrency, **body)
        .gather("join", ["fan"], "append", joined, target="out", field="out")
        .terminal("end")
    )


def prepare() -> Dispatcher:
    child = Graph("urn:bench:child").node("one", plain, {"success": "end"}).terminal("end")
    graphs = [child, Graph("urn:bench:loop").node("count", count, {"again": "count", "done": "end"}).terminal("end")]
    for concurrency in (1, 16):
        graphs += [
            fan("plain", concurrency, node=plain),
            fan("waiting", concurrency, node=waiting),
            fan("child", concurrency, dag="urn:bench:child"),
        ]
    dispatcher = Dispatcher(limits=Limits(visits=10**9))
    dispatcher.register_all([graph.build() for graph in graphs], [one for graph in graphs for one in graph.nodes])
    return dispatcher


async def best(work: Callable[[], Awaitable[object]], units: int = ITEMS) -> float:
    """Microseconds per unit."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        await work()
        times.append(time.perf_counter() - begun)
    return min(times) / units * 1e6


async def in_tasks(concurrency: int, *, suspend: bool) -> None:
    semaphore = asyncio.Semaphore(concurrency)
    out: list[int | None] = [None] * ITEMS

    async def one(index: int) -> None:
        async with semaphore:
            if suspend:
                await asyncio.sleep(0)
            out[index] = index

    async with asyncio.TaskGroup() as group:
        for index in range(ITEMS):
            group.create_task(one(index))


async def in_a_row() -> None:
    async def one(number: int) -> int:
        return number + 1

    number = 0
    while number < ITEMS:
        number = await one(number)


def show(what: str, cost: float, target: float | None, floor: float) -> None:
    bound = "" if target is None else f"target {target:g}{'' if cost <= target else ' MISSED'}"
    print(f"{what:52} {cost:7.2f} us   {cost / floor:6.2f} x floor ({floor:.2f} us)   {bound}")


async def main() -> None:
    dispatcher = prepare()
    items = {"items": list(range(ITEMS))}

    def run(iri: str, state: dict) -> Callable[[], Awaitable[object]]:
        return lambda: dispatcher.execute(iri, state)._outcome()

    async def iterate() -> None:
        async for _ in dispatcher.execute("urn:bench:loop", {"n": 0}):
            pass

    row = await best(in_a_row)
    show("visit of a loop, awaited", await best(run("urn:bench:loop", {"n": 0})), 5, row)
    show("visit of a loop, iterated", await best(iterate), None, row)
    for concurrency in (1, 16):
        floor = await best(partial(in_tasks, concurrency, suspend=False))
        suspended = await best(partial(in_tasks, concurrency, suspend=True))
        for what, name, target, beside in (
            ("node", "plain", 8, floor),
            ("node that waits once", "waiting", None, suspended),
            ("one-node document", "child", 30, floor),
        ):
            show(f"scatter item, {what}, {concurrency} at once", await best(run(f"urn:bench:{name}:{concurrency}", items)), target, beside)
    for size in (10_000, 20_000, 40_000):
        cost = await best(run("urn:bench:plain:16", {"items": list(range(size))}), size)
        print(f"append gather of {size:6} items{'':24} {cost:7.2f} us per item")


if __name__ == "__main__":
    asyncio.run(main())

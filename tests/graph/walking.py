"""Small things the engine's tests share: registering graphs, a journal that remembers, a clock that is told the time."""

import asyncio
import json
from concurrent.futures import Future, ThreadPoolExecutor

from causeline.graph import Dispatcher, Graph, Limits, Outcome


def dispatcher(*graphs: Graph, limits: Limits | None = None, clock=None, reducers=None, **options) -> Dispatcher:
    made = Dispatcher(limits=limits, clock=clock, **options)
    nodes = [node for graph in graphs for node in graph.nodes]
    made.register_all([graph.build() for graph in graphs], nodes, reducers=reducers)
    return made


async def run(graph: Graph, state=None, *others: Graph, limits=None, clock=None, reducers=None, **options):
    return await dispatcher(graph, *others, limits=limits, clock=clock, reducers=reducers).execute(graph.iri, state, **options)


class Recording:
    """A journal that keeps what it is given; with `fail_at` its n-th step (from 0) raises."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.steps = []
        self.items = []
        self.fail_at = fail_at

    async def step(self, step) -> None:
        if len(self.steps) == self.fail_at:
            raise OSError("the disk is full")
        self.steps.append(step)

    async def progress(self, item) -> None:
        self.items.append(item)


async def idle(turns: int = 50) -> None:
    """Let everything else in the event loop go on, however long a turn of it takes."""
    for _ in range(turns):
        await asyncio.sleep(0)


class AtOnce(ThreadPoolExecutor):
    """Runs what is given to a thread there and then."""

    def submit(self, fn, /, *args, **kwargs):
        done = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class ManualClock:
    """Time moves when nothing else can: the earliest sleeper is woken once the loop is idle."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Future]] = []
        self._ticking: asyncio.Task | None = None

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        asyncio.get_running_loop().set_default_executor(AtOnce())  # what is in a thread is not idle, and cannot be seen
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        waiter = asyncio.get_running_loop().create_future()
        entry = (self.time + seconds, len(self.slept), waiter)
        self._sleepers.append(entry)
        asyncio.get_running_loop().call_soon(self._tick, 0)
        try:
            await waiter
        finally:
            if entry in self._sleepers:
                self._sleepers.remove(entry)

    def _tick(self, turns: int) -> None:
        """After some idle turns of the loop, wake the earliest."""
        if not self._sleepers:
            return
        if turns < 20:
            asyncio.get_running_loop().call_soon(self._tick, turns + 1)
            return
        due, _, waiter = min(self._sleepers, key=lambda entry: entry[:2])
        self.time = max(self.time, due)
        if not waiter.done():
            waiter.set_result(None)
        asyncio.get_running_loop().call_soon(self._tick, 0)


def through_json(saved):
    """What a store would give back."""
    return json.loads(json.dumps(saved))


def others() -> set:
    """Tasks besides the test's own."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def counting(to: int) -> Graph:
    def count(ctx):
        number = ctx.state.get("n", 0) + 1
        return Outcome("again" if number < to else "done", {"n": number})

    return Graph("urn:t:count").node("count", count, {"again": "count", "done": "end"}).terminal("end")


def chain(*functions, name="chain") -> Graph:
    graph = Graph(f"urn:t:{name}")
    for number, function in enumerate(functions):
        follower = f"n{number + 1}" if number + 1 < len(functions) else "end"
        graph.node(f"n{number}", function, {"done": follower})
    return graph.terminal("end")

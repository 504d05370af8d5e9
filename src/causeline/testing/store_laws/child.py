"""What another process does in a law: `python -m causeline.testing.store_laws.child MODULE:FUNCTION ARGUMENT DEED`.

It opens the store, prints `ready`, waits for a line on standard input, does its deed and prints one JSON line
for each thing it has done.
"""

import asyncio
import importlib
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from causeline.runtime.records import Run
from causeline.runtime.store import Store
from causeline.testing.store_laws.sample import OWNER, Writer, begin, take


def tell(**what: Any) -> None:
    """One JSON line, at once."""
    print(json.dumps(what), flush=True)


async def claim(store: Store) -> None:
    """Try to take every queued run."""
    for run in await store.rows(Run, owner=OWNER, status=("queued",)):
        taken = await take(store, run, sys.argv[3])
        tell(run=run.id, won=taken is not None)


async def write(store: Store) -> None:
    """Write one session until killed; tell each step once it is durable."""
    writer = await begin(store, "endless", session="endless")
    while True:
        await writer.write(writer.next([f"step {writer.step}"], events=3))
        tell(head=writer.head, events=writer.next_event - 1)


async def step(store: Store) -> None:
    """Write one step of the run r1."""
    (run,) = await store.rows(Run, owner=OWNER, id="r1")
    writer = Writer(store, run)
    await writer.go()
    tell(head=writer.head)


async def share(store: Store) -> None:
    """Write sixty steps in four sessions of one's own, all at once."""
    me = sys.argv[3].rpartition("-")[2]

    async def session(number: int) -> None:
        writer = await begin(store, f"{me}-{number}", session=f"{me}-{number}")
        await writer.go(15, events=2)
        await writer.end()

    await asyncio.gather(*[session(number) for number in range(4)])
    tell(done=me)


DEEDS: dict[str, Callable[[Store], Awaitable[None]]] = {"claim": claim, "write": write, "step": step, "share": share}


async def main() -> None:
    """Open, say so, wait for the word, and do it."""
    module, _, function = sys.argv[1].partition(":")
    store: Store = getattr(importlib.import_module(module), function)(sys.argv[2])
    await store.open()
    tell(ready=True)
    await asyncio.to_thread(sys.stdin.readline)
    await DEEDS[sys.argv[3].partition("-")[0]](store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())

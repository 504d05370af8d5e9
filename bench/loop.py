"""Rounds of the react document in memory: what one model call and one tool call cost, and whether that grows.

    python -m bench.loop [ROUNDS]

A round is one scripted model reply with one tool call, and its result. Times are medians over tenths of the run.
"""

import asyncio
import statistics
import sys
import time
from itertools import pairwise

import causeline
from causeline.models import ScriptedModel


async def main(rounds: int) -> None:
    marks: list[float] = []

    @causeline.tool(effects=False)
    async def step(i: int) -> str:
        """Take a step."""
        marks.append(time.perf_counter())
        return f"step {i}"

    agent = causeline.Agent(ScriptedModel.named(f"loop-{rounds}"), tools=[step], max_steps=2 * rounds + 10)
    started = time.perf_counter()
    result = await agent.run("go")
    total = time.perf_counter() - started
    assert result.answer == f"done {rounds}", result
    gaps = [later - earlier for earlier, later in pairwise(marks)]
    tenth = max(1, len(gaps) // 10)
    first, last = statistics.median(gaps[:tenth]), statistics.median(gaps[-tenth:])
    print(
        f"{rounds} rounds in memory: {total / rounds * 1e6:.0f} us per round; "
        f"median of the first tenth {first * 1e6:.0f} us, of the last {last * 1e6:.0f} us, ratio {last / first:.2f}"
    )
    early, late = statistics.fmean(gaps[:tenth]), statistics.fmean(gaps[-tenth:])
    print(f"mean of the first tenth {early * 1e6:.0f} us, of the last {late * 1e6:.0f} us, ratio {late / early:.2f}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))

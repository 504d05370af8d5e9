"""How far a prompt travels: files it enters, moves between files, and Python calls a round. Counts, no times.

python -m bench.house
"""

import asyncio
import sys
from pathlib import Path
from types import FrameType

import causeline
from causeline.models import ScriptedModel

ROUNDS = 200
SOURCE = str(Path(causeline.__file__).parent)


class Travel:
    """Counts, as a profile function: which of causeline's files are entered, and how often a call crosses from one into another."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.moves = 0
        self.calls = 0
        self._last = ""

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        self.calls += 1
        file = frame.f_code.co_filename
        if file.startswith(SOURCE):
            self.files.add(file)
            self.moves += file != self._last
            self._last = file


@causeline.tool(effects=False)
async def look(i: int) -> str:
    """Looks."""
    return f"saw {i}"


async def travel(rounds: int) -> Travel:
    """A session's first run of so many rounds, in memory, from `start` to its result."""
    script = [{"calls": [{"name": "look", "arguments": {"i": number}}]} for number in range(rounds)]
    agent = causeline.Agent(ScriptedModel([*script, {"text": "done"}]), tools=[look])
    counted = Travel()
    async with causeline.open("memory://") as runtime:
        sys.setprofile(counted)
        try:
            await (await runtime.start(agent, "go")).result()
        finally:
            sys.setprofile(None)
    return counted


def main() -> None:
    """Print what a prompt and its answer come to, what a tool call adds, and what each further round costs."""
    answer, call, many = (asyncio.run(travel(rounds)) for rounds in (0, 1, ROUNDS))
    print("                               files  moves  Python calls")
    print(f"a prompt and its answer        {len(answer.files):5}  {answer.moves:5}  {answer.calls:12}")
    print(f"with one tool call             {len(call.files):5}  {call.moves:5}  {call.calls:12}")
    print(f"each further round                           {(many.calls - call.calls) / (ROUNDS - 1):12.0f}")


if __name__ == "__main__":
    main()

"""Figures of this checkout, or of this one beside another:

    python -m bench [NAME ...] [--against PATH] [--turns 5] [--instructions]

Names are beginnings of those in `bench.figures`. With --against each figure is measured in turn here and there, so that what else the
machine does falls on both; what counts are the medians and their ratio. --instructions counts those of a round in memory by valgrind,
which no other process disturbs.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from bench.figures import FIGURES

HERE = Path(__file__).parent.parent
_COUNT = "import asyncio, sys; from bench.figures import _run; asyncio.run(_run('memory://', int(sys.argv[1])))"


def python(checkout: Path, *arguments: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run Python on the sources of a checkout, with the benchmarks of this one."""
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{HERE}", "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [*before, sys.executable, *arguments], cwd=HERE, env=environment, check=True, text=True, capture_output=True, timeout=600
    )


def measured(checkout: Path, name: str) -> float:
    """One figure of a checkout, in a process of its own."""
    return json.loads(python(checkout, "-m", "bench", "--one", name).stdout.splitlines()[-1])


def instructions(checkout: Path) -> float:
    """Instructions of a round in memory: of 120 rounds, less those of 20."""
    counts: list[int] = []
    for rounds in ("120", "20"):
        done = python(checkout, "-c", _COUNT, rounds, before=("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"))
        found = re.search(r"Collected : (\d+)", done.stderr)
        assert found is not None, done.stderr[-500:]
        counts.append(int(found.group(1)))
    return (counts[0] - counts[1]) / 100


def compare(names: list[str], other: Path | None, turns: int) -> None:
    for name in names:
        unit, more = FIGURES[name].unit, FIGURES[name].more
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(turns):
            ours.append(measured(HERE, name))
            if other is not None:
                theirs.append(measured(other, name))
        told = f"{name:<40}{statistics.median(ours):>12,.1f} {unit:<9}"
        if theirs:
            ratio = statistics.median(ours) / statistics.median(theirs)
            told += f" other {statistics.median(theirs):>12,.1f}   {ratio:.2f} of it{' (more is better)' if more else ''}"
        print(told, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--against", type=Path, metavar="PATH")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(FIGURES[options.one].measure()))
        return
    other = options.against.resolve() if options.against else None
    names = [name for name in FIGURES if not options.names or name.startswith(tuple(options.names))]
    compare(names, other, options.turns)
    if options.instructions and shutil.which("valgrind"):
        for checkout in (HERE, *([other] if other else [])):
            print(f"{'instructions of a round in memory':<40}{instructions(checkout) / 1e6:>12.2f} million   {checkout}", flush=True)


if __name__ == "__main__":
    main()

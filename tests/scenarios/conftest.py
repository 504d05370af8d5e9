"""Every scenario runs in memory and on a SQLite file; those with real processes on the file alone."""

import pytest

from tests.scenarios.world import World


@pytest.fixture(params=["memory", "sqlite"])
def world(request: pytest.FixtureRequest, tmp_path) -> World:
    return World("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db", tmp_path)


@pytest.fixture
def disk(tmp_path) -> World:
    return World(f"sqlite:///{tmp_path}/store.db", tmp_path)

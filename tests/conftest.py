"""What holds for the whole suite: no network outside loopback, and how far the kill-point sweep goes."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

LOOPBACK = Path(__file__).parent / "loopback"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--sweep", choices=["sample", "all"], default="sample", help="kill points to visit: a sample, or all of them")


def pytest_configure(config: pytest.Config) -> None:
    """Close the network for this process and for those it starts."""
    if not hasattr(sys.modules.get("sitecustomize"), "refused"):  # a process that was started by another one of the suite has it
        sys.path.insert(0, str(LOOPBACK))
        sys.modules.pop("sitecustomize", None)
        import sitecustomize  # noqa: F401 - importing it installs the hook

        sys.path.remove(str(LOOPBACK))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(LOOPBACK), os.environ.get("PYTHONPATH")]))


@pytest.fixture(autouse=True)
def _loopback_only() -> Iterator[None]:
    """Fail a test whose code swallowed the refusal."""
    refused: list[str] = sys.modules["sitecustomize"].refused
    refused.clear()
    yield
    assert not refused, f"tried to leave loopback: {refused}"


@pytest.fixture(scope="session")
def sweep_all(request: pytest.FixtureRequest) -> bool:
    """True when every kill point is to be visited."""
    return request.config.getoption("--sweep") == "all"

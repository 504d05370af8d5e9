"""The promises of `causeline.memory.backend.MemoryBackend`, as tests that run on any backend.

A backend's author writes one class and one fixture (pytest with pytest-asyncio in its `auto` mode):

    from causeline.testing.memory_laws import MemoryCase, MemoryLaws

    class TestMyMemory(MemoryLaws):
        @pytest.fixture
        def case(self, tmp_path):
            return MemoryCase(lambda: my_backend(tmp_path / "data"))  # an async context manager that gives a backend

The data behind a `case` is empty at first. Laws that need more than the case offers are skipped with the reason.
"""

import pytest

_PARTS = ("memory_promises", "search_promises")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from causeline.testing.memory_laws.memory_promises import KeepingLaws, MemoryCase  # noqa: E402 - assertions are rewritten on import
from causeline.testing.memory_laws.search_promises import SearchLaws  # noqa: E402 - as above


class MemoryLaws(KeepingLaws, SearchLaws):
    """Every law. Subclass it with a fixture `case`."""


__all__ = ["MemoryCase", "MemoryLaws"]

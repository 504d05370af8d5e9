"""The promises of `causeline.runtime.store.Store`, as tests that run on any backend.

A backend's author writes one class and one fixture (pytest with pytest-asyncio in its `auto` mode):

    from causeline.testing.store_laws import Backend, StoreLaws

    class TestMyStore(StoreLaws):
        @pytest.fixture
        def backend(self, tmp_path):
            path = str(tmp_path / "data")
            return Backend(connect=lambda: MyStore(path), process=("my_package:MyStore", path))

The data behind a `backend` is empty at first. Laws that need more than the backend offers are skipped with
the reason. Some laws start other processes.
"""

import pytest

_PARTS = ("committing", "every", "exactness", "leasing", "paging", "reading", "sample", "sharing", "starting")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from causeline.testing.store_laws.every import StoreLaws  # noqa: E402 - assertions are rewritten on import, so the order matters
from causeline.testing.store_laws.sample import Backend  # noqa: E402 - as above

__all__ = ["Backend", "StoreLaws"]

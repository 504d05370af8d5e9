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

from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite(
    *(f"{__name__}.{part}" for part in ("committing", "exactness", "leasing", "reading", "sample", "sharing", "starting"))
)

from causeline.runtime.store import Store  # noqa: E402 - assertions are rewritten on import, so the order matters
from causeline.testing.store_laws.committing import CommitLaws, EventLaws, LedgerLaws  # noqa: E402
from causeline.testing.store_laws.exactness import ClockLaws, ExactLaws  # noqa: E402
from causeline.testing.store_laws.leasing import CancelLaws, LeaseLaws  # noqa: E402
from causeline.testing.store_laws.reading import BranchLaws, OwnerLaws, RowLaws, WholeSessionLaws  # noqa: E402
from causeline.testing.store_laws.sample import Backend  # noqa: E402
from causeline.testing.store_laws.sharing import ChangedLaws, DurableLaws, UnchangedLaws  # noqa: E402
from causeline.testing.store_laws.starting import AnswerLaws, StartLaws  # noqa: E402

__all__ = ["Backend", "StoreLaws"]


class StoreLaws(
    StartLaws, AnswerLaws, LeaseLaws, CancelLaws, CommitLaws, LedgerLaws, EventLaws, BranchLaws, RowLaws, OwnerLaws, WholeSessionLaws,
    ExactLaws, ClockLaws, ChangedLaws, DurableLaws, UnchangedLaws,
):  # fmt: skip
    """Every law. Subclass it with a fixture `backend`."""

    @pytest.fixture
    def backend(self) -> Backend:
        """What the laws run on."""
        raise NotImplementedError("give a fixture named backend that returns a Backend")

    @pytest.fixture
    async def store(self, backend: Backend) -> AsyncIterator[Store]:
        """An open store on the backend's data."""
        store = backend.connect()
        await store.open()
        yield store
        await store.close()

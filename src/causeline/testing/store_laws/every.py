"""All laws in one class; see the package."""

from collections.abc import AsyncIterator

import pytest

from causeline.runtime.store import Store
from causeline.testing.store_laws.committing import CommitLaws, EventLaws, LedgerLaws
from causeline.testing.store_laws.exactness import ClockLaws, ExactLaws
from causeline.testing.store_laws.leasing import CancelLaws, LeaseLaws
from causeline.testing.store_laws.paging import PageLaws, SessionLaws, TurnLaws
from causeline.testing.store_laws.reading import BranchLaws, OwnerLaws, RowLaws, WholeSessionLaws
from causeline.testing.store_laws.sample import Backend
from causeline.testing.store_laws.sharing import ChangedLaws, DurableLaws, UnchangedLaws
from causeline.testing.store_laws.starting import AnswerLaws, StartLaws


class StoreLaws(
    StartLaws, AnswerLaws, LeaseLaws, CancelLaws, CommitLaws, LedgerLaws, EventLaws, BranchLaws, RowLaws, PageLaws,
    TurnLaws, SessionLaws, OwnerLaws, WholeSessionLaws, ExactLaws, ClockLaws, ChangedLaws, DurableLaws, UnchangedLaws,
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

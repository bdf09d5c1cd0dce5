from __future__ import annotations

import pytest

from fleet.store.memory import MemoryStore
from tests.suites.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

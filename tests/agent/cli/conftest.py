from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulators.quick_folder import quick_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """These tests sync thousands of times."""
    with quick_folder() as folder:
        yield folder

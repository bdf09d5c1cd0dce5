from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.serving.running import Running, running, served, stub_folder


@pytest.fixture(scope="package", autouse=True)
def _stub_backend() -> Iterator[None]:
    """Engines started by these tests know the stub backend."""
    before = os.environ.get("MINDEDGE_STUB_BACKEND")
    os.environ["MINDEDGE_STUB_BACKEND"] = "1"
    yield
    if before is None:
        del os.environ["MINDEDGE_STUB_BACKEND"]
    else:
        os.environ["MINDEDGE_STUB_BACKEND"] = before


@pytest.fixture(scope="package")
def affine(tmp_path_factory: pytest.TempPathFactory, _stub_backend: None) -> Iterator[Running]:
    """One server with the affine model, for tests that leave it as it is."""
    with running() as server:
        server.process.load(served(stub_folder(tmp_path_factory.mktemp("affine"))))
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test lays out its own bundles."""
    return tmp_path

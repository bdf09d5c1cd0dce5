from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.selection.request import SelectionRequest, SelectionTools
from edge_contracts.archive import open_bundle
from edge_contracts.capabilities import Capabilities, RuntimeFact
from tests.simulators.bundle_factory import mixed_bundle

DEVICE = Capabilities(runtimes=[RuntimeFact(name="stub", version="1.0", targets=["cpu"], status="usable")])


class Bench:
    """Selections over stub bundles, in real trial processes."""

    def __init__(self, tmp_path: Path) -> None:
        self._tmp_path = tmp_path
        self._bundles = 0
        self.lines: list[str] = []
        self.tools = SelectionTools(
            cache_dir=tmp_path / "cache", work_dir=tmp_path / "work", progress=self.lines.append,
            environ={**os.environ, "MINDEDGE_STUB_BACKEND": "1"},
        )  # fmt: skip

    def folder(self, behaviours: dict[str, dict[str, Any]], **bundle: Any) -> BundleFolder:
        self._bundles += 1
        path = mixed_bundle(self._tmp_path / f"b{self._bundles}.mindie", behaviours, **bundle)
        return lay_out(open_bundle(path), self._tmp_path / f"bundle{self._bundles}")

    def request(self, behaviours: dict[str, dict[str, Any]], **fields: Any) -> SelectionRequest:
        bundle = {key: fields.pop(key) for key in ("damaged", "version", "seed") if key in fields}
        defaults: dict[str, Any] = {"device": DEVICE, "budget_cpus": 1.0, "race_budget_s": 4.0}
        return SelectionRequest(folder=self.folder(behaviours, **bundle), **{**defaults, **fields})

    def with_tools(self, **fields: Any) -> SelectionTools:
        return replace(self.tools, **fields)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path)
    assert list_trials() == [], "a trial outlived its test"


def list_trials() -> list[int]:
    """Children of this process that are alive and run agent.trial."""
    return [pid for pid in _children() if b"agent.trial" in _command_line(pid)]


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(word) for word in text.split()]


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

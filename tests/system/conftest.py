"""Marks of the system tests."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "arm64: needs root rights and the root of deploy/emulate-arm64; skipped when absent, required in CI"
    )

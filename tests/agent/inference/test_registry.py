from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agent.errors import BackendError
from agent.inference import lookup
from agent.inference.process_end import signal_text
from agent.inference.registry import backend, backend_names, runtime_facts

STUB = {"MINDEDGE_STUB_BACKEND": "1"}


def test_the_stub_exists_only_where_it_is_enabled() -> None:
    assert "stub" not in backend_names({})
    assert backend_names(STUB)[-1] == "stub"
    with pytest.raises(BackendError, match="no known backend"):
        backend("stub", environ={})
    assert backend("stub", environ=STUB).name == "stub"


def test_an_unknown_backend_is_told_with_the_known_ones() -> None:
    with pytest.raises(BackendError, match="onnxruntime, openvino, tflite"):
        backend("abacus", environ={})


def test_no_backend_imports_its_runtime_before_it_is_used() -> None:
    script = (
        "import sys; from agent.inference.registry import backend, backend_names\n"
        "from edge_contracts.capabilities import Capabilities\n"
        "from tests.simulators.bundle_factory import affine_spec\n"
        "for name in backend_names(): backend(name).option_sets(affine_spec('v', name, 'f'), Capabilities(), 2)\n"
        "heavy = {'numpy', 'onnxruntime', 'openvino', 'ai_edge_litert', 'tflite_runtime'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)\n"
    )
    assert os.spawnve(os.P_WAIT, sys.executable, [sys.executable, "-c", script], {**os.environ, **STUB}) == 0


class PlugIn:
    """An outsider's backend, installed as a distribution with an entry point."""

    def __init__(self, folder: Path, body: str) -> None:
        info = folder / "acme_npu-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-npu\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[mindedge.backends]\nacme = acme_npu:AcmeBackend\n")
        (folder / "acme_npu.py").write_text(body)


GOOD = "class AcmeBackend:\n    name = 'acme'\n    def __init__(self, *, cache_dir): self.cache_dir = cache_dir\n"


def test_an_outsiders_backend_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PlugIn(tmp_path, GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "acme" in backend_names({})
    assert backend("acme", cache_dir=tmp_path).cache_dir == tmp_path  # type: ignore[attr-defined]


def test_a_plug_in_that_cannot_be_imported_is_a_backend_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PlugIn(tmp_path, "raise SystemError('made for another board')")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("acme_npu", None)
    with pytest.raises(BackendError, match="made for another board"):
        backend("acme")


def test_a_plug_in_cannot_take_the_name_of_the_stub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_entry_points", lambda: {"stub": lambda: PlugIn})
    assert "stub" not in backend_names({})
    with pytest.raises(BackendError, match="no known backend"):
        backend("stub", environ={})


def test_facts_come_from_children_and_are_kept_until_something_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "facts.json"
    environ = {**os.environ, **STUB}
    first = runtime_facts(cache_file=cache, names=["stub"], environ=environ)
    assert [(fact.name, fact.status) for fact in first] == [("stub", "usable")]
    stamp = cache.stat().st_mtime_ns
    assert runtime_facts(cache_file=cache, names=["stub"], environ=environ) == first
    assert cache.stat().st_mtime_ns == stamp
    PlugIn(tmp_path / "site", GOOD)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    runtime_facts(cache_file=cache, names=["stub"], environ=environ)
    assert cache.stat().st_mtime_ns != stamp


def test_a_runtime_that_dies_at_import_is_broken_with_the_signal(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("import os; os.kill(os.getpid(), 4)")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (fact,) = runtime_facts(names=["onnxruntime"], environ=environ)
    assert fact.status == "broken"
    assert "SIGILL" in (fact.detail or "")


def test_a_runtime_that_hangs_at_import_is_broken_after_the_timeout(tmp_path: Path) -> None:
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "__init__.py").write_text("import time; time.sleep(600)")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (fact,) = runtime_facts(names=["openvino"], timeout_s=1.0, environ=environ)
    assert (fact.status, fact.detail) == ("broken", "the import timed out")


def test_a_runtime_that_raises_at_import_is_broken_with_its_words(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open')")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    (fact,) = runtime_facts(names=["onnxruntime"], environ=environ)
    assert fact.status == "broken"
    assert "libcudart.so.12" in (fact.detail or "")


def test_ends_in_words() -> None:
    assert signal_text(-4) == "died of SIGILL (illegal instruction: built for another CPU)"
    assert signal_text(3) == "ended with exit code 3"
    assert signal_text(-35).startswith("died of")

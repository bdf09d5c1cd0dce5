"""One behavioural suite over all backends that are installed."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent.errors import BackendError, ProviderFellBack
from agent.inference.backend import Backend
from agent.inference.backends.onnxruntime import _session_options
from agent.inference.bundle_folder import BundleFolder
from agent.inference.registry import backend as backend_by_name
from agent.inference.session import open_session
from edge_contracts.capabilities import Capabilities, CpuFacts, RuntimeFact
from tests.simulators.bundle_factory import (
    VariantFiles,
    affine_spec,
    onnx_variant,
    openvino_variant,
    seeded_affine,
    stub_variant,
)
from tests.suites.backend_suite import BackendSuite


class TestStub(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return backend_by_name("stub", environ={"MINDEDGE_STUB_BACKEND": "1"})

    @pytest.fixture
    def variant(self) -> VariantFiles:
        return stub_variant(seeded_affine())


class TestOnnxRuntime(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        pytest.importorskip("onnxruntime")
        return backend_by_name("onnxruntime")

    @pytest.fixture
    def variant(self) -> VariantFiles:
        pytest.importorskip("onnx")
        return onnx_variant(seeded_affine())

    def test_a_provider_that_takes_no_node_counts_as_fallen_back(self, backend: Backend, folder: BundleFolder) -> None:
        if "AzureExecutionProvider" not in (backend.fact().providers or []):
            pytest.skip("this build has no provider that takes nothing")
        with pytest.raises(ProviderFellBack, match="CPUExecutionProvider"):
            open_session(backend, folder, folder.bundle.variants[0], {"provider": "AzureExecutionProvider"})

    def test_the_optimised_graph_is_kept_and_answers_the_same(self, folder: BundleFolder, tmp_path: Path) -> None:
        cached = backend_by_name("onnxruntime", cache_dir=tmp_path / "cache")
        x = {"x": np.ones((2, 8), np.float32)}
        answers = []
        for _ in range(2):
            session = open_session(cached, folder, folder.bundle.variants[0], {"threads": 1})
            answers.append(session.infer(x)["logits"])
            session.close()
        np.testing.assert_array_equal(answers[0], answers[1])
        (kept,) = (tmp_path / "cache" / "onnxruntime").iterdir()
        kept.write_bytes(b"damaged")
        session = open_session(cached, folder, folder.bundle.variants[0], {"threads": 1})
        np.testing.assert_array_equal(session.infer(x)["logits"], answers[0])
        assert kept.stat().st_size > 100

    def test_without_prepacked_weights_and_arena_the_answers_are_the_same(
        self, backend: Backend, folder: BundleFolder
    ) -> None:
        onnxruntime = pytest.importorskip("onnxruntime")
        variant, x = folder.bundle.variants[0], {"x": np.ones((2, 8), np.float32)}
        usual = open_session(backend, folder, variant, {"threads": 1}).infer(x)["logits"]
        small = {"threads": 1, "prepacking": False, "arena": False}
        np.testing.assert_allclose(open_session(backend, folder, variant, small).infer(x)["logits"], usual, rtol=1e-5)
        settings = _session_options(onnxruntime, small, "CPUExecutionProvider")
        assert settings.get_session_config_entry("session.disable_prepacking") == "1"
        assert not settings.enable_cpu_mem_arena

    def test_a_model_with_files_beside_it_is_not_kept(self, folder: BundleFolder, tmp_path: Path) -> None:
        variant = folder.bundle.variants[0]
        (folder.variant_folder(variant.name) / "weights.data").write_bytes(b"0")
        cached = backend_by_name("onnxruntime", cache_dir=tmp_path / "cache")
        open_session(cached, folder, variant, {"threads": 1}).close()
        assert not (tmp_path / "cache").exists()

    def test_a_provider_that_the_build_lacks_is_refused(self, backend: Backend, folder: BundleFolder) -> None:
        with pytest.raises(ProviderFellBack, match="CANNExecutionProvider"):
            open_session(backend, folder, folder.bundle.variants[0], {"provider": "CANNExecutionProvider"})

    def test_providers_are_raced_only_where_the_installed_build_has_them(self, backend: Backend) -> None:
        fact = RuntimeFact(name="onnxruntime", providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        spec = affine_spec("gpu", "onnxruntime", "m.onnx", target="gpu")
        sets = backend.option_sets(spec, Capabilities(runtimes=[fact]), 4)
        assert [options["provider"] for options in sets] == ["CUDAExecutionProvider"]
        assert backend.option_sets(spec, Capabilities(), 4) == []


class TestOpenVino(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        pytest.importorskip("openvino")
        return backend_by_name("openvino")

    @pytest.fixture
    def variant(self) -> VariantFiles:
        pytest.importorskip("onnx")
        return openvino_variant(seeded_affine())

    def test_bf16_is_raced_where_the_cpu_has_it(self, backend: Backend) -> None:
        spec = affine_spec("any", "openvino", "m.xml")
        capable = Capabilities(cpu=CpuFacts(features={"avx512_bf16": True}))
        assert {o["precision"] for o in backend.option_sets(spec, capable, 2)} == {"f32", "bf16"}
        assert {o["precision"] for o in backend.option_sets(spec, Capabilities(), 2)} == {"f32"}

    def test_a_device_that_is_not_there_is_refused(self, backend: Backend, folder: BundleFolder) -> None:
        with pytest.raises(ProviderFellBack, match="NPU"):
            open_session(backend, folder, folder.bundle.variants[0], {"provider": "NPU", "threads": 1})

    def test_a_compiled_model_is_cached_and_answers_the_same(self, folder: BundleFolder, tmp_path: Path) -> None:
        backend = backend_by_name("openvino", cache_dir=tmp_path / "cache")
        x = {"x": np.ones((1, 8), np.float32)}
        answers = []
        for _ in range(2):
            session = open_session(backend, folder, folder.bundle.variants[0], {"threads": 1, "precision": "f32"})
            answers.append(session.infer(x)["logits"])
            session.close()
        np.testing.assert_array_equal(answers[0], answers[1])
        assert any((tmp_path / "cache").rglob("*.blob"))


class TestTflite(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        if not any(importlib.util.find_spec(name) for name in ("ai_edge_litert", "tflite_runtime")):
            pytest.skip("neither ai-edge-litert nor tflite-runtime is installed")
        return backend_by_name("tflite")

    @pytest.fixture
    def variant(self) -> VariantFiles:
        from tests.simulators.tflite_model import tflite_variant

        return tflite_variant(seeded_affine())

    def test_a_delegate_whose_library_is_missing_is_a_fall_back(self, backend: Backend, folder: BundleFolder) -> None:
        with pytest.raises(ProviderFellBack, match="libedgetpu"):
            open_session(backend, folder, folder.bundle.variants[0], {"provider": "edgetpu", "threads": 1})

    def test_an_unknown_provider_is_named(self, backend: Backend, folder: BundleFolder) -> None:
        with pytest.raises(BackendError, match="dsp"):
            open_session(backend, folder, folder.bundle.variants[0], {"provider": "dsp", "threads": 1})


def test_the_kept_tflite_file_is_what_the_simulator_writes() -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.simulators.tflite_model import KEPT, tflite_affine

    assert KEPT.read_bytes() == tflite_affine(seeded_affine())


def test_onnx_runtime_opens_no_telemetry_session(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    environ = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    argv = [sys.executable, "-m", "agent.inference.import_probe", "onnxruntime", str(os.getpid())]
    subprocess.run(argv, env={**environ, "TMPDIR": str(tmp_path)}, check=True, capture_output=True, timeout=60)
    assert list(tmp_path.iterdir()) == []

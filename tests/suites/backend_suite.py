"""What every inference backend must do, whatever runtime is behind it (agent.inference.backend).

A test module makes a subclass named Test... that gives ``backend`` and ``variant`` (the affine model of the bundle
factory in that runtime's format).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agent.errors import BackendError
from agent.inference.backend import Backend
from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.inference.session import ModelSession, open_session
from edge_contracts.archive import open_bundle
from edge_contracts.capabilities import Capabilities
from edge_contracts.golden import decode_goldens
from edge_contracts.parity import judge, to_array
from tests.simulators.bundle_factory import INPUTS, SIGNATURE, VariantFiles, goldens_of, seeded_affine, write_variants


class BackendSuite:
    @pytest.fixture
    def backend(self) -> Backend:
        raise NotImplementedError

    @pytest.fixture
    def variant(self) -> VariantFiles:
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path, variant: VariantFiles) -> BundleFolder:
        path = write_variants(
            tmp_path / "b.mindie", signature=SIGNATURE, goldens=goldens_of(seeded_affine()), variants=[variant]
        )
        return lay_out(open_bundle(path), tmp_path / "bundle")

    @pytest.fixture
    def session(self, backend: Backend, folder: BundleFolder) -> ModelSession:
        variant = folder.bundle.variants[0]
        options = backend.option_sets(variant.spec, Capabilities(), 1)[0]
        return open_session(backend, folder, variant, options)

    def test_its_name_is_the_runtime_of_its_variants(self, backend: Backend, variant: VariantFiles) -> None:
        assert backend.name == variant.spec.runtime

    def test_the_fact_tells_a_version_and_the_cpu_as_a_target(self, backend: Backend) -> None:
        fact = backend.fact()
        assert (fact.name, fact.status) == (backend.name, "usable")
        assert fact.version
        assert fact.version[0].isdigit()
        assert "cpu" in fact.targets

    def test_the_goldens_are_answered_right_by_every_option_set(self, backend: Backend, folder: BundleFolder) -> None:
        variant = folder.bundle.variants[0]
        goldens = decode_goldens(folder.goldens_file.read_bytes())
        expected = [{t.name: to_array(t) for t in golden.outputs} for golden in goldens]
        for options in backend.option_sets(variant.spec, Capabilities(), 2):
            session = open_session(backend, folder, variant, options)
            actual = [session.infer({t.name: to_array(t) for t in golden.inputs}) for golden in goldens]
            verdict = judge(expected, actual, None, 0.001)
            assert verdict.passed, (options, verdict.reason)
            session.check_provider()
            session.close()

    def test_the_default_options_open_and_name_no_threads(self, backend: Backend, folder: BundleFolder) -> None:
        options = backend.default_options()
        assert "threads" not in options
        session = open_session(backend, folder, folder.bundle.variants[0], options)
        session.warm_up()
        session.close()

    def test_option_sets_stay_within_the_threads_given_and_begin_with_all_of_them(self, backend: Backend) -> None:
        spec = self._spec(backend)
        for threads in (1, 2, 4, 7):
            sets = backend.option_sets(spec, Capabilities(), threads)
            assert sets[0]["threads"] == threads
            assert all(1 <= int(options["threads"]) <= threads for options in sets)
            assert len({tuple(sorted(options.items())) for options in sets}) == len(sets)

    def test_a_batch_is_answered_like_its_samples_one_by_one(self, session: ModelSession) -> None:
        x = np.random.default_rng(3).standard_normal((5, INPUTS)).astype(np.float32)
        together = session.infer({"x": x})["logits"]
        single = np.concatenate([session.infer({"x": x[i : i + 1]})["logits"] for i in range(5)])
        assert together.shape == (5, 4)
        np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-5)

    def test_returned_arrays_stay_valid_after_the_next_run(self, session: ModelSession) -> None:
        ones, zeros = np.ones((1, INPUTS), np.float32), np.zeros((1, INPUTS), np.float32)
        first = session.infer({"x": ones})["logits"]
        kept = first.copy()
        session.infer({"x": zeros})
        np.testing.assert_array_equal(first, kept)

    def test_given_arrays_are_read_only_to_it(self, session: ModelSession) -> None:
        x = np.ones((1, INPUTS), np.float32)
        x.setflags(write=False)
        session.infer({"x": x})
        assert float(x.sum()) == INPUTS

    def test_a_wrong_shape_is_a_backend_error_and_the_session_lives(self, session: ModelSession) -> None:
        good = np.ones((1, INPUTS), np.float32)
        before = session.infer({"x": good})["logits"]
        with pytest.raises(BackendError):
            session.infer({"x": np.ones((1, INPUTS + 1), np.float32)})
        np.testing.assert_allclose(session.infer({"x": good})["logits"], before)

    def test_a_missing_input_is_named(self, session: ModelSession) -> None:
        with pytest.raises(BackendError, match="'x'"):
            session.infer({})

    def test_a_file_that_is_no_model_is_a_backend_error(self, backend: Backend, folder: BundleFolder) -> None:
        variant = folder.bundle.variants[0]
        for content in (b"", b"<!doctype html>", b"version https://git-lfs.github.com/spec/v1\n"):
            (folder.variant_folder(variant.name) / variant.spec.entry).write_bytes(content)
            with pytest.raises(BackendError):
                open_session(backend, folder, variant, {"threads": 1})

    def test_an_unknown_option_is_named(self, backend: Backend, folder: BundleFolder) -> None:
        with pytest.raises(BackendError, match="turbo"):
            open_session(backend, folder, folder.bundle.variants[0], {"threads": 1, "turbo": True})

    def test_threads_below_one_are_refused(self, backend: Backend, folder: BundleFolder) -> None:
        with pytest.raises(BackendError, match="threads"):
            open_session(backend, folder, folder.bundle.variants[0], {"threads": 0})

    def _spec(self, backend: Backend):  # type: ignore[no-untyped-def]
        from tests.simulators.bundle_factory import affine_spec

        return affine_spec("any", backend.name, "model")

"""The backend of docs/adding-a-backend.md, installed as its package would be: suite, race and server."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agent.inference.backend import Backend
from agent.inference.bundle_folder import lay_out
from agent.inference.registry import backend as backend_by_name
from agent.inference.registry import backend_names, runtime_facts
from edge_contracts.archive import open_bundle
from tests.agent.serving.running import close_to, expected, running, sample_rows, served
from tests.simulators.bundle_factory import SIGNATURE, VariantFiles, affine_spec, goldens_of, seeded_affine
from tests.simulators.bundle_factory import write_variants as write_bundle
from tests.suites.backend_suite import BackendSuite

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE = Path(__file__).resolve().parents[3] / "docs" / "adding-a-backend.md"


def block(language: str) -> str:
    """The one block of that language on the page."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what ``pip install`` would have made of the page's two files."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads(block("toml"))["project"]
    (group, points) = next(iter(project["entry-points"].items()))
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(about)
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / "mindedge_linear.py").write_text(block("python"))
    return folder


@pytest.fixture(autouse=True)
def _installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here and in every process that is started from here."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))


def linear_variant() -> VariantFiles:
    model, file = seeded_affine(), io.BytesIO()
    np.savez(file, weight=np.asarray(model.weight, np.float32), bias=np.asarray(model.bias, np.float32))
    return VariantFiles(affine_spec("linear-fp32-cpu", "linear", "model.npz"), {"model.npz": file.getvalue()})


def linear_bundle(path: Path) -> Path:
    goldens = goldens_of(seeded_affine())
    return write_bundle(path, signature=SIGNATURE, goldens=goldens, variants=[linear_variant()])


class TestLinear(BackendSuite):
    @pytest.fixture
    def backend(self) -> Backend:
        return backend_by_name("linear")

    @pytest.fixture
    def variant(self) -> VariantFiles:
        return linear_variant()


def test_it_is_found_and_its_runtime_works() -> None:
    assert "linear" in backend_names({})
    (fact,) = runtime_facts(names=["linear"], environ=os.environ)
    assert (fact.status, fact.version, fact.targets) == ("usable", np.__version__, ["cpu"])


def test_it_is_raced_in_trial_processes(tmp_path: Path) -> None:
    bundle = linear_bundle(tmp_path / "b.mindie")
    argv = [sys.executable, "-m", "agent", "bench", str(bundle), "--allow-unsigned", "--budget-s", "1", "--json"]
    environ = {**os.environ, "MINDEDGE_DATA": str(tmp_path / "data"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(argv, capture_output=True, text=True, env=environ, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    choice = json.loads(done.stdout)["choice"]
    assert (choice["runtime"], choice["provider"], choice["runtime_version"]) == ("linear", "cpu", np.__version__)


def test_it_serves(tmp_path: Path) -> None:
    folder = lay_out(open_bundle(linear_bundle(tmp_path / "b.mindie")), tmp_path / "bundle")
    with running() as server:
        loaded = server.process.load(served(folder, options={"threads": 2, "provider": "cpu"}))
        assert loaded.provider == "cpu"
        rows = sample_rows(1, 3)
        status, answer = server.infer(rows)
        assert status == 200
        assert close_to(answer["outputs"][0]["data"], expected(rows))

"""The agent on Debian 12 arm64, emulated: architecture, runtimes that die of a signal, choice, serving, update.

Times mean nothing there; what happens does. `sudo deploy/emulate-arm64 build` makes the root (minutes, once).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.system.emulated_device import BUILD_TIMEOUT_S, SCRIPT, Daemon, Device, device, emulate, root_folder

pytestmark = [pytest.mark.arm64, pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(1800)]
IN_CI = bool(os.environ.get("CI"))
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
RACE = ("--race-budget", "30")
SAMPLES = 20


@pytest.fixture(scope="module", autouse=True)
def root() -> None:
    """The root with this checkout's agent in it."""
    if not IN_CI and (os.geteuid() != 0 or not (root_folder() / "etc").is_dir()):
        pytest.skip("no arm64 root here: sudo deploy/emulate-arm64 build")
    for environment in ("sound", "dies-at-import", "dies-at-invoke"):
        tools = ["--install-tools"] if IN_CI else []
        done = emulate("--env", environment, "--only", *tools, "build", timeout_s=BUILD_TIMEOUT_S)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def sound() -> Iterator[Device]:
    with device("sound") as made:
        yield made


def build(folder: Path, version: str, *, toolchains: Path | None = None, install: bool = False) -> Path:
    """A bundle of the digits model, made here, on another architecture. ``toolchains`` None: those of this machine."""
    bundle = folder / f"digits-{version}.mindie"
    command = [
        sys.executable, "-m", "packager", "build", str(DIGITS / "digits.onnx"), "-o", str(bundle), "--name", "digits",
        "--version", version, "--calibration", str(DIGITS / "calibration.npz"), "--golden", str(DIGITS / "heldout.npz"),
        *(["--install-toolchains"] if install else []),
    ]  # fmt: skip
    environ = {**os.environ, **({} if toolchains is None else {"MINDEDGE_TOOLCHAINS": str(toolchains)})}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environ)
    assert done.returncode == 0, done.stderr
    return bundle


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two versions with ONNX and OpenVINO variants; openvino is on no device here."""
    folder = tmp_path_factory.mktemp("bundles")
    return [build(folder, version, toolchains=folder / "none") for version in ("1.0.0", "1.1.0")]


@pytest.fixture(scope="module")
def with_tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with a TFLite variant as well, which needs a converter's environment."""
    bundle = build(tmp_path_factory.mktemp("bundles"), "1.0.0", install=IN_CI)
    inspect = [sys.executable, "-m", "packager", "inspect", str(bundle), "--json"]
    described = json.loads(subprocess.run(inspect, capture_output=True, text=True, timeout=60, check=True).stdout)
    if not any(variant["runtime"] == "tflite" for variant in described["variants"]):
        assert not IN_CI, "CI must have the converter"
        pytest.skip("no TFLite converter here: mindpack toolchain install tflite")
    return bundle


def runtimes(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {fact["name"]: fact for fact in facts["runtimes"]}


def right_answers(daemon: Daemon) -> int:
    """How many of the first SAMPLES held-out digits are told right."""
    heldout = np.load(DIGITS / "heldout.npz")
    right = 0
    for image, label in zip(heldout["image"][:SAMPLES], heldout["labels"][:SAMPLES], strict=True):
        tensor = {"name": "image", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": image.ravel().tolist()}
        answer = daemon.ask("/v2/models/digits/infer", {"inputs": [tensor]})
        right += int(np.argmax(answer["outputs"][0]["data"]) == label)
    return right


def test_the_probe_tells_the_emulated_core_and_both_runtimes(sound: Device) -> None:
    facts = sound.document("probe")
    assert (facts["os"]["kernel_arch"], facts["os"]["userland_arch"]) == ("aarch64", "aarch64")
    assert facts["os"]["userland_bits"] == 64
    assert facts["board"]["profile"] == "generic-aarch64"
    assert {cluster["core"] for cluster in facts["cpu"]["clusters"]} == {"Cortex-A72"}
    assert facts["cpu"]["features"]["neon"] is True
    assert facts["cpu"]["features"]["dotprod"] is False
    found = runtimes(facts)
    assert (found["onnxruntime"]["status"], found["onnxruntime"]["version"]) == ("usable", "1.23.2")
    assert (found["tflite"]["status"], found["tflite"]["version"]) == ("usable", "2.14.0")
    assert found["openvino"]["status"] == "missing"


def test_a_runtime_that_dies_when_imported_is_broken_and_the_probe_lives() -> None:
    with device("dies-at-import") as board:
        facts = board.document("probe")
    assert facts["os"]["kernel_arch"] == "aarch64", "under emulation the kernel's own word is another machine's"
    found = runtimes(facts)
    assert found["onnxruntime"]["status"] == "broken"
    assert "SIGSEGV" in found["onnxruntime"]["detail"]
    assert found["tflite"]["status"] == "usable"


def test_where_the_only_fitting_runtime_is_broken_an_install_says_so_in_one_line(bundles: list[Path]) -> None:
    with device("dies-at-import") as board:
        done = board.mindie("install", board.put(bundles[0]), "--allow-unsigned", *RACE)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        last = done.stderr.strip().splitlines()[-1]
        assert "no variant of digits can run here" in last
        assert "SIGSEGV" in last
        assert board.document("status")["active"] is None


def test_beside_a_runtime_that_dies_when_imported_the_other_one_is_chosen(with_tflite: Path) -> None:
    with device("dies-at-import") as board:
        installed = board.document("install", board.put(with_tflite), "--allow-unsigned", *RACE)
        assert installed["active"]["runtime"] == "tflite"


def test_a_runtime_that_dies_in_its_trial_is_quarantined_and_another_one_is_chosen(with_tflite: Path) -> None:
    with device("dies-at-invoke") as board:
        assert runtimes(board.document("probe"))["tflite"]["status"] == "usable", "its import proves nothing"
        installed = board.document("install", board.put(with_tflite), "--allow-unsigned", *RACE)
        assert installed["active"]["runtime"] == "onnxruntime"
        told = board.mindie("explain", "digits").stdout
        _, _, quarantined = told.partition("In quarantine on this device:")
        assert "tflite-fp32-cpu" in quarantined
        assert "SIGSEGV" in quarantined


def test_it_serves_right_answers_over_loopback_and_takes_an_update_without_losing_a_request(
    sound: Device, bundles: list[Path]
) -> None:
    first, second = (sound.put(bundle) for bundle in bundles)
    with sound.daemon(*RACE) as daemon:
        assert daemon.ask("/v2/health/live") is not None
        installed = sound.document("install", first, "--allow-unsigned")
        assert installed["daemon"]
        assert installed["active"]["version"] == "1.0.0"
        assert right_answers(daemon) >= SAMPLES - 1

        answered, lost, over = [0], [], threading.Event()

        def client() -> None:
            while not over.is_set():
                try:
                    answered[0] += int(right_answers(daemon) >= SAMPLES - 1)
                except OSError as error:
                    lost.append(error)

        asking = threading.Thread(target=client)
        asking.start()
        try:
            updated = sound.document("install", second, "--allow-unsigned")
        finally:
            over.set()
            asking.join()
        assert updated["active"]["version"] == "1.1.0"
        assert (lost, answered[0] > 0) == ([], True)
        assert "1.1.0" in daemon.ask("/v2/models/digits")["versions"]
        assert right_answers(daemon) >= SAMPLES - 1
        assert daemon.stop() == 0


def test_the_install_script_works_there_and_can_be_undone(sound: Device) -> None:
    """For real, with the root's own Python and the wheels that are in the root; no network, no systemd."""
    for name in ("install-agent.sh", "board_runtime.py"):
        sound.put(SCRIPT.parent / name)
    shutil.copytree(SCRIPT.parent / "systemd", sound.folder / "systemd")
    script = f"""
        PATH=/usr/sbin:/usr/bin:/sbin:/bin PIP_NO_INDEX=1 PIP_FIND_LINKS=/opt/wheels PIP_NO_COMPILE=1
        export PATH PIP_NO_INDEX PIP_FIND_LINKS PIP_NO_COMPILE
        sh {sound.inside}/install-agent.sh --wheel /opt/wheels/mindedge-*.whl --runtime tflite
        /usr/local/bin/mindie probe --json
        stat -c %U:%a /var/lib/mindedge/agent >&2
        sh {sound.inside}/install-agent.sh uninstall --purge
        test ! -e /opt/mindedge && test ! -e /usr/local/bin/mindie && test ! -e /var/lib/mindedge
    """
    done = emulate(*sound.options, "run", "--", "sh", "-euc", script)
    assert done.returncode == 0, done.stderr
    assert "mindie:700" in done.stderr
    assert '"aarch64"' in done.stdout


def test_nothing_stays_mounted_or_running_after_an_interrupt(sound: Device) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    process = subprocess.Popen(
        [str(SCRIPT), *sound.options, "run", "--", "sh", "-c", "echo there; exec sleep 600"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) != 0
    assert Path("/proc/self/mountinfo").read_text() == before


def test_the_exit_status_is_that_of_the_command(sound: Device) -> None:
    assert emulate(*sound.options, "run", "--", "sh", "-c", "exit 7").returncode == 7
    assert sound.mindie("install", "/nowhere.mindie").returncode == 1

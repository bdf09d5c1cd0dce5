"""deploy/install-agent.sh on recorded roots, without changing anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SCRIPT = DEPLOY / "install-agent.sh"


def call(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "MINDIE_PYTHON": sys.executable, "PYTHONPATH": str(DEPLOY.parent)}
    argv = ["sh", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environ)


def steps(root: Path, *arguments: str | Path) -> list[str]:
    done = call("--dry-run", "--root", root, *arguments)
    assert done.returncode == 0, done.stderr
    return [line.removeprefix("+ ") for line in done.stdout.splitlines()]


def installed(lines: list[str]) -> list[str]:
    """The requirements that pip is given."""
    return [
        word for line in lines if " pip " in line for word in line.split() if word.startswith(("mindedge[", "numpy"))
    ]


@pytest.fixture
def pi(tmp_path: Path) -> Path:
    """A Raspberry Pi 4 with a 64-bit Raspberry Pi OS 12."""
    return device(tmp_path, "Raspberry Pi 4 Model B Rev 1.4\0", "raspberrypi,4-model-b\0brcm,bcm2711\0", "python3.11")


@pytest.fixture
def orin(tmp_path: Path) -> Path:
    """A Jetson Orin Nano with JetPack 6."""
    root = device(
        tmp_path,
        "NVIDIA Jetson Orin Nano Developer Kit\0",
        "nvidia,p3768-0000+p3767-0005\0nvidia,tegra234\0",
        "python3.10",
    )
    (root / "etc/nv_tegra_release").write_text("# R36 (release), REVISION: 4.3, GCID: 38968081\n")
    return root


def device(root: Path, model: str, compatible: str, python: str) -> Path:
    tree = {
        "etc/debian_version": "12.8\n",
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
        "etc/group": "root:x:0:\nvideo:x:44:\nrender:x:105:\n",
        "proc/device-tree/model": model,
        "proc/device-tree/compatible": compatible,
        "_outputs/uname-rm.txt": "6.6.51 aarch64\n",
        "_outputs/dpkg-print-architecture.txt": "arm64\n",
    }
    for name, text in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "run/systemd/system").mkdir(parents=True)
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3").symlink_to(python)
    return root


def test_a_pi_gets_account_environment_runtimes_and_service(pi: Path) -> None:
    lines = steps(pi)
    assert installed(lines) == ["mindedge[agent]", "mindedge[litert]", "mindedge[onnxruntime]"]
    assert "python3 -m venv /opt/mindedge" in lines
    assert "systemctl restart mindie.service" in lines
    order = [
        next(i for i, line in enumerate(lines) if part in line)
        for part in ("useradd", "venv /opt", "[agent]", "restart")
    ]
    assert order == sorted(order)


def test_the_account_joins_the_groups_that_exist_and_no_other(pi: Path) -> None:
    joined = [line.split()[-2] for line in steps(pi) if line.startswith("usermod")]
    assert joined == ["video", "render"]


def test_an_account_that_is_there_is_kept(pi: Path) -> None:
    (pi / "etc/passwd").write_text("mindie:x:999:999::/var/lib/mindedge/agent:/usr/sbin/nologin\n")
    assert not [line for line in steps(pi) if line.startswith("useradd")]


def test_a_jetson_sees_the_systems_packages_and_keeps_numpy_1(orin: Path) -> None:
    lines = steps(orin)
    assert any("venv" in line and "--system-site-packages" in line for line in lines)
    assert installed(lines) == ["mindedge[agent]", "numpy<2", "mindedge[litert]", "numpy<2"]


def test_onnxruntime_is_never_put_over_onnxruntime_gpu_not_even_when_asked_for(orin: Path) -> None:
    found = orin / "usr/local/lib/python3.10/dist-packages/onnxruntime_gpu-1.20.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: onnxruntime-gpu\nVersion: 1.20.0\n")
    assert "mindedge[onnxruntime]" not in installed(steps(orin))
    refused = call("--dry-run", "--root", orin, "--runtime", "onnxruntime")
    assert refused.returncode == 2
    assert "onnxruntime-gpu is installed" in refused.stderr
    assert "mindedge[onnxruntime]" not in refused.stdout


def test_a_jetson_takes_the_cpu_build_when_asked_for_and_nothing_is_there_to_spoil(orin: Path) -> None:
    assert "mindedge[onnxruntime]" in installed(steps(orin, "--runtime", "onnxruntime"))


def test_a_python_that_is_too_old_is_refused_with_the_way_out(orin: Path) -> None:
    (orin / "usr/bin/python3").unlink()
    (orin / "usr/bin/python3").symlink_to("python3.8")
    done = call("--dry-run", "--root", orin)
    assert done.returncode == 1
    assert "Python 3.8 is too old" in done.stderr
    assert "--python PATH" in done.stderr
    assert done.stdout == ""


def test_a_wheel_is_installed_even_over_the_same_version(pi: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "mindedge-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"")
    first = steps(pi, "--wheel", wheel, "--runtime", "none")
    assert [line for line in first if line.endswith(f"{wheel}[agent]")]
    assert not [line for line in first if "--force-reinstall" in line]
    (pi / "opt/mindedge/bin").mkdir(parents=True)
    (pi / "opt/mindedge/bin/mindie").write_text("")
    again = steps(pi, "--wheel", wheel, "--runtime", "none")
    assert [line for line in again if "--force-reinstall" in line and line.endswith(str(wheel))]


def test_without_systemd_there_is_no_service(pi: Path) -> None:
    shutil.rmtree(pi / "run")
    assert not [line for line in steps(pi) if "systemctl" in line]
    assert not [line for line in steps(pi, "--no-service") if "systemctl" in line]


def test_uninstall_keeps_the_data_unless_told_otherwise(pi: Path) -> None:
    (pi / "etc/passwd").write_text("mindie:x:999:999::/:/usr/sbin/nologin\n")
    (pi / "etc/systemd/system").mkdir(parents=True)
    (pi / "etc/systemd/system/mindie.service").write_text("")
    kept = steps(pi, "uninstall")
    assert "systemctl disable --now mindie.service" in kept
    assert "rm -rf /opt/mindedge" in kept
    assert not [line for line in kept if "/var/lib" in line or "userdel" in line]
    gone = steps(pi, "uninstall", "--purge")
    assert "rm -rf /var/lib/mindedge/agent" in gone
    assert "userdel mindie" in gone


def test_a_dry_run_changes_nothing(pi: Path) -> None:
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in pi.rglob("*"))
    steps(pi)
    steps(pi, "uninstall", "--purge")
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in pi.rglob("*")) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["--wheel"],
        ["--wheel", "/nowhere/x.whl", "--dry-run", "--root", "PI"],
        ["--root", "PI", "--python", "/nowhere/python"],
        ["--root", "/nowhere", "--python", "/nowhere/python"],
        ["--root", "/nowhere", "--dry-run"],
        ["--purge", "--dry-run", "--root", "PI"],
        ["--runtime", "tensorflow", "--dry-run", "--root", "PI"],
        ["sideways"],
        ["--sideways"],
    ],
)
def test_wrong_use_is_told_and_ends_with_2(arguments: list[str], pi: Path) -> None:
    done = call(*[str(pi) if word == "PI" else word for word in arguments])
    assert done.returncode == 2, done.stdout
    assert "install-agent: " in done.stderr


def test_a_root_is_never_taken_for_this_machine_whatever_its_name() -> None:
    for root in ("/", "//", "/."):
        done = call("--root", root, "--python", "/nowhere/python")  # if it went on, it would fail there
        assert done.returncode == 2
        assert "--dry-run only" in done.stderr


def test_another_kind_of_system_is_refused(tmp_path: Path) -> None:
    done = call("--dry-run", "--root", tmp_path)
    assert done.returncode == 2
    assert "Debian" in done.stderr


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("script", ["install-agent.sh", "emulate-arm64"])
def test_shellcheck_finds_nothing(script: str) -> None:
    done = subprocess.run(["shellcheck", str(DEPLOY / script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout

"""The systemd unit: what systemd itself says of it, and what the agent's processes need of it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "mindie.service"
MAX_EXPOSURE = 2.5
needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


def settings() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text(encoding="utf-8").splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@needs_systemd
def test_systemd_finds_nothing_wrong_in_it(tmp_path: Path) -> None:
    here = tmp_path / "mindie.service"
    program = Path(sys.executable)
    here.write_text(
        UNIT.read_text(encoding="utf-8").replace("/opt/mindedge/bin/mindie run", str(program)), encoding="utf-8"
    )
    done = subprocess.run(["systemd-analyze", "verify", str(here)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_its_exposure_is_low() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("this systemd cannot judge a unit that is not loaded")
    level = re.search(r"exposure level for mindie.service: ([\d.]+)", done.stdout)
    assert level is not None, done.stdout + done.stderr
    assert float(level[1]) <= MAX_EXPOSURE


def test_accelerators_stay_reachable() -> None:
    """A DeviceAllow= line, or a setting that implies one (ProtectClock=), closes every other device node."""
    assert not {"DeviceAllow", "PrivateDevices", "ProtectClock"} & settings().keys()


def test_runtimes_may_compile_and_a_refused_call_does_not_look_like_a_crash() -> None:
    assert "MemoryDenyWriteExecute" not in settings()
    assert settings()["SystemCallErrorNumber"] == ["EPERM"]


def test_a_trial_that_takes_all_memory_does_not_end_the_daemon() -> None:
    assert settings()["OOMPolicy"] == ["continue"]


def test_the_watchdog_is_slower_than_anything_the_daemon_waits_for_and_stopping_has_time() -> None:
    from agent.config import AgentConfig
    from agent.supervisor import EXECUTOR_STOP_S

    drain_s = AgentConfig(data_dir=Path("/")).drain_s
    assert float(settings()["TimeoutStopSec"][0]) > EXECUTOR_STOP_S + drain_s
    assert float(settings()["WatchdogSec"][0]) >= 60


def test_it_starts_what_the_install_script_installs() -> None:
    script = (UNIT.parents[1] / "install-agent.sh").read_text(encoding="utf-8")
    values = dict(re.findall(r"^([A-Z]+)=(\S+)$", script, flags=re.MULTILINE))
    unit = settings()
    assert unit["ExecStart"] == [f"{values['PREFIX']}/bin/mindie run"]
    assert unit["User"] == unit["Group"] == [values["ACCOUNT"]]
    assert unit["EnvironmentFile"] == [f"-{values['DEFAULTS']}"]
    assert f"/var/lib/{unit['StateDirectory'][0]}" == values["DATA"]

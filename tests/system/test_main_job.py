"""The demo in small: two devices, the same steps and checks, on both brokers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from examples.demo.fleet_in_small import FleetInSmall
from examples.demo.narration import Narrator
from examples.demo.steps import WITHOUT_TOOLCHAINS, Demo, Plan

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(300)]
HAS_MOSQUITTO = bool(shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"))


@pytest.mark.parametrize(
    "broker",
    [
        pytest.param("embedded", marks=pytest.mark.nats),
        pytest.param(
            "mosquitto",
            marks=[
                pytest.mark.mosquitto,
                pytest.mark.skipif(not HAS_MOSQUITTO and not os.environ.get("CI"), reason="mosquitto is not installed"),
            ],
        ),
    ],
)
def test_two_devices_commit_a_good_bundle_and_the_first_refuses_a_damaged_one(tmp_path: Path, broker: str) -> None:
    plan = Plan(names=["cam-1", "cam-2"], broker=broker, install_toolchains=False, wanted=WITHOUT_TOOLCHAINS)
    fleet = FleetInSmall(tmp_path, Narrator())
    try:
        facts = Demo(fleet, fleet.narrator, plan).run()
    finally:
        left = fleet.stop()
    assert left == []
    assert facts["during_bad_rollout"]["lost"] == {}
    assert {device["device"] for device in facts["devices"]} == {"cam-1", "cam-2"}

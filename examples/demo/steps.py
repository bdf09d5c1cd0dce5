"""The seven steps of the demo, and what must be seen in each."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from examples.demo.commands import run_json
from examples.demo.damage import damage
from examples.demo.fleet_in_small import FleetInSmall
from examples.demo.narration import Narrator
from examples.demo.table import table
from examples.demo.traffic import MODEL, Measured, Stream, measure

DIGITS = Path(__file__).resolve().parents[1] / "digits"
WITHOUT_TOOLCHAINS = frozenset(
    {("onnxruntime", "fp32"), ("onnxruntime", "int8"), ("openvino", "fp32"), ("openvino", "int8")}
)
ENDED = {"succeeded", "paused", "aborted", "failed", "rolled_back", "completed"}
GOOD, BAD = "1.0.0", "1.1.0"
MIN_ACCURACY = 0.97
_DOING = {
    "queued": "about to begin", "downloading": "downloading", "verifying": "verifying", "installing": "installing",
    "probing": "racing the variants", "trial": "on probation",
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What to show: the devices, the broker, and the variants that the bundle must have."""

    names: list[str] = field(default_factory=lambda: ["cam-1", "cam-2", "cam-3"])
    broker: str = "embedded"
    install_toolchains: bool = True
    wanted: frozenset[tuple[str, str]] = WITHOUT_TOOLCHAINS | {("tflite", "fp32")}


class NotSeen(Exception):
    """Something that the demo exists to show did not happen."""


class Demo:
    """Runs the steps against a FleetInSmall; ``run`` returns the facts."""

    def __init__(self, fleet: FleetInSmall, narrator: Narrator, plan: Plan | None = None) -> None:
        self.fleet = fleet
        self.plan = plan or Plan()
        self.narrator = narrator
        self.facts: dict[str, Any] = {}
        with np.load(DIGITS / "heldout.npz") as held_out:
            self.images, self.labels = held_out["image"], held_out["labels"]

    def run(self) -> dict[str, Any]:
        """All steps in order. Raises NotSeen or CommandFailed."""
        good = self.pack()
        self.start_fleet()
        self.roll_out_good(good)
        self.show_devices()
        self.roll_out_damaged(good)
        return self.facts

    def pack(self) -> Path:
        """Step 1: one model, one bundle, at least five variants."""
        self.narrator.step(1, "Pack the digits model: one bundle, every runtime")
        bundle = self.fleet.work / f"{MODEL}-{GOOD}.mindie"
        command = [
            "mindpack",
            "build",
            str(DIGITS / "digits.onnx"),
            "-o",
            str(bundle),
            "--name",
            MODEL,
            "--version",
            GOOD,
        ]
        command += ["--calibration", str(DIGITS / "calibration.npz"), "--golden", str(DIGITS / "heldout.npz")]
        command += ["--install-toolchains"] if self.plan.install_toolchains else []
        run_json(command, self.narrator, quiet=False)
        described = run_json(["mindpack", "inspect", str(bundle)], self.narrator)
        rows = [_variant_row(variant) for variant in described["variants"]]
        self._print(table(["variant", "size kB", "top-1", "against source", "max error"], rows))
        for left_out in described.get("left_out", []):
            self.narrator.say(f"   left out {left_out['name']}: {left_out['reason']}")
        present = {(variant["runtime"], variant["precision"]) for variant in described["variants"]}
        if not present >= self.plan.wanted:
            raise NotSeen(f"variants missing from the bundle: {sorted(self.plan.wanted - present)}")
        self.facts["variants"] = described["variants"]
        self.facts["left_out"] = described.get("left_out", [])
        return bundle

    def start_fleet(self) -> None:
        """Steps 2 and 3: a server with its own broker, three devices that enrol and announce themselves."""
        self.narrator.step(2, f"Start the fleet server (SQLite, {self.plan.broker} MQTT broker)")
        self.fleet.start_server(self.plan.broker)
        self.narrator.say(f"   {self.fleet.url}, MQTT on port {self.fleet.mqtt_port}")
        self.narrator.step(
            3, f"Start {len(self.plan.names)} devices, the first pinned to one CPU; they enrol and announce themselves"
        )
        self.fleet.enroll(self.plan.names)
        first_cpu = str(min(os.sched_getaffinity(0)))
        for name in self.plan.names:
            self.fleet.start_device(name, first_cpu if name == self.plan.names[0] else None, ["--telemetry-s", "5"])

        def all_online() -> dict[str, Any] | None:
            views = self.fleet.device_views()
            return (
                views if len(views) == len(self.plan.names) and all(view["online"] for view in views.values()) else None
            )

        for view in self.fleet.until("waiting for all devices to be online", all_online, 60).values():
            self.narrator.say(
                f"   {view['id']}: {view['cpu_model'] or view['board']}, budget {view['budget_cpus']:g} CPU"
            )

    def roll_out_good(self, bundle: Path) -> None:
        """Step 4: two waves, each device races the variants and commits."""
        self.narrator.step(4, f"Roll out {MODEL} {GOOD}: one device first, then the rest, one at a time")
        rollout = self._roll_out(bundle, GOOD, 240)
        self.facts["good_rollout"] = rollout
        committed = [row["device"] for row in rollout["devices"] if row["state"] == "committed"]
        if sorted(committed) != sorted(self.plan.names):
            raise NotSeen(f"{GOOD} is committed on {committed}, not on all devices: {rollout.get('why')}")

    def show_devices(self) -> None:
        """Step 5: what each device chose, measured with a foreign client."""
        self.narrator.step(5, f"Send {len(self.images)} held-out digits to every device with tritonclient")
        views = self.fleet.device_views()
        rows, facts = [], []
        for name in self.plan.names:
            measured = measure(self.fleet.devices[name], self.images, self.labels)
            facts.append(_device_facts(views[name], measured))
            rows.append(_device_row(facts[-1]))
        self._print(table(
            ["device", "CPUs", "runtime", "precision", "threads", "p50 ms", "p90 ms", "x ORT default", "accuracy"], rows
        ))  # fmt: skip
        self.narrator.say("   p50 and p90 over HTTP as the client saw them; x ORT default: the device's own race")
        self.facts["devices"] = facts
        worst = min(fact["accuracy"] for fact in facts)
        if worst < MIN_ACCURACY:
            raise NotSeen(f"accuracy {worst:.3f} on a device, {MIN_ACCURACY} expected")

    def roll_out_damaged(self, good: Path) -> None:
        """Step 6: weights changed, digests right. Only the numbers can tell, and they do, on the first device."""
        self.narrator.step(6, f"Roll out {MODEL} {BAD}: weights damaged after packing, every digest right")
        bad = self.fleet.work / f"{MODEL}-{BAD}.mindie"
        self.narrator.say(
            f"   {damage(good, bad, BAD)} weight tensors changed in {len(self.facts['variants'])} variants"
        )
        streams = {name: Stream(self.fleet.devices[name], self.images) for name in self.plan.names}
        for stream in streams.values():
            stream.start()
        try:
            rollout = self._roll_out(bad, BAD, 180)
        finally:
            for stream in streams.values():
                stream.stop()
        self.facts["bad_rollout"] = rollout
        self._print(table(["device", "state", "why"], [_rollout_row(row) for row in rollout["devices"]]))
        self._check_undone(rollout, streams)

    def _check_undone(self, rollout: dict[str, Any], streams: dict[str, Stream]) -> None:
        answers = {name: stream.answers for name, stream in streams.items()}
        lost = {name: stream.failures for name, stream in streams.items() if stream.failures}
        self.facts["during_bad_rollout"] = {"answers_by_version": answers, "lost": lost}
        total = sum(count for by_version in answers.values() for count in by_version.values())
        self.narrator.say(f"   rollout {rollout['state']}: {_cut(rollout.get('why') or '')}")
        self.narrator.say(
            f"   {total} requests answered meanwhile, all by {GOOD}; lost: {sum(map(len, lost.values()))}"
        )
        failed = [row for row in rollout["devices"] if row["error_code"] == "golden_mismatch"]
        if [row["device"] for row in failed] != [row["device"] for row in rollout["devices"] if row["wave"] == 1]:
            raise NotSeen("the first wave's device did not refuse the damaged bundle for its golden outputs")
        if not all("goldens" in (row["reason"] or "") for row in failed) or "goldens" not in (rollout.get("why") or ""):
            raise NotSeen("the rollout does not say why the damaged bundle was refused")
        if rollout["state"] == "succeeded" or any(row["state"] == "committed" for row in rollout["devices"]):
            raise NotSeen("the rollout of the damaged bundle did not stop")
        if lost or any(set(by_version) != {GOOD} for by_version in answers.values()):
            raise NotSeen(f"requests were lost or answered by another version: {answers} {lost}")

    def _roll_out(self, bundle: Path, version: str, timeout_s: float) -> dict[str, Any]:
        self.narrator.warn("   UNSIGNED bundle, accepted by --allow-unsigned")
        self.fleet.mindfleet("bundle", "push", str(bundle), "--allow-unsigned", quiet=True)
        create = ["rollout", "create", "--bundle", MODEL, "--version", version, "--wave", "1", "--wave", "100%"]
        create += ["--max-in-flight", "1", "--soak-s", "1", "--allow-unsigned", "--start"]
        rollout_id = self.fleet.mindfleet_json(*create)["id"]
        seen: dict[str, str] = {}

        def ended() -> dict[str, Any] | None:
            rollout: dict[str, Any] = self.fleet.mindfleet_json("rollout", "status", rollout_id)
            for row in rollout["devices"]:
                if seen.get(row["device"]) != row["state"]:
                    seen[row["device"]] = row["state"]
                    self.narrator.say(f"   {row['device']} (wave {row['wave']}): {row['state']}")
            return rollout if rollout["state"] in ENDED else None

        def now() -> str:
            busy = [f"{name} is {_DOING.get(state, state)}" for name, state in seen.items() if state in _DOING]
            return ", ".join(busy) or f"the rollout of {version} goes on"

        return self.fleet.until(now, ended, timeout_s)

    def _print(self, text: str) -> None:
        for line in text.splitlines():
            self.narrator.say("   " + line)


def _variant_row(variant: dict[str, Any]) -> list[str]:
    accuracy = variant.get("accuracy") or {}
    return [
        variant["name"], f"{variant['size_bytes'] / 1000:.0f}", f"{accuracy.get('value', 0):.4f}",
        f"{0.0 - accuracy.get('drop', 0):+.4f}", f"{accuracy.get('max_abs_error', 0):.2g}",
    ]  # fmt: skip


def _device_facts(view: dict[str, Any], measured: Measured) -> dict[str, Any]:
    model = next(model for model in view["models"] if model["name"] == MODEL)
    backend = model["backend"]
    return {
        "device": view["id"], "budget_cpus": view["budget_cpus"], "runtime": backend["runtime"],
        "precision": backend["precision"], "threads": backend["threads"], "options": backend["options"],
        "p50_ms": measured.p50_ms, "p90_ms": measured.p90_ms, "accuracy": measured.accuracy,
        "ratio_vs_onnxruntime_default": model["ratio_vs_onnxruntime_default"], "race_p50_ms": model["race_p50_ms"],
        "race_p90_ms": model["race_p90_ms"], "why": model["why"],
    }  # fmt: skip


def _device_row(fact: dict[str, Any]) -> list[str]:
    ratio = fact["ratio_vs_onnxruntime_default"]
    return [
        fact["device"], f"{fact['budget_cpus']:g}", fact["runtime"], fact["precision"], str(fact["threads"]),
        f"{fact['p50_ms']:.2f}", f"{fact['p90_ms']:.2f}", f"{ratio:.2f}" if ratio else "-", f"{fact['accuracy']:.4f}",
    ]  # fmt: skip


def _rollout_row(row: dict[str, Any]) -> list[str]:
    return [row["device"], row["state"], _cut(row.get("reason") or "-")]


def _cut(text: str) -> str:
    """The first 140 characters, whole words."""
    return textwrap.shorten(text, 140, placeholder=" …")

"""A fleet server in memory, behind the calls of FleetClient: rollouts obey the real table of states.

fleet = FleetSimulator(devices=[device("edge-1")], rollouts=[rollout("r1", "running")])
fleet.away = "connection refused"      every call raises ServerUnreachable until it is None again
fleet.acts                             the verbs that came, in order
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from edge_contracts.bundle import Accuracy, LeftOut
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency
from fleet.domain.rollout import VERBS, RolloutState, after
from fleet.domain.wave import Tally, WavePolicy
from fleet.errors import NotAllowedNow, ServerRefused, ServerUnreachable
from fleet.http import api_types as api
from fleet.http.rollout_views import verbs

NOW_MS = 1_790_000_000_000
SERVER = "http://fleet.example:8080"


class FleetSimulator:
    """One instance may stand for several clients; ``asked`` counts the calls by name."""

    def __init__(
        self,
        *,
        devices: list[api.DeviceView] | None = None,
        rollouts: list[api.RolloutView] | None = None,
        bundles: list[api.BundleView] | None = None,
    ) -> None:
        self.device_list = devices or []
        self.rollout_list = rollouts or []
        self.bundle_list = bundles or []
        self.details: dict[str, api.DeviceDetail] = {}
        self.acts: list[tuple[str, str]] = []
        self.away: str | None = None
        self.refusal: str | None = None
        self.asked: Counter[str] = Counter()

    def health(self) -> api.Health:
        self._answer("health")
        return api.Health(status="ok", version="0.1.0", broker_connected=True, mqtt_port=1883)

    def devices(self) -> list[api.DeviceView]:
        self._answer("devices")
        return list(self.device_list)

    def device(self, device: str) -> api.DeviceDetail:
        self._answer("device")
        for view in self.device_list:
            if view.id == device:
                return self.details.get(device, api.DeviceDetail(device=view))
        raise ServerRefused(404, f"no device {device!r}")

    def rollouts(self) -> list[api.RolloutView]:
        self._answer("rollouts")
        return [msgspec.structs.replace(each, devices=[]) for each in self.rollout_list]

    def rollout(self, rollout: str) -> api.RolloutView:
        self._answer("rollout")
        return self.rollout_list[self._place(rollout)]

    def act(self, rollout: str, verb: str) -> api.RolloutView:
        self._answer("act")
        self.acts.append((rollout, verb))
        place = self._place(rollout)
        view = self.rollout_list[place]
        try:
            state = after(RolloutState(view.state), VERBS[verb], f"rollout {rollout}")
        except NotAllowedNow as error:
            raise ServerRefused(409, str(error)) from error
        changed = msgspec.structs.replace(view, state=state.value, verbs=verbs(state), why="by the operator")
        self.rollout_list[place] = changed
        return changed

    def bundles(self) -> list[api.BundleView]:
        self._answer("bundles")
        return list(self.bundle_list)

    def bundle(self, name: str, version: str) -> api.BundleDetail:
        self._answer("bundle")
        for view in self.bundle_list:
            if (view.name, view.version) == (name, version):
                return api.BundleDetail(
                    bundle=view, variants=[variant(each) for each in view.variants],
                    left_out=[LeftOut(name="tflite-int8-cpu", reason="the converter does not know Einsum")],
                )  # fmt: skip
        raise ServerRefused(404, f"no bundle {name} {version}")

    def _answer(self, call: str) -> None:
        self.asked[call] += 1
        if self.away is not None:
            raise ServerUnreachable(SERVER, self.away)
        if self.refusal is not None:
            raise ServerRefused(403, self.refusal)

    def _place(self, rollout: str) -> int:
        for place, view in enumerate(self.rollout_list):
            if view.id == rollout:
                return place
        raise ServerRefused(404, f"no rollout {rollout!r}")


# --- what a fleet is made of -----------------------------------------------------------------------------------------


def backend(runtime: str = "openvino", precision: str = "int8", threads: int = 1) -> api.BackendView:
    return api.BackendView(
        variant=f"{runtime}-{precision}-cpu", runtime=runtime, precision=precision, target="cpu", threads=threads
    )


def model(version: str = "1.0.0", **more: Any) -> api.ModelView:
    """Serves well, unless told otherwise."""
    fields: dict[str, Any] = {
        "name": "digits", "version": version, "digest": f"sha256:{version}", "signed": True, "backend": backend(),
        "state": "committed", "attempted_version": version, "p50_ms": 0.21, "p90_ms": 0.254, "requests": 1200,
        "race_p50_ms": 0.2, "race_p90_ms": 0.24, "ratio_vs_onnxruntime_default": 1.84, "accuracy": 0.975,
        "accuracy_drop": 0.0025, "accuracy_metric": "top1", "deployment": "r1-1",
    }  # fmt: skip
    return api.ModelView(**{**fields, **more})


def device(name: str, *models: api.ModelView, **more: Any) -> api.DeviceView:
    """Online and known, with one model unless ``models`` are given."""
    fields: dict[str, Any] = {
        "id": name, "site": "default", "state": "active", "online": True, "board": "raspberry-pi-4b",
        "soc": "bcm2711", "cpu_model": "Cortex-A72", "budget_cpus": 1.5, "memory_mb": 3794, "agent_version": "0.1.0",
        "serving_port": 8000, "enrolled_at_ms": NOW_MS - 86_400_000, "last_seen_ms": NOW_MS - 4000, "temp_c": 52.0,
        "throttled": False, "rss_mb": 44.0, "cpu_percent": 0.4, "models": list(models) or [model()],
    }  # fmt: skip
    return api.DeviceView(**{**fields, **more})


def wave(number: int, state: str, why: str | None = None, **counts: int) -> api.WaveView:
    return api.WaveView(number=number, state=state, policy=WavePolicy(), counts=Tally(**counts), why=why)


def rollout(key: str, state: str = "running", **more: Any) -> api.RolloutView:
    """Of digits 1.1.0: a canary of one is through, two devices are to come."""
    fields: dict[str, Any] = {
        "id": key, "name": f"canary {key}", "bundle": "digits", "version": "1.1.0", "digest": "sha256:1.1.0",
        "state": state, "created_ms": NOW_MS - 200_000, "started_ms": NOW_MS - 120_000, "max_in_flight": 1,
        "matched": 3, "verbs": verbs(RolloutState(state)),
        "waves": [
            wave(1, "succeeded", targeted=1, contacted=1, succeeded=1),
            wave(2, "running", targeted=2, contacted=1, in_flight=1),
        ],
        "counts": Tally(targeted=3, contacted=2, succeeded=1, in_flight=1),
        "devices": [
            api.RolloutDeviceView(device="edge-1", wave=1, state="committed", deployment=f"{key}-1", online=True,
                                  changed_ms=NOW_MS - 60_000),
            api.RolloutDeviceView(device="edge-2", wave=2, state="trial", deployment=f"{key}-1", online=True,
                                  changed_ms=NOW_MS - 9000),
            api.RolloutDeviceView(device="edge-3", wave=2, state="waiting", deployment=f"{key}-1", online=False),
        ],
    }  # fmt: skip
    return api.RolloutView(**{**fields, **more})


def failed_rollout(name: str = "r2", **more: Any) -> api.RolloutView:
    """Stopped by its first device, unsigned."""
    why = "wave 1: 1 of 1 targeted devices failed (100 %, more than 0 %)"
    reason = "wrong answers: 61 of 64 golden samples differ (largest error 11.2, 0.01 allowed)"
    waves = [
        wave(1, "failed", "1 of 1 targeted devices failed (100 %, more than 0 %)", targeted=1, contacted=1, failed=1),
        wave(2, "pending", targeted=2),
    ]
    devices = [
        api.RolloutDeviceView(device="edge-1", wave=1, state="rolled_back", deployment=f"{name}-1", online=True,
                              reason=reason, changed_ms=NOW_MS - 30_000),
        api.RolloutDeviceView(device="edge-2", wave=2, state="waiting", deployment=f"{name}-1", online=True),
        api.RolloutDeviceView(device="edge-3", wave=2, state="waiting", deployment=f"{name}-1", online=True),
    ]  # fmt: skip
    counts = Tally(targeted=3, contacted=1, failed=1)
    fields: dict[str, Any] = {
        "why": why, "waves": waves, "devices": devices, "counts": counts, "allow_unsigned": True, **more
    }  # fmt: skip
    return rollout(name, "paused", **fields)


def variant(name: str) -> api.VariantView:
    """Named RUNTIME-PRECISION-TARGET."""
    runtime, precision, target = name.split("-")
    accuracy = Accuracy(metric="top1", value=0.975, source_value=0.9775, drop=0.0025)
    return api.VariantView(
        name=name, runtime=runtime, precision=precision, target=target, size_bytes=312_000, accuracy=accuracy
    )


def bundle(version: str = "1.0.0", *, signed: bool = True) -> api.BundleView:
    return api.BundleView(
        name="digits", version=version, digest=f"sha256:{version}", signed=signed, size_bytes=1_264_000,
        variants=["onnxruntime-fp32-cpu", "onnxruntime-int8-cpu", "openvino-fp32-cpu", "openvino-int8-cpu"],
        registered_ms=NOW_MS - 3_600_000,
    )  # fmt: skip


def evidence() -> ChoiceEvidence:
    """Of a race among four, of which one was refused and one crashed."""

    def candidate(runtime: str, precision: str, status: str, p90_ms: float | None, reason: str | None = None) -> Any:
        return CandidateEvidence(
            name=f"{runtime}-{precision}-cpu threads=1", variant=f"{runtime}-{precision}-cpu", runtime=runtime,
            precision=precision, status=status, reason=reason,
            latency=None if p90_ms is None else Latency(p50_ms=0.8 * p90_ms, p90_ms=p90_ms, samples=200),
            accuracy=None if p90_ms is None else Accuracy(metric="top1", value=0.975, source_value=0.9775, drop=0.0025),
        )  # fmt: skip

    chosen = candidate("openvino", "int8", "chosen", 0.24)
    others = [
        candidate("onnxruntime", "int8", "raced", 0.31, "1.29 times as slow as the chosen one"),
        candidate("tflite", "fp32", "refused", None, "the runtime tflite is not installed here"),
        candidate("openvino", "fp32", "quarantined", None, "illegal instruction"),
    ]
    return ChoiceEvidence(
        chosen=chosen, why="fastest at the 90th percentile of 4 candidates, 1.29 times ahead of the next",
        budget_cpus=1.5, baselines={"onnxruntime-default": Latency(p50_ms=0.37, p90_ms=0.45, samples=200)},
        ratio_vs_onnxruntime_default=1.84, candidates=[chosen, *others], rounds=6, seconds=3.4,
    )  # fmt: skip

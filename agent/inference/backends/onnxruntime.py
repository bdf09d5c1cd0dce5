"""ONNX Runtime. Options:

    threads         intra-op threads                      (onnxruntime's own default: one per core, pinned, spinning)
    spinning        whether idle threads spin; off is 1.3-3.8 times faster in containers and beside busy processes
    pinning         whether each thread stays on one of the CPUs of this process, as onnxruntime's default does
    execution       "sequential" | "parallel" branches; "inter_threads" for the latter
    optimization    "all" | "extended" | "basic" | "disabled" graph optimisation
    arena           whether freed CPU memory is kept for the next run
    prepacking      whether weights are kept a second time, in the order that the kernels like
    provider        execution provider, by its full name

Source: onnxruntime.SessionOptions; onnxruntime_session_options_config_keys.h for the configuration entries.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import BackendError, ProviderFellBack, RuntimeMissing
from agent.inference.backend import Array, BackendSession, Options
from agent.inference.backends.onnxruntime_graph import may_be_kept, open_through_cache
from agent.inference.foreign_errors import translated
from agent.inference.option_reading import check_options
from agent.inference.quiet_runtime import silence
from agent.inference.text_tensors import to_bytes, to_text
from agent.inference.thread_counts import thread_counts
from edge_contracts.bundle import VariantSpec
from edge_contracts.capabilities import AcceleratorKind, Capabilities, RuntimeFact, RuntimeStatus
from edge_contracts.evidence import OptionValue

CPU = "CPUExecutionProvider"
TARGETS_OF_PROVIDER = {
    CPU: "cpu", "XnnpackExecutionProvider": "cpu", "ACLExecutionProvider": "cpu", "ArmNNExecutionProvider": "cpu",
    "DnnlExecutionProvider": "cpu", "CUDAExecutionProvider": "gpu", "TensorrtExecutionProvider": "gpu",
    "NvTensorRTRTXExecutionProvider": "gpu", "ROCMExecutionProvider": "gpu", "MIGraphXExecutionProvider": "gpu",
    "OpenVINOExecutionProvider": "gpu", "CANNExecutionProvider": "vpu", "QNNExecutionProvider": "vpu",
    "RknpuExecutionProvider": "vpu", "VitisAIExecutionProvider": "vpu",
}  # fmt: skip
PROVIDERS_WORTH_RACING = {
    "cpu": ["XnnpackExecutionProvider", "ACLExecutionProvider", "DnnlExecutionProvider"],
    "gpu": ["TensorrtExecutionProvider", "CUDAExecutionProvider", "OpenVINOExecutionProvider",
            "MIGraphXExecutionProvider", "ROCMExecutionProvider"],
    "vpu": ["CANNExecutionProvider", "QNNExecutionProvider", "OpenVINOExecutionProvider", "RknpuExecutionProvider"],
}  # fmt: skip
PROVIDER_SETTINGS: dict[tuple[str, str], dict[str, str]] = {
    ("TensorrtExecutionProvider", "gpu"): {"trt_fp16_enable": "1"},
    ("OpenVINOExecutionProvider", "gpu"): {"device_type": "GPU"},
    ("OpenVINOExecutionProvider", "vpu"): {"device_type": "NPU"},
}
_OPTIONS = {
    "threads": int, "spinning": bool, "execution": str, "inter_threads": int, "optimization": str, "arena": bool,
    "provider": str, "pinning": bool, "prepacking": bool,
}  # fmt: skip
_RIVALS = ("onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-qnn", "onnxruntime-cann")


class OnnxRuntimeBackend:
    """See the module."""

    name = "onnxruntime"
    pip_line = "pip install 'mindedge[onnxruntime]'"

    def __init__(self, *, cache_dir: Path | None = None) -> None:
        self._cache_dir = cache_dir

    def fact(self) -> RuntimeFact:
        """Imports onnxruntime here; the targets are those of the providers that this build has."""
        if importlib.util.find_spec("onnxruntime") is None:
            return RuntimeFact(name=self.name, status=RuntimeStatus.MISSING.value, detail="not installed")
        silence()
        try:
            with translated(self.name, "be imported"):
                import onnxruntime

                providers = list(onnxruntime.get_available_providers())
        except BackendError as error:
            return RuntimeFact(name=self.name, status=RuntimeStatus.BROKEN.value, detail=error.reason)
        targets = sorted({TARGETS_OF_PROVIDER[p] for p in providers if p in TARGETS_OF_PROVIDER})
        return RuntimeFact(
            name=self.name, version=onnxruntime.__version__, targets=targets, status=RuntimeStatus.USABLE.value,
            providers=providers, detail=_overwritten(),
        )  # fmt: skip

    def option_sets(self, variant: VariantSpec, device: Capabilities, threads: int) -> list[dict[str, OptionValue]]:
        """CPU: threads without spinning, with it, branches in parallel, other CPU providers; else the target's."""
        providers = _available(device)
        named = [p for p in PROVIDERS_WORTH_RACING.get(variant.target, []) if p in providers]
        named = [p for p in named if _hardware_fits(p, device)]
        if variant.target != "cpu":
            return [{"threads": threads, "spinning": False, "provider": provider} for provider in named]
        counts = thread_counts(threads, device)
        sets: list[dict[str, OptionValue]] = [_cpu_set(count, spinning=False) for count in counts]
        sets += [_cpu_set(count, spinning=True) for count in counts if count > 1]
        if threads > 1:
            sets.append({**_cpu_set(threads, spinning=True), "pinning": True})
        sets += [{**_cpu_set(counts[0], spinning=False), "provider": provider} for provider in named]
        if threads > 1:
            parallel = {**_cpu_set(max(1, threads // 2), spinning=False), "execution": "parallel", "inter_threads": 2}
            sets.append(parallel)
        sets.append({**_cpu_set(counts[-1], spinning=False), "arena": False})
        return sets

    def default_options(self) -> dict[str, OptionValue]:
        """``InferenceSession(file)`` as everybody writes it."""
        return {"provider": CPU}

    def open(self, folder: Path, variant: VariantSpec, options: Options) -> BackendSession:
        """Raises RuntimeMissing, ProviderFellBack (the build lacks the provider, or it takes no node), BackendError."""
        check_options(self.name, options, _OPTIONS)
        silence()
        try:
            import onnxruntime
        except ModuleNotFoundError as error:
            raise RuntimeMissing(self.name, self.pip_line) from error
        provider = str(options.get("provider", CPU))
        if provider not in onnxruntime.get_available_providers():
            raise ProviderFellBack(self.name, provider, ", ".join(onnxruntime.get_available_providers()))
        with translated(self.name, f"open {variant.entry}"):
            settings = _session_options(onnxruntime, options, provider)
            file, providers = folder / variant.entry, _providers(provider, variant.target)
            if self._cache_dir is not None and provider == CPU and may_be_kept(file):
                session = open_through_cache(onnxruntime, file, settings, providers, self._cache_dir)
            else:
                session = onnxruntime.InferenceSession(str(file), settings, providers=providers)
            session.disable_fallback()
        return OnnxRuntimeSession(session, provider)


class OnnxRuntimeSession:
    """An InferenceSession. ``provider`` is the CPU's when the wanted provider was given no node of the graph."""

    def __init__(self, session: Any, wanted: str) -> None:
        self._session: Any = session
        self._wanted = wanted
        self._outputs = [output.name for output in session.get_outputs()]
        self._text_inputs = {item.name for item in session.get_inputs() if item.type == "tensor(string)"}
        self._text_outputs = [item.type == "tensor(string)" for item in session.get_outputs()]

    @property
    def provider(self) -> str:
        """As get_providers tells, checked against the assignment of nodes where this version can tell it."""
        active = str(self._session.get_providers()[0])
        if active == CPU or active != self._wanted:
            return active
        return active if _takes_nodes(self._session, active) else CPU

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Raises BackendError."""
        with translated("onnxruntime", "run the model"):
            if self._text_inputs:
                feeds = {name: to_text(a) if name in self._text_inputs else a for name, a in feeds.items()}
            results = self._session.run(self._outputs, feeds)
            if any(self._text_outputs):
                results = [to_bytes(a) if text else a for a, text in zip(results, self._text_outputs, strict=True)]
            return dict(zip(self._outputs, results, strict=True))

    def close(self) -> None:
        """Ends the session's threads too."""
        self._session = None


def _session_options(onnxruntime: Any, options: Options, provider: str) -> Any:
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if "threads" in options:
        settings.intra_op_num_threads = options["threads"]
        settings.inter_op_num_threads = options.get("inter_threads", 1)
    if "spinning" in options:
        spin = "1" if options["spinning"] else "0"
        settings.add_session_config_entry("session.intra_op.allow_spinning", spin)
        settings.add_session_config_entry("session.inter_op.allow_spinning", spin)
    if options.get("pinning") and int(options.get("threads", 1)) > 1:
        settings.add_session_config_entry("session.intra_op_thread_affinities", _affinities(int(options["threads"])))
    if options.get("execution") == "parallel":
        settings.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    if "optimization" in options:
        settings.graph_optimization_level = _optimization(onnxruntime, str(options["optimization"]))
    if "arena" in options:
        settings.enable_cpu_mem_arena = options["arena"]
    if options.get("prepacking") is False:
        settings.add_session_config_entry("session.disable_prepacking", "1")
    if provider != CPU:
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return settings


def _affinities(threads: int) -> str:
    """One CPU for each thread but the caller's, counted from 1, as onnxruntime wants it: "2;3;4"."""
    cpus = sorted(os.sched_getaffinity(0))
    return ";".join(str(cpus[number % len(cpus)] + 1) for number in range(1, threads))


def _optimization(onnxruntime: Any, level: str) -> Any:
    levels = onnxruntime.GraphOptimizationLevel
    known = {"all": levels.ORT_ENABLE_ALL, "extended": levels.ORT_ENABLE_EXTENDED, "basic": levels.ORT_ENABLE_BASIC,
             "disabled": levels.ORT_DISABLE_ALL}  # fmt: skip
    if level not in known:
        raise BackendError("onnxruntime", f"option 'optimization' is {level!r} (known: {', '.join(known)})")
    return known[level]


def _providers(provider: str, target: str) -> list[Any]:
    if provider == CPU:
        return [CPU]
    settings = PROVIDER_SETTINGS.get((provider, target))
    return [(provider, settings) if settings else provider, CPU]


def _takes_nodes(session: Any, provider: str) -> bool:
    assignment = getattr(session, "get_provider_graph_assignment_info", None)
    if assignment is None:
        return True
    return any(part.ep_name == provider for part in assignment())


def _cpu_set(threads: int, *, spinning: bool) -> dict[str, OptionValue]:
    return {"threads": threads, "spinning": spinning, "execution": "sequential", "provider": CPU}


def _available(device: Capabilities) -> list[str]:
    facts = [fact for fact in device.runtimes if fact.name == "onnxruntime"]
    return (facts[0].providers or []) if facts else []


def _hardware_fits(provider: str, device: Capabilities) -> bool:
    """OpenVINO's provider is there for Intel's GPU and NPU; the others are only in builds made for their chip."""
    if provider != "OpenVINOExecutionProvider":
        return True
    kinds = (AcceleratorKind.GPU, AcceleratorKind.NPU)
    return any(a.kind in kinds and (a.vendor or "").lower().startswith("intel") for a in device.accelerators)


def _overwritten() -> str | None:
    rivals = [name for name in _RIVALS if _installed(name)]
    if not rivals or not _installed("onnxruntime"):
        return None
    return f"onnxruntime and {rivals[0]} are both installed and overwrite each other: uninstall both, install one"


def _installed(distribution: str) -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True

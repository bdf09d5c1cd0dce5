"""OpenVINO. Options:

    threads      INFERENCE_NUM_THREADS; always set, since OpenVINO honours no cgroup quota
    precision    INFERENCE_PRECISION_HINT, "f32" | "bf16" | "f16": what it computes in. OpenVINO takes bf16 by itself
                 where AMX exists, so it is always set and raced, and the goldens judge it on the chip
    pinning      ENABLE_CPU_PINNING: threads stay on their CPU
    provider     "CPU" | "GPU" | "NPU"

Source: https://docs.openvino.ai, "CPU device" and "Optimize inference".
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import BackendError, ProviderFellBack, RuntimeMissing
from agent.inference.backend import Array, BackendSession, Options
from agent.inference.compiled_cache import prune
from agent.inference.foreign_errors import translated
from agent.inference.option_reading import check_options
from agent.inference.text_tensors import to_bytes, to_text
from agent.inference.thread_counts import thread_counts
from edge_contracts.bundle import VariantSpec
from edge_contracts.capabilities import AcceleratorKind, Capabilities, RuntimeFact, RuntimeStatus
from edge_contracts.evidence import OptionValue

TARGET_OF_DEVICE = {"CPU": "cpu", "GPU": "gpu", "NPU": "vpu", "MYRIAD": "vpu"}
BF16_FEATURES = ("avx512_bf16", "amx_bf16")
F16_FEATURES = ("fp16", "avx512_fp16")
MOST_COPIED_BYTES = 64 * 1024
_OPTIONS = {"threads": int, "precision": str, "pinning": bool, "provider": str}
_TYPE_NAMES = {"f32": "f32", "float": "f32", "float32": "f32", "bf16": "bf16", "bfloat16": "bf16", "f16": "f16",
               "float16": "f16"}  # fmt: skip


class OpenVinoBackend:
    """See the module."""

    name = "openvino"
    pip_line = "pip install 'mindedge[openvino]'"

    def __init__(self, *, cache_dir: Path | None = None) -> None:
        self._cache_dir = cache_dir

    def fact(self) -> RuntimeFact:
        """Imports openvino here and asks for its devices."""
        if importlib.util.find_spec("openvino") is None:
            return RuntimeFact(name=self.name, status=RuntimeStatus.MISSING.value, detail="not installed")
        try:
            with translated(self.name, "be imported"):
                import openvino

                devices = list(openvino.Core().available_devices)
        except BackendError as error:
            return RuntimeFact(name=self.name, status=RuntimeStatus.BROKEN.value, detail=error.reason)
        targets = sorted({TARGET_OF_DEVICE[_family(d)] for d in devices if _family(d) in TARGET_OF_DEVICE})
        return RuntimeFact(
            name=self.name, version=str(openvino.__version__).split("-")[0], targets=targets,
            status=RuntimeStatus.USABLE.value, providers=devices,
        )  # fmt: skip

    def option_sets(self, variant: VariantSpec, device: Capabilities, threads: int) -> list[dict[str, OptionValue]]:
        """CPU: thread counts by precisions that the CPU computes in, then unpinned; GPU and NPU: one set."""
        if variant.target == "gpu":
            return [{"threads": threads, "precision": "f16", "provider": "GPU"}]
        if variant.target == "vpu":
            movidius = any(a.kind == AcceleratorKind.VPU for a in device.accelerators)
            return [{"threads": threads, "provider": "MYRIAD" if movidius else "NPU"}]
        counts = thread_counts(threads, device)
        precisions = ["f32"]
        if any(device.cpu.features.get(feature) for feature in BF16_FEATURES):
            precisions.append("bf16")
        if any(device.cpu.features.get(feature) for feature in F16_FEATURES):
            precisions.append("f16")
        if variant.precision == "int8":
            precisions = precisions[:1]
        sets: list[dict[str, OptionValue]] = [
            {"threads": count, "precision": precision, "provider": "CPU"}
            for count in counts for precision in precisions
        ]  # fmt: skip
        return [*sets, {**sets[0], "pinning": False}] if threads > 1 else sets

    def default_options(self) -> dict[str, OptionValue]:
        """``compile_model(file, "CPU")`` as everybody writes it."""
        return {"provider": "CPU"}

    def open(self, folder: Path, variant: VariantSpec, options: Options) -> BackendSession:
        """Raises RuntimeMissing, ProviderFellBack (no such device), BackendError (also for a precision not met)."""
        check_options(self.name, options, _OPTIONS)
        try:
            import openvino
        except ModuleNotFoundError as error:
            raise RuntimeMissing(self.name, self.pip_line) from error
        device = str(options.get("provider", "CPU"))
        with translated(self.name, f"open {variant.entry}"):
            core = openvino.Core()
            if device not in {name for found in core.available_devices for name in (found, _family(found))}:
                raise ProviderFellBack(self.name, device, ", ".join(core.available_devices))
            settings = _settings(openvino, options, device, self._cache_dir)
            compiled = core.compile_model(str(folder / variant.entry), device, settings)
            if self._cache_dir is not None:
                prune(self._cache_dir / "openvino")
            _check_precision(compiled, options)
            return OpenVinoSession(openvino, compiled)


class OpenVinoSession:
    """A compiled model with one inference request.

    Small inputs are copied into tensors that stay bound: binding anew costs 20-30 us a call, which is half the time of
    a small model. Large ones are bound as they are, without a copy.
    """

    def __init__(self, openvino: Any, compiled: Any) -> None:
        self._openvino: Any = openvino
        self._compiled: Any = compiled
        self._request: Any = compiled.create_infer_request()
        self._inputs = {name: index for index, port in enumerate(compiled.inputs) for name in _names(port)}
        self._outputs = [(index, sorted(_names(port)), _is_text(port)) for index, port in enumerate(compiled.outputs)]
        self._text_inputs = {index for index, port in enumerate(compiled.inputs) if _is_text(port)}
        self._bound: dict[int, Array] = {}

    @property
    def provider(self) -> str:
        """EXECUTION_DEVICES, as the compiled model tells."""
        devices = self._compiled.get_property("EXECUTION_DEVICES")
        return ",".join(_family(str(device)) for device in devices)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Raises BackendError. An output with several names is given under each."""
        with translated("openvino", "run the model"):
            for name, array in feeds.items():
                self._bind(self._inputs[name], array)
            self._request.infer(share_inputs=True, share_outputs=True)
            return {
                name: _own(self._request.get_output_tensor(index), is_text=is_text)
                for index, names, is_text in self._outputs for name in names
            }  # fmt: skip

    def close(self) -> None:
        """Drop request and model."""
        self._bound = {}
        self._request = None
        self._compiled = None

    def _bind(self, index: int, array: Array) -> None:
        bound = self._bound.get(index)
        if bound is not None and bound.shape == array.shape and bound.dtype == array.dtype:
            bound[...] = array
            return
        self._bound.pop(index, None)
        if index in self._text_inputs:
            self._request.set_input_tensor(index, self._openvino.Tensor(to_text(array).astype(str)))
        elif array.nbytes <= MOST_COPIED_BYTES:
            tensor = self._openvino.Tensor(array)
            self._request.set_input_tensor(index, tensor)
            self._bound[index] = tensor.data
        else:
            whole = array if array.flags.c_contiguous and array.flags.writeable else array.copy()
            self._request.set_input_tensor(index, self._openvino.Tensor(whole, shared_memory=True))


def _settings(openvino: Any, options: Options, device: str, cache_dir: Path | None) -> dict[str, Any]:
    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
    if cache_dir is not None:
        settings["CACHE_DIR"] = str(cache_dir / "openvino")
    if device == "CPU" and "threads" in options:
        settings["INFERENCE_NUM_THREADS"] = options["threads"]
    if "pinning" in options:
        settings["ENABLE_CPU_PINNING"] = options["pinning"]
    if "precision" in options:
        wanted = str(options["precision"])
        if wanted not in ("f32", "bf16", "f16"):
            raise BackendError("openvino", f"option 'precision' is {wanted!r} (known: f32, bf16, f16)")
        settings["INFERENCE_PRECISION_HINT"] = getattr(openvino.Type, wanted)
    return settings


def _check_precision(compiled: Any, options: Options) -> None:
    wanted = options.get("precision")
    if wanted is None:
        return
    told = compiled.get_property("INFERENCE_PRECISION_HINT")
    effective = _TYPE_NAMES.get(str(told.get_type_name() if hasattr(told, "get_type_name") else told), str(told))
    if effective != wanted:
        raise BackendError("openvino", f"asked for {wanted}, computes in {effective}")


def _family(device: str) -> str:
    """``GPU.0`` is a GPU."""
    return device.strip("()").split(".")[0]


def _names(port: Any) -> set[str]:
    return set(port.get_names()) | {port.get_node().get_friendly_name()}


def _is_text(port: Any) -> bool:
    return "string" in str(port.get_element_type())


def _own(tensor: Any, *, is_text: bool) -> Array:
    return to_bytes(tensor.str_data) if is_text else tensor.data.copy()

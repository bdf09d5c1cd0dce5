"""TensorFlow Lite: ai-edge-litert, or tflite-runtime (Python < 3.12, NumPy 1) where the former has no wheel. Options:

    threads     num_threads
    xnnpack     whether the XNNPACK delegate takes the float and int8 operators (both packages' default)
    provider    "cpu" | "gpu" | "edgetpu"; the latter two load their vendor's delegate library

Both packages have the same Interpreter; outputs are copied, so they are the caller's.
Source: https://ai.google.dev/edge/litert, "Interpreter" and "Delegates"; coral.ai for the Edge TPU.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import importlib.util
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agent.errors import BackendError, ProviderFellBack, RuntimeMissing
from agent.inference.backend import Array, BackendSession, Options
from agent.inference.foreign_errors import translated
from agent.inference.option_reading import check_options
from agent.inference.thread_counts import thread_counts
from edge_contracts.bundle import VariantSpec
from edge_contracts.capabilities import AcceleratorKind, Capabilities, RuntimeFact, RuntimeStatus
from edge_contracts.evidence import OptionValue

PACKAGES = {"ai_edge_litert": "ai-edge-litert", "tflite_runtime": "tflite-runtime"}
"""Modules by preference and the distributions they come from."""
DELEGATE_LIBRARY = {"edgetpu": "libedgetpu.so.1", "gpu": "libtensorflowlite_gpu_delegate.so"}
_OPTIONS = {"threads": int, "xnnpack": bool, "provider": str}


class TfliteBackend:
    """See the module."""

    name = "tflite"
    pip_line = "pip install 'mindedge[litert]' (or 'mindedge[tflite]' where ai-edge-litert has no wheel)"

    def __init__(self, *, cache_dir: Path | None = None) -> None:
        self._cache_dir = cache_dir

    def fact(self) -> RuntimeFact:
        """Imports the interpreter here."""
        module = installed_module()
        if module is None:
            return RuntimeFact(name=self.name, status=RuntimeStatus.MISSING.value, detail="not installed")
        try:
            with translated(self.name, "be imported"):
                importlib.import_module(f"{module}.interpreter")
        except BackendError as error:
            return RuntimeFact(name=self.name, status=RuntimeStatus.BROKEN.value, detail=error.reason)
        fault = _numpy_fault(module)
        status = RuntimeStatus.BROKEN if fault else RuntimeStatus.USABLE
        return RuntimeFact(
            name=self.name, version=_version(module), targets=["cpu", *_delegate_targets()], status=status.value,
            detail=fault or PACKAGES[module], providers=["cpu"],
        )  # fmt: skip

    def option_sets(self, variant: VariantSpec, device: Capabilities, threads: int) -> list[dict[str, OptionValue]]:
        """CPU: thread counts with XNNPACK, then one without; gpu and vpu: their delegate."""
        if variant.target == "gpu":
            return [{"threads": threads, "provider": "gpu"}]
        if variant.target == "vpu":
            tpu = any(a.kind == AcceleratorKind.TPU for a in device.accelerators)
            return [{"threads": threads, "provider": "edgetpu"}] if tpu else []
        counts = thread_counts(threads, device)
        sets: list[dict[str, OptionValue]] = [_cpu_set(count, xnnpack=True) for count in counts]
        return [*sets, _cpu_set(counts[0], xnnpack=False)]

    def default_options(self) -> dict[str, OptionValue]:
        """``Interpreter(file)`` as everybody writes it."""
        return {"provider": "cpu"}

    def open(self, folder: Path, variant: VariantSpec, options: Options) -> BackendSession:
        """Raises RuntimeMissing, ProviderFellBack (no delegate, or it takes no operator), BackendError."""
        check_options(self.name, options, _OPTIONS)
        module = installed_module()
        if module is None:
            raise RuntimeMissing(self.name, self.pip_line)
        provider = str(options.get("provider", "cpu"))
        with translated(self.name, f"open {variant.entry}"):
            if fault := _numpy_fault(module):
                raise BackendError(self.name, fault)
            api = importlib.import_module(f"{module}.interpreter")
            interpreter = _interpreter(api, folder / variant.entry, options, provider)
            interpreter.allocate_tensors()
            return TfliteSession(interpreter, provider)


class TfliteSession:
    """An interpreter. Input shapes follow the request where the file leaves them open."""

    def __init__(self, interpreter: Any, provider: str) -> None:
        self._interpreter: Any = interpreter
        self._wanted = provider
        details = interpreter.get_input_details()
        self._inputs = {detail["name"]: detail["index"] for detail in details}
        self._open = {detail["index"]: tuple(detail.get("shape_signature", detail["shape"])) for detail in details}
        self._shapes = {detail["index"]: tuple(int(n) for n in detail["shape"]) for detail in details}
        self._outputs = {detail["name"]: detail["index"] for detail in interpreter.get_output_details()}
        for signature in _signatures(interpreter):
            self._inputs.update(signature.get("inputs", {}))
            self._outputs.update(signature.get("outputs", {}))

    @property
    def provider(self) -> str:
        """The wanted one when a delegate took at least one operator; the CPU needs none."""
        if self._wanted == "cpu":
            return "cpu"
        return self._wanted if _has_delegate(self._interpreter) else "cpu"

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Raises BackendError, naming an input whose shape the file has fixed otherwise."""
        with translated("tflite", "run the model"):
            self._reshape(feeds)
            for name, array in feeds.items():
                self._interpreter.set_tensor(self._inputs[name], array)
            self._interpreter.invoke()
            return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}

    def close(self) -> None:
        """Frees tensors and threads."""
        self._interpreter = None

    def _reshape(self, feeds: Mapping[str, Array]) -> None:
        changed: dict[int, tuple[int, ...]] = {}
        for name, array in feeds.items():
            index = self._inputs[name]
            if array.shape == self._shapes.get(index):
                continue
            if not _fits(array.shape, self._open[index]):
                raise BackendError("tflite", f"input {name!r} has shape {list(array.shape)}, "
                                   f"the file takes {[int(n) for n in self._open[index]]}")  # fmt: skip
            changed[index] = array.shape
        if changed:
            known, self._shapes = self._shapes, {}  # forgotten if what follows fails: the next run sets all shapes anew
            for index, shape in changed.items():
                self._interpreter.resize_tensor_input(index, shape)
            self._interpreter.allocate_tensors()
            self._shapes = {**known, **changed}


def installed_module() -> str | None:
    """The preferred package that can be found, without importing it."""
    return next((module for module in PACKAGES if importlib.util.find_spec(module) is not None), None)


def _interpreter(api: Any, file: Path, options: Options, provider: str) -> Any:
    arguments: dict[str, Any] = {"model_path": str(file)}
    if "threads" in options:
        arguments["num_threads"] = options["threads"]
    if options.get("xnnpack") is False:
        arguments["experimental_op_resolver_type"] = api.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    if provider in DELEGATE_LIBRARY:
        arguments["experimental_delegates"] = [_delegate(api, provider)]
    elif provider != "cpu":
        raise BackendError("tflite", f"option 'provider' is {provider!r} (known: cpu, gpu, edgetpu)")
    return api.Interpreter(**arguments)


def _delegate(api: Any, provider: str) -> Any:
    library = DELEGATE_LIBRARY[provider]
    try:
        ctypes.CDLL(library)  # before load_delegate, whose half-made object complains when it is collected
        return api.load_delegate(library)
    except (OSError, ValueError) as error:
        raise ProviderFellBack("tflite", provider, f"none: {library} cannot be loaded") from error


def _signatures(interpreter: Any) -> list[dict[str, dict[str, int]]]:
    """Names by which converters export a model's inputs and outputs; one public call gives them without indexes."""
    read = getattr(interpreter, "_get_full_signature_list", None)
    return list(read().values()) if read is not None else []


def _has_delegate(interpreter: Any) -> bool:
    read = getattr(interpreter, "_get_ops_details", None)
    return read is None or any("delegate" in str(item["op_name"]).lower() for item in read())


def _fits(shape: tuple[int, ...], allowed: tuple[int, ...]) -> bool:
    return len(shape) == len(allowed) and all(want in (-1, got) for want, got in zip(allowed, shape, strict=True))


def _cpu_set(threads: int, *, xnnpack: bool) -> dict[str, OptionValue]:
    return {"threads": threads, "xnnpack": xnnpack, "provider": "cpu"}


def _delegate_targets() -> list[str]:
    found = {"gpu": "tensorflowlite_gpu_delegate", "vpu": "edgetpu"}
    return [target for target, library in found.items() if ctypes.util.find_library(library)]


def _numpy_fault(module: str) -> str | None:
    """tflite-runtime was built for NumPy 1: it imports with NumPy 2 and fails at the first Interpreter."""
    if module == "tflite_runtime" and _distribution_version("numpy").split(".")[0] not in ("0", "1"):
        return "tflite-runtime needs NumPy 1: pip install 'numpy<2', or use ai-edge-litert"
    return None


def _version(module: str) -> str | None:
    return _distribution_version(PACKAGES[module]) or None


def _distribution_version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""

"""Other ways to prepare MobileNetV3 than the packager's: files in a folder of the cache, made once.

    squeeze by pooling   ReduceMean of squeeze-excite as GlobalAveragePool, kept in ONNX Runtime's own layout
    int8 by NNCF         symmetric activations; squeeze-excite, depthwise convolutions or both left float
    int8 by LiteRT       ai-edge-quantizer's static recipe on the bundle's TFLite file
    ncnn                 by pnnx
The last two run in an environment of their own (study_environment).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models.environment import environment

SAMPLES = 24
STUDY_STEPS = (("ai-edge-quantizer==0.10.0", "ncnn==1.0.20261020", "pnnx"),)
LITERT_INT8 = """
import sys, numpy as np
from ai_edge_litert.interpreter import Interpreter
from ai_edge_quantizer import quantizer, recipe
source, samples, target = sys.argv[1:]
interpreter = Interpreter(source)
(name, signature), = interpreter.get_signature_list().items()
last = interpreter.get_input_details()[0]["shape"][1] != 3
images = np.load(samples)["image"][:24, None]
rows = [{signature["inputs"][0]: image.transpose(0, 2, 3, 1) if last else image} for image in images]
made = quantizer.Quantizer(source)
made.load_quantization_recipe(recipe.static_wi8_ai8())
made.quantize(made.calibrate({name: rows})).export_model(target, overwrite=True)
"""


def study_environment(cache: Path) -> Path:
    """ai-edge-quantizer, ncnn and pnnx."""
    return environment(cache / "quant-env", STUDY_STEPS)


def pooled_squeeze(model: Path, target: Path) -> None:
    """ReduceMean over height and width, kept, is GlobalAveragePool."""
    import onnx

    graph = onnx.load(model)
    for node in graph.graph.node:
        axes = next((list(item.ints) for item in node.attribute if item.name == "axes"), None)
        if node.op_type == "ReduceMean" and axes in ([2, 3], [-2, -1], [-1, -2]):
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
    onnx.save(graph, target)


def nncf_int8(model: Path, samples: Path, target: Path, *, leave: Callable[[Any], bool], preset: str = "MIXED") -> None:
    """Static int8 with the operations that ``leave`` says left float."""
    import nncf
    import openvino

    source = openvino.Core().read_model(model)
    scope = nncf.IgnoredScope(names=[item.get_friendly_name() for item in source.get_ops() if leave(item)])
    rows = [{"image": image[None]} for image in np.load(samples)["image"][:SAMPLES]]
    made = nncf.quantize(source, nncf.Dataset(rows), subset_size=SAMPLES, ignored_scope=scope,
                         preset=getattr(nncf.QuantizationPreset, preset))  # fmt: skip
    openvino.save_model(made, target, compress_to_fp16=False)


def is_depthwise(item: Any) -> bool:
    return bool(item.get_type_name() == "GroupConvolution")


def is_squeeze_excite(item: Any) -> bool:
    kinds = ("Convolution", "ReduceMean", "Multiply", "HardSigmoid")
    return "/se/" in item.get_friendly_name() and item.get_type_name() in kinds


def make_all(model: Path, tflite: Path, samples: Path, folder: Path, study_python: Path) -> None:
    """What is missing of the files named below."""
    folder.mkdir(exist_ok=True)
    wanted: dict[str, Callable[[Path], object]] = {
        "pooled.onnx": lambda path: pooled_squeeze(model, path),
        "symmetric.xml": lambda path: nncf_int8(model, samples, path, leave=lambda _: False, preset="PERFORMANCE"),
        "no-se.xml": lambda path: nncf_int8(model, samples, path, leave=is_squeeze_excite),
        "no-depthwise.xml": lambda path: nncf_int8(model, samples, path, leave=is_depthwise),
        "pointwise.xml": lambda path: nncf_int8(
            model, samples, path, leave=lambda item: is_depthwise(item) or is_squeeze_excite(item)
        ),
        "litert-int8.tflite": lambda path: subprocess.run(
            [study_python, "-c", LITERT_INT8, tflite, samples, path], check=True, stdout=subprocess.DEVNULL
        ),
        "net.ncnn.param": lambda _: _to_ncnn(model, folder, study_python),
    }
    for name, make in wanted.items():
        if not (folder / name).exists():
            make(folder / name)


def _to_ncnn(model: Path, folder: Path, study_python: Path) -> None:
    copy = folder / "net.onnx"
    copy.write_bytes(model.read_bytes())
    pnnx = study_python.with_name("pnnx")
    command = [pnnx, copy, "inputshape=[1,3,224,224]"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)

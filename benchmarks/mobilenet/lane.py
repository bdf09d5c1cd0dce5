"""One way to run it, in a process of its own: ``python lane.py SPEC.json`` (see study.py for the keys).

Prints "ready", then for each number N on stdin one JSON line: N pairs of wall and CPU milliseconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Spec = dict[str, Any]
IMAGE = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)


def onnxruntime_lane(spec: Spec) -> Callable[[], object]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if "threads" in spec:
        options.intra_op_num_threads = spec["threads"]
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(spec["file"], options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"image": IMAGE})


def openvino_lane(spec: Spec) -> Callable[[], object]:
    import openvino

    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": spec["threads"],
                "INFERENCE_PRECISION_HINT": getattr(openvino.Type, spec.get("precision", "f32"))}  # fmt: skip
    request = openvino.Core().compile_model(spec["file"], "CPU", settings).create_infer_request()
    request.set_input_tensor(0, openvino.Tensor(IMAGE.copy(), shared_memory=True))
    return lambda: request.infer(share_inputs=True, share_outputs=True)


def litert_lane(spec: Spec) -> Callable[[], object]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(spec["file"], num_threads=spec["threads"])
    interpreter.allocate_tensors()
    entry, answer = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    image = IMAGE if entry["shape"][1] == 3 else np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1))
    image = image if entry["dtype"] == np.float32 else (image * 30).astype(entry["dtype"])

    def run() -> object:
        interpreter.set_tensor(entry["index"], image)
        interpreter.invoke()
        return interpreter.get_tensor(answer["index"])

    return run


def ncnn_lane(spec: Spec) -> Callable[[], object]:
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = spec["threads"]
    net.opt.use_bf16_storage = spec.get("precision") == "bf16"
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.load_param(spec["file"])
    net.load_model(spec["file"].replace(".param", ".bin"))
    image = ncnn.Mat(IMAGE[0])

    def run() -> object:
        extractor = net.create_extractor()
        extractor.input(net.input_names()[0], image)
        return extractor.extract(net.output_names()[0])

    return run


LANES = {"onnxruntime": onnxruntime_lane, "openvino": openvino_lane, "litert": litert_lane, "ncnn": ncnn_lane}


def main(spec: Spec) -> None:
    run = LANES[spec["runtime"]](spec)
    for _ in range(8):
        run()
    print("ready", flush=True)
    for line in sys.stdin:
        run()
        pairs = []
        for _ in range(int(line)):
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            pairs.append(((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3))
        print(json.dumps(pairs), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""The runtime called in-process: ``python serving_floor.py MODEL SECONDS CPU`` prints one JSON line.

What no server can be better than: one thread, the same zeros again and again, no parsing.
"""

from __future__ import annotations

import json
import os
import sys
import time

import numpy as np
import onnxruntime


def main(model: str, seconds: float, cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    shape = [size if isinstance(size, int) else 1 for size in entry.shape]
    feeds = {entry.name: np.zeros(shape, dtype=np.float32)}
    names = [output.name for output in session.get_outputs()]
    times_us: list[float] = []
    for _ in range(10):
        session.run(names, feeds)
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        session.run(names, feeds)
        times_us.append((time.perf_counter() - begun) * 1e6)
    times_us.sort()
    at = {name: times_us[int(len(times_us) * share)] for name, share in (("p50_us", 0.5), ("p99_us", 0.99))}
    print(json.dumps({"requests": len(times_us), "requests_per_s": 1e6 * len(times_us) / sum(times_us), **at}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))

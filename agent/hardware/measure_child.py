"""The measuring process: `python -m agent.hardware.measure_child ARRAY_MB THREADS` prints one JSON object.

Bandwidth: threads copy parts of one array into another, best of several rounds, bytes read plus bytes written.
Arithmetic: the product of two square fp32 matrices by NumPy's BLAS, 2 n^3 operations, best of several rounds. Best of,
because another process's share of the machine is not the machine's speed.
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

ROUNDS = 5
BUDGET_S = 1.5
"""Per measurement; a slow board gets fewer rounds."""

MATRIX_SIDES = (256, 512, 1024)


def bandwidth_gb_s(array_mb: int, threads: int) -> float:
    source = np.ones(array_mb * (1 << 20) // 8, dtype=np.float64)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(source, threads), np.array_split(target, threads), strict=True))
    best_s = float("inf")
    with ThreadPoolExecutor(threads) as pool:
        until = time.perf_counter() + BUDGET_S
        for _ in range(ROUNDS):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), parts))
            best_s = min(best_s, time.perf_counter() - start)
            if time.perf_counter() > until:
                break
    return 2 * source.nbytes / best_s / 1e9


def gflops_fp32() -> float:
    best = 0.0
    until = time.perf_counter() + BUDGET_S
    for side in MATRIX_SIDES:
        a = np.full((side, side), 0.5, dtype=np.float32)
        np.dot(a, a)
        for _ in range(ROUNDS):
            start = time.perf_counter()
            np.dot(a, a)
            best = max(best, 2 * side**3 / (time.perf_counter() - start) / 1e9)
        if time.perf_counter() > until:
            break
    return best


def main(argv: list[str]) -> int:
    array_mb, threads = int(argv[0]), int(argv[1])
    result = {"bandwidth_gb_s": bandwidth_gb_s(array_mb, threads), "gflops_fp32": gflops_fp32()}
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

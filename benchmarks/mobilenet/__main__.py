"""MobileNetV3-Large, hard looked at: everything tried to run it faster, in one interleaved run.

    python -m benchmarks.mobilenet [--rounds 30] [--json OUT.json] [--svg OUT.svg]

Each lane is a process of its own; in each round each runs 6 inferences, one lane after the other. Ratios are against
ONNX Runtime with its defaults. CPU time (tenth percentile) is what a busy neighbour falsifies least. The weights are
random: the error of an int8 lane says how it compares to other int8 lanes, nothing of a trained net.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.inference.bundle_folder import lay_out, open_bundle_folder
from agent.selection.statistics import quantile
from benchmarks.bar_chart import bar_chart
from benchmarks.machine import described
from benchmarks.mobilenet.recipes import make_all, study_environment
from benchmarks.models.bundles import files_of
from benchmarks.models.cache_folder import cache_folder
from edge_contracts.archive import open_bundle

NAME = "mobilenet-v3-large"
RUNS = 6
BASE = "ONNX Runtime, defaults"


def lanes(bundle: Path, cache: Path) -> dict[str, dict[str, Any]]:
    """Name to lane.py's spec; ``python`` is the interpreter to run it with."""
    laid = cache / "mobilenet-bundle"
    folder = open_bundle_folder(laid) if laid.is_dir() else lay_out(open_bundle(bundle), laid)
    of = {v.name: str(folder.variant_folder(v.name) / v.spec.entry) for v in folder.bundle.variants}
    made, study = cache / "mobilenet-recipes", study_environment(cache)
    onnx, xml, tflite = of["onnxruntime-fp32-cpu"], of["openvino-fp32-cpu"], of["tflite-fp32-cpu"]
    make_all(Path(onnx), Path(tflite), files_of(NAME).calibration, made, study)
    specs: dict[str, dict[str, Any]] = {BASE: {"runtime": "onnxruntime", "file": onnx}}

    def add(name: str, runtime: str, file: object, **more: object) -> None:
        for threads in (1, 2):
            specs[f"{name}, t{threads}"] = {"runtime": runtime, "file": str(file), "threads": threads, **more}

    add("ONNX Runtime", "onnxruntime", onnx)
    add("ONNX Runtime, squeeze by pooling", "onnxruntime", made / "pooled.onnx")
    add("ONNX Runtime int8 (bundle)", "onnxruntime", of["onnxruntime-int8-cpu"])
    for precision in ("f32", "bf16"):
        add(f"OpenVINO {precision}", "openvino", xml, precision=precision)
    for label, file in (
        ("int8 (bundle)", of["openvino-int8-cpu"]), ("int8 symmetric", made / "symmetric.xml"),
        ("int8, squeeze-excite float", made / "no-se.xml"), ("int8, depthwise float", made / "no-depthwise.xml"),
        ("int8, pointwise only", made / "pointwise.xml"),
    ):  # fmt: skip
        for precision in ("f32", "bf16"):
            add(f"OpenVINO {label}, rest {precision}", "openvino", file, precision=precision)
    add("LiteRT f32", "litert", tflite)
    add("LiteRT int8", "litert", made / "litert-int8.tflite")
    for precision in ("f32", "bf16"):
        add(f"ncnn {precision}", "ncnn", made / "net.ncnn.param", precision=precision, python=str(study))
    return specs


def race(specs: Mapping[str, Mapping[str, Any]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    """Pairs of wall and CPU milliseconds by lane; who does not start is told and left out."""
    running = {}
    for name, spec in specs.items():
        command = [spec.get("python", sys.executable), str(Path(__file__).with_name("lane.py")), json.dumps(spec)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() == b"ready\n":
            running[name] = process, process.stdin, process.stdout
        else:
            print(f"{name} did not start", file=sys.stderr)
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in running}
    for number in range(rounds):
        names = [*running]
        for name in names[number % len(names) :] + names[: number % len(names)]:
            _, commands, replies = running[name]
            commands.write(b"%d\n" % RUNS)
            commands.flush()
            samples[name] += json.loads(replies.readline())
            time.sleep(0.01)  # its threads come to rest
    for process, commands, _ in running.values():
        commands.close()
        process.wait()
    return samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg")
    args = parser.parse_args()
    machine = described(["python", "-m", "benchmarks.mobilenet", *sys.argv[1:]])
    samples = race(lanes(files_of(NAME).bundle, cache_folder()), args.rounds)
    rows = {name: _figures(pairs) for name, pairs in samples.items()}
    base = rows[BASE]
    print(f"{'':50}{'p50 ms':>8}{'p90 ms':>8}{'p99 ms':>8}{'CPU ms':>8}{'p50 x':>7}{'p90 x':>7}")
    for name, row in sorted(rows.items(), key=lambda item: item[1]["p50"]):
        print(f"{name:50}{row['p50']:8.2f}{row['p90']:8.2f}{row['p99']:8.2f}{row['cpu']:8.2f}"
              f"{base['p50'] / row['p50']:7.2f}{base['p90'] / row['p90']:7.2f}")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"machine": machine, "lanes": rows}, indent=1) + "\n")
    if args.svg:
        groups = {name: {"p50": base["p50"] / row["p50"]} for name, row in rows.items()}
        args.svg.write_text(bar_chart("MobileNetV3-Large: times faster than ONNX Runtime, p50", "x", groups, ["p50"]))
    return 0


def _figures(pairs: list[tuple[float, float]]) -> dict[str, float]:
    wall, cpu = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    return {
        **{name: round(quantile(wall, share), 3) for name, share in shares.items()},
        "cpu": round(quantile(cpu, 0.1), 3),
    }


if __name__ == "__main__":
    sys.exit(main())

"""The product's choice against ONNX Runtime's default, ONNX Runtime tuned, and the best of everything that there is.

    python -m benchmarks.choice [MODEL ...] [--load idle busy] [--json OUT.json] [--svg OUT.svg]

Models: python -m benchmarks.models --help; what is missing is made first (minutes, once). Batch 1. For each model and
load one run: ``mindie bench`` chooses, then all entrants are raced to the end beside ONNX Runtime (choice_race.py).
"busy": one process of equal priority burns one CPU meanwhile. "float": the best candidate without int8, which is what
a net is left with whose int8 variants fail their gate. Nets with random weights stand for speed only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.bar_chart import bar_chart
from benchmarks.bars import against_default, choice_bars
from benchmarks.busy_process import busy_process
from benchmarks.choice_race import Effort, run_one
from benchmarks.machine import described
from benchmarks.models.bundles import files_of
from benchmarks.models.catalogue import MODELS

LOADS = ("idle", "busy")
ROLES = ("default", "tuned", "float", "choice", "oracle")


def main() -> int:
    args = _arguments()
    document: dict[str, Any] = {"machine": described(["python", "-m", "benchmarks.choice", *sys.argv[1:]]), "runs": []}
    bundles = {name: files_of(name).bundle for name in args.models or MODELS}
    for name, bundle in bundles.items():
        for load in args.load:
            started = time.monotonic()
            with busy_process() if load == "busy" else contextlib.nullcontext():
                outcome = run_one(bundle, MODELS[name].max_drop, Effort(args.budget_s, args.first_rounds, args.rounds))
            run = {"model": name, "load": load, "trained": MODELS[name].trained, **asdict(outcome),
                   "seconds": round(time.monotonic() - started, 1)}  # fmt: skip
            document["runs"].append(run)
            print(_lines(run), flush=True)
            if args.json:
                args.json.write_text(json.dumps(document, indent=1) + "\n")
    if args.svg:
        args.svg.write_text(plot(document["runs"]))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--load", nargs="+", choices=LOADS, default=list(LOADS))
    parser.add_argument("--budget-s", type=float, default=30.0, help="of mindie bench (%(default)s)")
    parser.add_argument("--first-rounds", type=int, default=5, help="of all entrants (%(default)s)")
    parser.add_argument("--rounds", type=int, default=40, help="of those in reach (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg")
    args = parser.parse_args()
    if unknown := [name for name in args.models if name not in MODELS]:
        parser.error(f"no model {unknown[0]!r}; there is {', '.join(MODELS)}")
    return args


def _lines(run: dict[str, Any]) -> str:
    """One model under one load, for a person."""
    head = f"{run['model']}, {run['load']}{'' if run['trained'] else ' (random weights: speed only)'}"
    lines = [head, f"  {'':8}{'p50 ms':>10}{'p90 ms':>10}{'p99 ms':>10}{'p50 x':>8}{'p99 x':>8}{'cosine':>9}"]
    default = run["figures"]["default"]
    for role in ROLES:
        one = run["figures"][role]
        ratios = "".join(f"{default[name] / one[name]:>8.2f}" for name in ("p50", "p99"))
        lines.append(
            f"  {role:8}{one['p50']:>10.3f}{one['p90']:>10.3f}{one['p99']:>10.3f}{ratios}{one['cosine']:>9.5f}"
            f"  {one['name']}"
        )
    accuracy = run["accuracy"]
    if accuracy:
        lines.append(
            f"  {accuracy['metric']} {accuracy['value']:.4f} (drop {accuracy['drop']:.4f}), cosine "
            f"{accuracy['cosine']:.5f}, max error {accuracy['max_abs_error']:.3g}, {accuracy['samples']} samples"
        )
    bars = choice_bars(run["model"], run["load"], run["trained"], run)
    return "\n".join([*lines, *(f"  {bar.text()}" for bar in bars)])


def plot(runs: list[dict[str, Any]]) -> str:
    """Times faster than ONNX Runtime's default: p50 and p99 of the choice, p50 of tuned ONNX Runtime."""
    series = ("choice, p50", "choice, p99", "ONNX Runtime tuned, p50", "oracle, p50")
    groups = {}
    for run in runs:
        figures = run["figures"]
        groups[f"{run['model']}, {run['load']}"] = {
            series[0]: against_default(run, "p50"), series[1]: against_default(run, "p99"),
            series[2]: figures["default"]["p50"] / figures["tuned"]["p50"],
            series[3]: figures["default"]["p50"] / figures["oracle"]["p50"],
        }  # fmt: skip
    return bar_chart("Times faster than ONNX Runtime's default, batch 1", "x", groups, series)


if __name__ == "__main__":
    sys.exit(main())

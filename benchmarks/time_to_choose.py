"""How long a choice takes: from cold (nothing known of model or device), and from the cache.

    python -m benchmarks.time_to_choose [MODEL ...] [--repeats 3] [--json OUT.json]

Each is a process of its own, as `mindie install` is one. "choice" is the call alone, which the bars are about (30 s
from cold for MobileNetV3, 0.5 s from the cache); "process" also has the start of Python and the probe of the device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import described
from benchmarks.models.bundles import files_of
from benchmarks.models.catalogue import MODELS

BARS_S = {"cold": 30.0, "cache": 0.5}
CHILD = "benchmarks.time_to_choose"


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(one_choice(Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4]))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="mobilenet-v3-large, digits without any")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--budget-s", type=float, default=30.0, help="of the race (%(default)s, the agent's default)")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    args = parser.parse_args()
    document: dict[str, Any] = {"machine": described(["python", "-m", CHILD, *sys.argv[1:]]), "runs": []}
    print(f"{'model':20}{'from':>7}{'choice s':>10}{'process s':>11}  chosen")
    for name in args.models or ["mobilenet-v3-large", "digits"]:
        if name not in MODELS:
            parser.error(f"no model {name!r}; there is {', '.join(MODELS)}")
        document["runs"] += measure(name, files_of(name).bundle, args.repeats, args.budget_s)
    if args.json:
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def measure(name: str, bundle: Path, repeats: int, budget_s: float) -> list[dict[str, Any]]:
    """``repeats`` times from cold and then from the cache; the slowest decides the bar."""
    runs: list[dict[str, Any]] = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="benchmark-time-") as text:
            for start in ("cold", "cache"):
                begun = time.monotonic()
                command = [sys.executable, "-m", CHILD, "--child", str(bundle), text, str(budget_s)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                run = {"model": name, "from": start, **json.loads(done.stdout)}
                run["process_s"] = round(time.monotonic() - begun, 3)
                runs.append(run)
                print(
                    f"{name:20}{start:>7}{run['choice_s']:>10.3f}{run['process_s']:>11.3f}  {run['chosen']}", flush=True
                )
    for start, bar_s in BARS_S.items():
        slowest = max(run["choice_s"] for run in runs if run["from"] == start)
        print(f"  {'met    ' if slowest <= bar_s else 'NOT MET'} {name} from {start}: {slowest:.3f} s (bar: {bar_s} s)")
    return runs


def one_choice(bundle: Path, folder: Path, budget_s: float) -> dict[str, Any]:
    """In this process: probe, lay out, choose. The laid-out bundle is kept for the second call."""
    from agent.config import load_config
    from agent.device_facts import DeviceFacts
    from agent.inference.bundle_folder import lay_out, open_bundle_folder
    from agent.selection.choice import choose
    from agent.selection.request import SelectionRequest, SelectionTools
    from edge_contracts.archive import open_bundle

    namespace = argparse.Namespace(data=folder / "data", config=None, json=False)
    device = DeviceFacts(load_config(namespace, os.environ).data_dir)()
    laid = folder / "bundle"
    laid_out = open_bundle_folder(laid) if laid.is_dir() else lay_out(open_bundle(bundle), laid)
    request = SelectionRequest(folder=laid_out, device=device, budget_cpus=device.cpu.budget_cpus or 1.0,
                               race_budget_s=budget_s, max_drop=laid_out.bundle.spec.gate.max_drop)  # fmt: skip
    tools = SelectionTools(cache_dir=folder / "cache", work_dir=folder / "work")
    begun = time.monotonic()
    evidence = choose(request, tools)
    return {"choice_s": round(time.monotonic() - begun, 3), "chosen": evidence.chosen.name, "rounds": evidence.rounds}


if __name__ == "__main__":
    sys.exit(main())

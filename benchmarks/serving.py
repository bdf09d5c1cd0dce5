"""Requests per second and latency of the data plane beside other servers of the same model, in one interleaved run.

    python -m benchmarks.serving [--rounds 5] [--seconds 2] [--install-peers] [--json OUT.json] [--svg OUT.svg]

Needs the agent, onnx and onnxruntime. Starlette, MLServer and LitServe run in environments of their own below the
benchmarks' cache folder, which --install-peers makes; those that are not there are left out.
Every server, with all
its processes, is bound to one CPU, the client to another; ONNX Runtime has one thread everywhere. Two models: ``tiny``
(8 numbers in, JSON) and ``image`` (3x224x224 floats in binary, which MLServer and LitServe do not take).
"in-process" is the runtime called without any server. CPU time per request is what a busy neighbour falsifies least.
The best round of each counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import psutil

from agent.inference.bundle_folder import BundleFolder
from agent.serving.control import ServedModel
from agent.serving.process import Bind, ServerProcess
from benchmarks.bar_chart import bar_chart
from benchmarks.machine import described
from benchmarks.models.cache_folder import cache_folder
from benchmarks.peers import servers
from benchmarks.serving_bars import serving_bars
from benchmarks.serving_models import bundles, write_requests

HERE = Path(__file__).parent
SERVER_CPU, CLIENT_CPU = 0, 1
CLIENTS = (1, 8)
FLOOR = "in-process"


@dataclass
class Result:
    """The best round of one server, model and number of clients. ``rss_mb``: all its processes."""

    model: str
    clients: int
    server: str
    requests_per_s: float
    p50_us: float
    p99_us: float
    cpu_us: float
    rss_mb: float


@dataclass(frozen=True)
class Lane:
    """One server of one model. ``pids``: of its processes now; none for the call in-process."""

    server: str
    model: str
    port: int
    request: Path
    pids: Callable[[], list[int]]
    file: Path


def cpu_us(pids: Sequence[int]) -> float:
    """CPU time of all threads of these processes."""
    tasks = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def rss_mb(pids: Sequence[int]) -> float:
    return sum(psutil.Process(pid).memory_info().rss for pid in pids) / 2**20


def family(pid: int) -> list[int]:
    """A process and all below it."""
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def one_round(lane: Lane, clients: int, seconds: float) -> Result:
    """Raises subprocess.CalledProcessError when an answer is not 200."""
    pids = lane.pids()
    before = cpu_us(pids)
    if lane.server == FLOOR:
        command = [sys.executable, HERE / "serving_floor.py", lane.file, str(seconds), str(SERVER_CPU)]
    else:
        command = [sys.executable, HERE / "serving_load.py", str(lane.port), str(clients), str(seconds),
                   str(CLIENT_CPU), lane.request]  # fmt: skip
    load = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    spent_us = cpu_us(pids) - before
    return Result(lane.model, clients, lane.server, load["requests_per_s"], load["p50_us"], load["p99_us"],
                  spent_us / load["requests"], rss_mb(pids))  # fmt: skip


def measure(lanes: Sequence[Lane], rounds: int, seconds: float) -> list[Result]:
    best: dict[tuple[str, int, str], Result] = {}
    for number in range(rounds):
        for lane in [*lanes[number % len(lanes) :], *lanes[: number % len(lanes)]]:
            for clients in CLIENTS if lane.server != FLOOR else (1,):
                result = one_round(lane, clients, seconds)
                key = (lane.model, clients, lane.server)
                if key not in best or result.requests_per_s > best[key].requests_per_s:
                    best[key] = result
    return sorted(best.values(), key=lambda one: (one.model, one.clients, -one.requests_per_s))


@contextlib.contextmanager
def product(models: dict[str, BundleFolder], requests: dict[str, Path]) -> Iterator[list[Lane]]:
    """Server and engine."""
    server = ServerProcess()
    port = server.start(Bind(port=0), affinity=frozenset({SERVER_CPU}))

    def pids() -> list[int]:
        state = server.snapshot()
        return [state.pid, *state.engine_pids]  # type: ignore[list-item]

    try:
        for name, bundle in models.items():
            variant = bundle.bundle.variants[0]
            server.load(ServedModel(name=name, version="1.0.0", digest=bundle.bundle.digest, variant=variant.name,
                                    folder=str(bundle.folder), options={"threads": 1}))  # fmt: skip
        yield [Lane("mindie", name, port, requests[name], pids, model_file(models[name])) for name in models]
    finally:
        server.stop(0.0)


@contextlib.contextmanager
def others(
    models: dict[str, BundleFolder], requests: dict[str, Path], work: Path, install: bool
) -> Iterator[list[Lane]]:
    """Starlette for both models, MLServer and LitServe for the tiny one where they are installed."""
    started: list[subprocess.Popen[bytes]] = []
    lanes: list[Lane] = []

    def add(server: str, model: str, start: Callable[[int], subprocess.Popen[bytes]], request: str = "") -> None:
        port = servers.free_port()
        try:
            process = start(port)
        except servers.NotStarted as error:
            print(f"{server} left out: {error}", file=sys.stderr)
            return
        started.append(process)
        file = model_file(models[model])
        lanes.append(Lane(server, model, port, requests[request or model], lambda: family(process.pid), file))

    try:
        if python := _peer("starlette", install):
            for name, bundle in models.items():
                start = partial(servers.start_starlette, python, model_file(bundle), cpu=SERVER_CPU, work=work)
                add("starlette", name, lambda port, start=start: start(port=port))  # type: ignore[misc]
        tiny = model_file(models["tiny"])
        if python := _peer("mlserver", install):
            for label, best in (("mlserver, best", True), ("mlserver, as installed", False)):
                add(label, "tiny", lambda port, best=best: servers.start_mlserver(  # type: ignore[misc]
                    python, tiny, port, SERVER_CPU, work, best))  # fmt: skip
        if python := _peer("litserve", install):
            add(
                "litserve",
                "tiny",
                lambda port: servers.start_litserve(python, tiny, port, SERVER_CPU, work),
                "litserve",
            )
        yield lanes
    finally:
        for process in started:
            for pid in reversed(family(process.pid) if process.poll() is None else []):
                with contextlib.suppress(psutil.NoSuchProcess):
                    psutil.Process(pid).kill()
            process.wait()


def _peer(name: str, install: bool) -> Path | None:
    python = servers.interpreter(cache_folder(), name, install)
    if python is None:
        print(f"{name} left out: --install-peers, or in an environment of its own: {servers.pip_line(name)}",
              file=sys.stderr)  # fmt: skip
    return python


def model_file(bundle: BundleFolder) -> Path:
    variant = bundle.bundle.variants[0]
    return bundle.variant_folder(variant.name) / variant.spec.entry


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--install-peers", action="store_true", help="make the environments of MLServer and LitServe")
    parser.add_argument("--json", type=Path, metavar="OUT.json")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        work = Path(text)
        models, requests = bundles(work), write_requests(work)
        floor = [Lane(FLOOR, name, 0, Path(), list, model_file(bundle)) for name, bundle in models.items()]
        with product(models, requests) as ours, others(models, requests, work, args.install_peers) as theirs:
            results = measure([*floor, *ours, *theirs], args.rounds, args.seconds)
    print(table(results))
    document = [asdict(one) for one in results]
    for bar in serving_bars(document):
        print(bar.text())
    if args.json:
        machine = described(["python", "-m", "benchmarks.serving", *sys.argv[1:]])
        args.json.write_text(json.dumps({"machine": machine, "results": document}, indent=1) + "\n")
    if args.svg:
        args.svg.write_text(plot(results))
    return 0


def table(results: Sequence[Result]) -> str:
    """For a person."""
    lines = [f"{'model':6} {'clients':>7} {'server':22} {'req/s':>8} {'p50 us':>8} {'p99 us':>8} {'CPU us/req':>10}"
             f" {'RSS MB':>7}"]  # fmt: skip
    lines += [
        f"{one.model:6} {one.clients:7} {one.server:22} {one.requests_per_s:8.0f} {one.p50_us:8.0f} "
        f"{one.p99_us:8.0f} {one.cpu_us:10.0f} {one.rss_mb:7.0f}"
        for one in results
    ]
    return "\n".join(lines)


def plot(results: Sequence[Result]) -> str:
    """Requests per second of the tiny model."""
    groups: dict[str, dict[str, float]] = {}
    for one in results:
        if one.model == "tiny" and one.server != FLOOR:
            groups.setdefault(one.server, {})[f"{one.clients} clients"] = one.requests_per_s
    return bar_chart("Requests per second, tiny model, JSON", "", groups, [f"{count} clients" for count in CLIENTS])


if __name__ == "__main__":
    sys.exit(main())

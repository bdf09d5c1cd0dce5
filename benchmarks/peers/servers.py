"""Starts other servers on the same model, pinned to the same CPU, each in an environment of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.models.environment import environment

HERE = Path(__file__).parent
STEPS = {
    "starlette": (("starlette", "uvicorn", "httptools", "uvloop", "onnxruntime", "numpy"),),
    "mlserver": (("mlserver==1.7.1", "onnxruntime", "httptools", "uvloop<0.22"),),
    "litserve": (("litserve==0.2.19", "onnxruntime", "numpy"),),
}
START_S = 90.0


class NotStarted(Exception):
    """It ended, or did not answer in time."""


def interpreter(cache: Path, name: str, install: bool) -> Path | None:
    """The environment's Python; None where it is not there and ``install`` is False."""
    folder = cache / f"{name}-env"
    return environment(folder, STEPS[name]) if install or (folder / "bin" / "python").exists() else None


def pip_line(name: str) -> str:
    """For who wants it."""
    return "pip install " + " ".join(f"'{requirement}'" for step in STEPS[name] for requirement in step)


def start_starlette(python: Path, model: Path, port: int, cpu: int, work: Path) -> subprocess.Popen[bytes]:
    """What a careful user writes in an afternoon. Raises NotStarted."""
    command = [str(python), "-m", "uvicorn", "--port", str(port), "--log-level", "error", "--no-access-log",
               "serving_starlette:app"]  # fmt: skip
    return _start(command, work, {"MODEL": str(model), "PYTHONPATH": str(HERE.parent)}, port, cpu, "/")


def start_mlserver(python: Path, model: Path, port: int, cpu: int, work: Path, best: bool) -> subprocess.Popen[bytes]:
    """best: no worker process and httptools; else as pip installs it. Raises NotStarted."""
    folder = work / f"mlserver-{port}"
    folder.mkdir()
    settings = {"host": "127.0.0.1", "http_port": port, "grpc_port": free_port(), "metrics_port": free_port(),
                "debug": False, **({"parallel_workers": 0} if best else {})}  # fmt: skip
    (folder / "settings.json").write_text(json.dumps(settings))
    about = {"name": "tiny", "implementation": "onnx_model.OnnxModel", "parameters": {"uri": str(model)}}
    (folder / "model-settings.json").write_text(json.dumps(about))
    hidden = [] if best else [str(HERE / "without_httptools")]
    environ = {"PYTHONPATH": os.pathsep.join([str(HERE), *hidden])}
    ready = "/v2/models/tiny/ready"
    return _start([str(python.with_name("mlserver")), "start", str(folder)], folder, environ, port, cpu, ready)


def start_litserve(python: Path, model: Path, port: int, cpu: int, work: Path) -> subprocess.Popen[bytes]:
    """Raises NotStarted."""
    return _start([str(python), str(HERE / "litserve_app.py"), str(model), str(port)], work, {}, port, cpu, "/health")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], port: int, cpu: int, ready: str
) -> subprocess.Popen[bytes]:
    """Any answer below 500 to ``ready`` counts."""
    log = folder / f"server-{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(["taskset", "-c", str(cpu), *command], cwd=folder, stdout=out, stderr=out,
                                   env={**os.environ, **environ})  # fmt: skip
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        if _answers(port, ready):
            return process
        time.sleep(0.2)
    process.terminate()
    raise NotStarted(f"{command[0]}: {log.read_text(errors='replace').strip()[-400:]}")


def _answers(port: int, path: str) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2)
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True

"""Which runtimes work on this device: an import probe of every backend, each in a child process, all at once.

A runtime whose top-level package cannot even be found is missing without a child. Answers are cached under what is
installed (names and versions of all distributions, the Python), so that they are asked once per installation.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

import msgspec

from agent.disk import make_private
from agent.inference.lookup import backend_names
from agent.inference.process_end import signal_text
from edge_contracts.capabilities import RuntimeFact, RuntimeStatus

PACKAGES = {
    "onnxruntime": ("onnxruntime",),
    "openvino": ("openvino",),
    "tflite": ("ai_edge_litert", "tflite_runtime"),
}
"""Top-level packages of the built-in backends, any of which serves."""

IMPORT_TIMEOUT_S = 90.0
"""Far above what a slow card or a busy small board needs: a runtime given up too early is lost to the device."""


class _CachedFacts(msgspec.Struct):
    key: str
    facts: list[RuntimeFact]


def runtime_facts(
    python: str = sys.executable, timeout_s: float = IMPORT_TIMEOUT_S, cache_file: Path | None = None,
    names: Sequence[str] | None = None, environ: Mapping[str, str] = os.environ,
) -> list[RuntimeFact]:  # fmt: skip
    """One fact per backend, in the registry's order. Never raises for a runtime's sake: it is missing or broken then.

    ``cache_file`` holds the last answers; it is written again when anything that is installed has changed.
    """
    asked = list(names) if names is not None else backend_names(environ)
    key = _installation_key(python, asked) if python == sys.executable else ""
    cached = _read_cache(cache_file, key)
    if cached is not None:
        return cached
    facts = _probe_all(python, asked, timeout_s, environ)
    if cache_file is not None and key and all("timed out" not in (fact.detail or "") for fact in facts):
        _write_cache(cache_file, _CachedFacts(key, facts))
    return facts


def _probe_all(python: str, names: Sequence[str], timeout_s: float, environ: Mapping[str, str]) -> list[RuntimeFact]:
    own = python == sys.executable
    children: dict[str, subprocess.Popen[bytes]] = {}
    for name in names:
        if not (own and _surely_missing(name)):
            argv = [python, "-m", "agent.inference.import_probe", name, str(os.getpid())]
            children[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(environ)
            )
    deadline = time.monotonic() + timeout_s
    try:
        return [_answer(name, children.get(name), deadline, time.monotonic) for name in names]
    finally:
        for child in children.values():
            if child.poll() is None:
                child.kill()
            child.communicate()


def _surely_missing(name: str) -> bool:
    return name in PACKAGES and all(importlib.util.find_spec(package) is None for package in PACKAGES[name])


def _answer(
    name: str, child: subprocess.Popen[bytes] | None, deadline: float, clock: Callable[[], float]
) -> RuntimeFact:
    if child is None:
        return RuntimeFact(name=name, status=RuntimeStatus.MISSING.value, detail="not installed")
    try:
        out, err = child.communicate(timeout=max(0.0, deadline - clock()))
    except subprocess.TimeoutExpired:
        return RuntimeFact(name=name, status=RuntimeStatus.BROKEN.value, detail="the import timed out")
    if child.returncode != 0:
        tail = err.decode(errors="replace").strip().splitlines()[-1:]
        detail = f"the import {signal_text(child.returncode)}" + (f" ({tail[0][:200]})" if tail else "")
        return RuntimeFact(name=name, status=RuntimeStatus.BROKEN.value, detail=detail)
    try:
        return msgspec.json.decode(out.strip().splitlines()[-1], type=RuntimeFact)
    except (msgspec.MsgspecError, IndexError, UnicodeDecodeError):
        return RuntimeFact(name=name, status=RuntimeStatus.BROKEN.value, detail="the import probe gave no answer")


def _installation_key(python: str, names: Sequence[str]) -> str:
    """Changes when any distribution comes, goes or changes its version; cheap (a listing of folder names)."""
    installed = sorted(f"{name}" for name in _distribution_folders())
    text = "\n".join([python, sys.version, os.uname().machine, *names, *installed])
    return hashlib.sha256(text.encode()).hexdigest()


def _distribution_folders() -> set[str]:
    return {str(getattr(found, "_path", found)) for found in distributions()}


def _read_cache(cache_file: Path | None, key: str) -> list[RuntimeFact] | None:
    if cache_file is None or not key:
        return None
    try:
        cached = msgspec.json.decode(cache_file.read_bytes(), type=_CachedFacts)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return cached.facts if cached.key == key else None


def _write_cache(cache_file: Path, content: _CachedFacts) -> None:
    try:
        make_private(cache_file.parent)
        temporary = cache_file.with_name(f".{cache_file.name}.{os.getpid()}.tmp")
        temporary.write_bytes(msgspec.json.encode(content))
        temporary.replace(cache_file)
    except OSError:
        return  # a cache that cannot be written is only slower

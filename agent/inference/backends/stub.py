"""A tiny deterministic backend for tests: runs an affine function described in JSON, and misbehaves on demand.

    {"format": "mindedge-stub-1", "weight": [[...]], "bias": [...], "behaviour": {...}}

``x [n, rows] -> logits [n, columns]``. ``behaviour``, all optional:

    crash_at       "load" | "run": end this process by ``signal`` (number, default 4 = SIGILL)
    hang_at        "load" | "run": never answer
    error_at       "load" | "run": raise as a runtime would
    after_runs     misbehave in "run" only from that many runs on (0: at once)
    wrong_by       added to the first output of every row
    delay_us       time of a run with one thread, slept; divided by min(threads, ``scales_to``) (default 1)
    jitter_us      up to that much more, from a seeded generator
    delay_us_of    {"option=value": microseconds}: replaces delay_us where an option has that value (as text)
    load_mb        memory taken when opened
    leak_mb        memory kept per run
    print_at       "load" | "run": write to standard output, as chatty runtimes do
    fall_back_to   the provider that is really in effect

It is reachable only where MINDEDGE_STUB_BACKEND=1 is set (agent.inference.registry): a real bundle cannot name it.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import BackendError
from agent.inference.backend import Array, BackendSession, Options
from agent.inference.option_reading import check_options
from agent.inference.thread_counts import thread_counts
from edge_contracts.bundle import VariantSpec
from edge_contracts.capabilities import Capabilities, RuntimeFact, RuntimeStatus
from edge_contracts.evidence import OptionValue

FORMAT = "mindedge-stub-1"
VERSION = "1.0"
PROVIDER = "stub-cpu"
_OPTIONS = {"threads": int, "spinning": bool, "provider": str}
_HANG_S = 86_400.0


class StubBackend:
    """See the module."""

    name = "stub"
    pip_line = "nothing to install: the stub backend is part of mindedge"

    def __init__(self, *, cache_dir: Path | None = None) -> None:
        self._cache_dir = cache_dir

    def fact(self) -> RuntimeFact:
        """Always usable."""
        return RuntimeFact(
            name=self.name, version=VERSION, targets=["cpu"], status=RuntimeStatus.USABLE.value, providers=[PROVIDER]
        )

    def option_sets(self, variant: VariantSpec, device: Capabilities, threads: int) -> list[dict[str, OptionValue]]:
        """One per thread count; none for a target that is not the CPU."""
        if variant.target != "cpu":
            return []
        return [{"threads": count, "provider": PROVIDER} for count in thread_counts(threads, device)]

    def default_options(self) -> dict[str, OptionValue]:
        """Nothing set."""
        return {}

    def open(self, folder: Path, variant: VariantSpec, options: Options) -> BackendSession:
        """Raises BackendError for a file that is no stub model."""
        check_options(self.name, options, _OPTIONS)
        try:
            document = json.loads((folder / variant.entry).read_bytes())
            if document["format"] != FORMAT:
                raise BackendError(self.name, f"{variant.entry} is not a {FORMAT} model")
            session = StubSession(document, options)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BackendError(self.name, f"{variant.entry} is not a {FORMAT} model ({error!r})") from error
        session.misbehave("load")
        return session


class StubSession:
    """The affine function of one file."""

    def __init__(self, document: Mapping[str, Any], options: Options) -> None:
        import numpy as np

        self._numpy = np
        self._weight = np.asarray(document["weight"], dtype=np.float32)
        self._bias = np.asarray(document["bias"], dtype=np.float32)
        self._behaviour: dict[str, Any] = dict(document.get("behaviour", {}))
        self._delay_s = _delay_us(self._behaviour, options) / 1e6
        self._rng = random.Random(0)
        self._runs = 0
        self._leaked = [bytearray(b"\1" * (int(self._behaviour.get("load_mb", 0)) << 20))]

    @property
    def provider(self) -> str:
        """``stub-cpu`` unless told to fall back."""
        return str(self._behaviour.get("fall_back_to", PROVIDER))

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The affine function, after whatever misbehaviour is due."""
        if self._runs >= int(self._behaviour.get("after_runs", 0)):
            self.misbehave("run")
        self._runs += 1
        if self._delay_s:
            time.sleep(self._delay_s + self._rng.random() * float(self._behaviour.get("jitter_us", 0)) / 1e6)
        if leak_mb := int(self._behaviour.get("leak_mb", 0)):
            self._leaked.append(bytearray(b"\1" * (leak_mb << 20)))
        x = feeds.get("x")
        if x is None or x.ndim != 2 or x.shape[1] != self._weight.shape[0]:
            raise BackendError("stub", f"input 'x' must have shape [n, {self._weight.shape[0]}]")
        logits = x @ self._weight + self._bias
        logits[:, 0] += float(self._behaviour.get("wrong_by", 0.0))
        return {"logits": logits.astype(self._numpy.float32)}

    def misbehave(self, moment: str) -> None:
        """Crash, hang, speak or raise when the model says so for this moment."""
        if self._behaviour.get("crash_at") == moment:
            os.kill(os.getpid(), int(self._behaviour.get("signal", 4)))
        if self._behaviour.get("hang_at") == moment:
            time.sleep(_HANG_S)
        if self._behaviour.get("print_at") == moment:
            os.write(1, b"stub speaking\n")
        if self._behaviour.get("error_at") == moment:
            raise BackendError("stub", f"told to fail at {moment}")

    def close(self) -> None:
        """Forget what leaked."""
        self._leaked.clear()


def _delay_us(behaviour: Mapping[str, Any], options: Options) -> float:
    for key, value in dict(behaviour.get("delay_us_of", {})).items():
        name, _, wanted = key.partition("=")
        if str(options.get(name)) == wanted:
            return float(value)
    threads = int(options.get("threads", 1))
    return float(behaviour.get("delay_us", 0)) / max(1, min(threads, int(behaviour.get("scales_to", 1))))

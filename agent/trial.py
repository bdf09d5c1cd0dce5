"""``python -m agent.trial REQUEST.json``: one candidate in a process of its own (agent.selection.trial_protocol).

It opens the variant, judges it on the bundle's goldens, warms it up, then obeys commands. Whatever kills it kills
nothing else: it asks to be the kernel's first victim when memory runs out, dies with its parent, and leaves no core.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from agent.errors import BackendError, ProviderFellBack
from agent.selection.trial_protocol import Fault, Phase, RunReply, TrialRequest, TrialResult

PR_SET_PDEATHSIG = 1
MIN_JUDGED = 8


def main(argv: Sequence[str]) -> int:
    """Exit 0 after "close" or the end of stdin, 1 when the trial failed, 2 when the request cannot be read."""
    replies = _take_stdout()
    try:
        request = msgspec.json.decode(Path(argv[0]).read_bytes(), type=TrialRequest)
    except (IndexError, OSError, msgspec.MsgspecError) as error:
        sys.stderr.write(f"agent.trial: no readable request: {error}\n")
        return 2
    protect(request)
    report = _Report(Path(request.result_file), replies)
    try:
        trial = Trial(request, report.phase)
        result = trial.prepare()
    except ProviderFellBack as error:
        return report.failed(Fault.FELL_BACK, str(error))
    except BackendError as error:
        return report.failed(Fault.REFUSED, str(error))
    except WrongAnswers as error:
        return report.failed(Fault.WRONG, str(error), error.result)
    report.ready(result)
    _obey(trial, sys.stdin.buffer, replies)
    trial.close()
    report.phase(Phase.CLOSED)
    return 0


def protect(request: TrialRequest) -> None:
    """Affinity, end with the parent, first victim of the OOM killer, no core files. Each where the system allows it."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != request.parent_pid:
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if request.affinity is not None:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, request.affinity)


class WrongAnswers(Exception):
    """The goldens were not answered right; ``result`` holds the numbers."""

    def __init__(self, reason: str, result: TrialResult) -> None:
        super().__init__(reason)
        self.result = result


class Trial:
    """One opened candidate."""

    def __init__(self, request: TrialRequest, enter: Callable[[Phase], None]) -> None:
        self._request = request
        self._enter = enter
        self._session: Any = None
        self._inputs: list[dict[str, Any]] = []
        self._batch = int(request.options.get("batch", 1))
        self._next = 0

    def prepare(self) -> TrialResult:
        """Open, judge, warm up. Raises BackendError, ProviderFellBack, WrongAnswers; a MalformedBundle is refused."""
        from agent.inference.bundle_folder import open_bundle_folder
        from agent.inference.registry import backend
        from agent.inference.session import open_session
        from edge_contracts.errors import ContractError

        request = self._request
        self._enter(Phase.OPENING)
        started = time.perf_counter()
        try:
            folder = open_bundle_folder(Path(request.folder))
            variant = folder.bundle.variant(request.variant)
            if variant is None:
                raise BackendError("trial", f"the bundle has no variant {request.variant!r}")
            driver = backend(variant.spec.runtime, cache_dir=Path(request.cache_dir) if request.cache_dir else None)
            self._session = open_session(driver, folder, variant, request.options)
            open_ms = (time.perf_counter() - started) * 1e3
            result = TrialResult(phase=Phase.READY, open_ms=round(open_ms, 3))
            result = self._judge(folder, result)
        except ContractError as error:
            raise BackendError("trial", str(error)) from error
        if self._batch > 1:
            self._inputs = _batched(self._inputs, self._batch)
        self._enter(Phase.WARMING)
        typical_us = _median(self.run(request.warm_runs))
        self._session.check_provider()
        return msgspec.structs.replace(
            result, provider=self._session.provider, typical_us=round(typical_us, 3), peak_rss_mb=peak_rss_mb(),
            runtime_version=driver.fact().version,
        )  # fmt: skip

    def _judge(self, folder: Any, result: TrialResult) -> TrialResult:
        from edge_contracts.golden import decode_goldens
        from edge_contracts.parity import judge, to_array

        request, spec = self._request, folder.bundle.spec
        goldens = decode_goldens(folder.goldens_file.read_bytes())
        if not goldens:
            raise BackendError("trial", "the bundle has no goldens to judge it by")
        self._inputs = [{t.name: to_array(t) for t in golden.inputs} for golden in goldens]
        if not request.judge:
            return result
        self._enter(Phase.JUDGING)
        answers = list(self._answers(self._inputs))
        expected = [{t.name: to_array(t) for t in golden.outputs} for golden in goldens[: len(answers)]]
        labels = spec.golden_labels[: len(answers)] if spec.golden_labels is not None else None
        verdict = judge(expected, answers, labels, request.max_drop)
        result = msgspec.structs.replace(result, accuracy=verdict.accuracy, provider=self._session.provider)
        if not verdict.passed:
            raise WrongAnswers(verdict.reason, result)
        return result

    def _answers(self, inputs: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Answers to all, or to as many as the time for judging allows, at least MIN_JUDGED."""
        deadline = time.perf_counter() + self._request.judge_budget_s
        for count, sample in enumerate(inputs):
            if count >= MIN_JUDGED and time.perf_counter() > deadline:
                return
            yield self._session.infer(sample)

    def run(self, count: int, warm: int = 0) -> list[float]:
        """Microseconds per sample of ``count`` inferences after ``warm`` untimed ones. Raises BackendError."""
        infer, inputs, clock = self._session.infer, self._inputs, time.perf_counter_ns
        for _ in range(warm):
            infer(inputs[self._next % len(inputs)])
        times: list[float] = []
        for _ in range(count):
            sample = inputs[self._next % len(inputs)]
            self._next += 1
            begun = clock()
            infer(sample)
            times.append((clock() - begun) / 1e3 / self._batch)
        return times

    def close(self) -> None:
        """Free the model."""
        self._session.close()


def _batched(samples: Sequence[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Groups of ``size`` samples along the leading axis, wrapping round."""
    import numpy as np

    doubled = [*samples] * (size // len(samples) + 2)
    return [
        {name: np.concatenate([sample[name] for sample in doubled[start : start + size]]) for name in samples[0]}
        for start in range(min(len(samples), 8))
    ]


def peak_rss_mb() -> float:
    """The largest resident set of this process so far, in MiB."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    except (OSError, ValueError, IndexError):
        pass
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


class _Report:
    """The result file and the first line on the reply pipe."""

    def __init__(self, file: Path, replies: BinaryIO) -> None:
        self._file = file
        self._replies = replies
        self._last = TrialResult(phase=Phase.STARTING)

    def phase(self, phase: Phase) -> None:
        self._write(msgspec.structs.replace(self._last, phase=phase))

    def ready(self, result: TrialResult) -> None:
        self._write(result)
        _reply(self._replies, result)

    def failed(self, fault: Fault, reason: str, known: TrialResult | None = None) -> int:
        result = msgspec.structs.replace(known or self._last, phase=Phase.FAILED, fault=fault, reason=reason,
                                         peak_rss_mb=peak_rss_mb())  # fmt: skip
        self._write(result)
        _reply(self._replies, result)
        return 1

    def _write(self, result: TrialResult) -> None:
        self._last = result
        temporary = self._file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.encode(result))  # outlives this process; power cuts are the quarantine's
        temporary.replace(self._file)


def _obey(trial: Trial, commands: BinaryIO, replies: BinaryIO) -> None:
    """Answer commands until "close" or the end of the pipe."""
    for line in commands:
        words = line.split()
        if words[:1] == [b"close"]:
            return
        if words[:1] != [b"run"] or len(words) not in (2, 3) or not all(word.isdigit() for word in words[1:]):
            _reply(replies, RunReply(times_us=[], error=f"unknown command {line[:80]!r}"))
            continue
        count, warm = int(words[1]), int(words[2]) if len(words) == 3 else 0
        try:
            reply = RunReply(times_us=trial.run(count, warm), peak_rss_mb=peak_rss_mb())
        except BackendError as error:
            reply = RunReply(times_us=[], error=str(error))
        _reply(replies, reply)


def _reply(replies: BinaryIO, message: msgspec.Struct) -> None:
    with contextlib.suppress(BrokenPipeError):
        replies.write(msgspec.json.encode(message) + b"\n")
        replies.flush()


def _take_stdout() -> BinaryIO:
    """Keep the reply pipe for ourselves: whatever a runtime prints goes to stderr."""
    private = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(private, "wb")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

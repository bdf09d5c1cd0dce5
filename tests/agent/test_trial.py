"""Trials as real processes over the stub backend: what a candidate does to itself, nobody else feels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import SelectionCanceled, TrialError
from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.selection.trial_process import TrialProcess, resident_mb, start_trial
from agent.selection.trial_protocol import Fault, Phase, TrialRequest
from edge_contracts.archive import open_bundle
from tests.simulators.bundle_factory import stub_bundle

STUB_ENVIRON = {**os.environ, "MINDEDGE_STUB_BACKEND": "1"}
Start = Callable[..., TrialProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[TrialProcess] = []

    def start_one(
        behaviour: dict[str, Any] | None = None, *, damaged: bool = False, environ: dict[str, str] = STUB_ENVIRON,
        is_canceled: Callable[[], bool] = lambda: False, memory_limit_mb: int | None = None, **fields: Any,
    ) -> TrialProcess:  # fmt: skip
        folder = laid_out(tmp_path, behaviour, damaged)
        request = TrialRequest(
            folder=str(folder.folder), variant="stub-fp32-cpu", result_file=str(tmp_path / "result.json"),
            **{"options": {"threads": 1}, "max_drop": 0.01, "parent_pid": os.getpid(), **fields},
        )  # fmt: skip
        started.append(
            start_trial(request, tmp_path / "request.json", is_canceled=is_canceled, environ=environ,
                        memory_limit_mb=memory_limit_mb)
        )  # fmt: skip
        return started[-1]

    yield start_one
    for trial in started:
        trial.kill()


def laid_out(tmp_path: Path, behaviour: dict[str, Any] | None, damaged: bool) -> BundleFolder:
    archive = open_bundle(stub_bundle(tmp_path / "b.mindie", behaviour=behaviour, damaged=damaged))
    return lay_out(archive, tmp_path / "bundle")


def test_a_good_candidate_is_judged_and_gives_as_many_times_as_asked(start: Start) -> None:
    trial = start({"delay_us": 2000})
    result = trial.wait_ready(60)
    assert (result.phase, result.fault, result.provider) == (Phase.READY, Fault.NONE, "stub-cpu")
    assert result.accuracy is not None
    assert result.accuracy.value == 1.0
    assert result.typical_us > 2000
    reply = trial.run(7, 1, 60)
    assert len(reply.times_us) == 7
    assert min(reply.times_us) > 2000
    assert reply.peak_rss_mb > 5
    trial.close(5)
    assert not trial.is_alive


def test_a_batch_is_timed_by_the_sample(start: Start) -> None:
    trial = start({"delay_us": 8000}, options={"threads": 1, "batch": 4})
    assert 2000 < trial.wait_ready(60).typical_us < 8000
    assert 2000 < min(trial.run(5, 0, 60).times_us) < 8000


def test_wrong_answers_are_told_with_the_numbers(start: Start) -> None:
    result = start(damaged=True).wait_ready(60)
    assert (result.phase, result.fault) == (Phase.FAILED, Fault.WRONG)
    assert result.accuracy is not None
    assert "agreement" in result.reason


@pytest.mark.parametrize("moment", ["load", "run"])
@pytest.mark.parametrize("number", [signal.SIGILL, signal.SIGSEGV, signal.SIGABRT])
def test_death_by_signal_names_signal_and_moment_and_is_evidence(start: Start, moment: str, number: int) -> None:
    trial = start({"crash_at": moment, "signal": int(number)})
    with pytest.raises(TrialError, match=signal.Signals(number).name) as caught:
        trial.wait_ready(60)
    assert caught.value.is_evidence
    assert ("opening" if moment == "load" else "judging") in caught.value.reason


def test_a_crash_in_a_later_run_is_evidence_too(start: Start) -> None:
    trial = start({"crash_at": "run", "after_runs": 20})
    trial.wait_ready(60)
    with pytest.raises(TrialError, match=r"SIGILL.*while running"):
        trial.run(50, 0, 60)


@pytest.mark.parametrize("moment", ["load", "run"])
def test_a_hang_ends_with_the_timeout_and_is_evidence(start: Start, tmp_path: Path, moment: str) -> None:
    trial = start({"hang_at": moment})
    phase = "opening" if moment == "load" else "judging"
    wait_until(lambda: phase.encode() in read(tmp_path / "result.json"))
    with pytest.raises(TrialError, match=r"hung: no answer within 0\.3 s") as caught:
        trial.wait_ready(0.3)
    assert caught.value.is_evidence
    assert phase in caught.value.reason
    assert not trial.is_alive


def test_an_ordinary_refusal_is_told_apart_from_a_crash(start: Start) -> None:
    result = start({"error_at": "load"}).wait_ready(60)
    assert (result.phase, result.fault) == (Phase.FAILED, Fault.REFUSED)
    assert "told to fail at load" in result.reason


def test_a_run_that_fails_is_told_with_the_runtimes_reason(start: Start) -> None:
    trial = start({"error_at": "run", "after_runs": 20})
    trial.wait_ready(60)
    with pytest.raises(TrialError, match="told to fail at run"):
        trial.run(50, 0, 60)


def test_a_silent_fall_back_is_a_failure(start: Start) -> None:
    result = start({"fall_back_to": "slow-cpu"}, options={"threads": 1, "provider": "stub-cpu"}).wait_ready(60)
    assert result.fault is Fault.FELL_BACK
    assert "slow-cpu" in result.reason


def test_a_trial_that_takes_too_much_memory_is_ended_and_that_is_evidence(start: Start) -> None:
    trial = start({"leak_mb": 5, "delay_us": 5000, "after_runs": 20}, memory_limit_mb=250)
    trial.wait_ready(60)
    with pytest.raises(TrialError, match="250 MB are free for it") as caught:
        trial.run(1000, 0, 60)
    assert caught.value.is_evidence
    assert not trial.is_alive


def test_our_own_kill_is_no_evidence(start: Start) -> None:
    trial = start({"hang_at": "load"})
    os.kill(trial.pid, signal.SIGTERM)
    with pytest.raises(TrialError) as caught:
        trial.wait_ready(60)
    assert not caught.value.is_evidence


def test_a_kill_from_outside_without_lack_of_memory_is_no_evidence(start: Start) -> None:
    trial = start({"hang_at": "load"})
    os.kill(trial.pid, signal.SIGKILL)
    with pytest.raises(TrialError, match="killed from outside") as caught:
        trial.wait_ready(60)
    assert not caught.value.is_evidence


def test_a_canceled_trial_ends_at_once_and_is_no_evidence(start: Start) -> None:
    trial = start({"hang_at": "load"}, is_canceled=lambda: True)
    with pytest.raises(SelectionCanceled) as caught:
        trial.wait_ready(60)
    assert not caught.value.is_evidence
    assert not trial.is_alive


def test_the_end_of_its_input_ends_a_trial(start: Start) -> None:
    trial = start()
    trial.wait_ready(60)
    trial.close(10)
    assert trial.returncode == 0


def test_a_trial_is_the_kernels_first_victim_and_leaves_no_core(start: Start) -> None:
    trial = start()
    trial.wait_ready(60)
    assert Path(f"/proc/{trial.pid}/oom_score_adj").read_text().strip() == "1000"
    limits = Path(f"/proc/{trial.pid}/limits").read_text()
    assert limits.split("Max core file size")[1].split()[:2] == ["0", "0"]


def test_a_trial_runs_on_the_cpus_it_would_serve_on(start: Start) -> None:
    cpu = sorted(os.sched_getaffinity(0))[0]
    trial = start(affinity=[cpu])
    trial.wait_ready(60)
    assert os.sched_getaffinity(trial.pid) == {cpu}


def test_a_trial_whose_parent_is_another_process_refuses_to_run(start: Start) -> None:
    trial = start(parent_pid=1)
    with pytest.raises(TrialError):
        trial.wait_ready(60)


def test_a_trial_does_not_outlive_the_process_that_started_it(start: Start, tmp_path: Path) -> None:
    trial = start({"hang_at": "load"})  # writes a request that a stand-in for the daemon starts again
    trial.kill()
    script = (
        "import os, sys, time, msgspec; from pathlib import Path\n"
        "from agent.selection.trial_process import start_trial\n"
        "from agent.selection.trial_protocol import TrialRequest\n"
        "request = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=TrialRequest)\n"
        "request = msgspec.structs.replace(request, parent_pid=os.getpid())\n"
        "trial = start_trial(request, Path(sys.argv[2]), is_canceled=lambda: False)\n"
        "print(trial.pid, flush=True); time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "request.json"), str(tmp_path / "second.json")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=STUB_ENVIRON) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        wait_until(lambda: b"opening" in read(tmp_path / "result.json"))
        parent.kill()
    wait_until(lambda: resident_mb(orphan) is None)


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def test_without_its_variable_the_stub_is_an_unknown_backend(start: Start) -> None:
    environ = {key: value for key, value in os.environ.items() if key != "MINDEDGE_STUB_BACKEND"}
    result = start(environ=environ).wait_ready(60)
    assert result.fault is Fault.REFUSED
    assert "no known backend" in result.reason


def test_what_a_runtime_prints_does_not_reach_the_replies(start: Start, tmp_path: Path) -> None:
    trial = start({"print_at": "run"})
    assert trial.wait_ready(60).phase is Phase.READY
    assert len(trial.run(3, 0, 60).times_us) == 3
    assert "stub speaking" in (tmp_path / "request.log").read_text()


def test_the_resident_memory_of_a_process_that_is_gone_is_unknown(start: Start) -> None:
    trial = start()
    trial.kill()
    assert resident_mb(trial.pid) is None

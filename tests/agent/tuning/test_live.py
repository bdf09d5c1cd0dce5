"""Tuning of a real server, with real trial processes beside it; only the machine's files are recorded ones."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.clock import SystemClock
from agent.errors import LoadFailed
from agent.hardware.sysfs import recorded_machine
from agent.live_tuning import LiveTuning, TuningGround
from agent.tuned_server import TunedServer, pin_threads
from agent.tuning.controller_state import Pacing
from agent.tuning.seams import TuningEvent
from agent.update.ledger import Ledger
from edge_contracts.capabilities import Capabilities, CpuFacts, RuntimeFact
from tests.agent.serving.running import (
    Load,
    Running,
    infer_json,
    running,
    sample_rows,
    served,
    stub_folder,
    wait_for,
)

CPUS = frozenset(sorted(os.sched_getaffinity(0))[:2])
FACTS = Capabilities(
    cpu=CpuFacts(budget_cpus=2.0), runtimes=[RuntimeFact(name="stub", version="1.0", targets=["cpu"], status="usable")]
)
QUICK = Pacing(interval_s=0.3, floor_s=1.0, watch_max_s=6.0, min_requests=15)
HOME = {"threads": 2, "provider": "stub-cpu"}


@pytest.fixture(autouse=True)
def _stub_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDEDGE_STUB_BACKEND", "1")


@contextmanager
def somebody_always_waits(root: Path) -> Iterator[None]:
    """A recorded machine on which some task waits for a CPU all the time."""
    file = root / "proc/pressure/cpu"
    file.parent.mkdir(parents=True)
    stop = threading.Event()

    def count() -> None:
        while not stop.wait(0.02):
            temporary = file.with_name("next")
            temporary.write_text(f"some avg10=99.00 avg60=99.00 avg300=99.00 total={int(time.monotonic() * 1e6)}\n")
            temporary.replace(file)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_a_busy_machine_makes_a_served_model_give_threads_back_without_losing_a_request(tmp_path: Path) -> None:
    folder = stub_folder(tmp_path, behaviour={"delay_us_of": {"threads=2": 9000, "threads=1": 2000}})
    events: list[TuningEvent] = []
    ground_root = tmp_path / "root"
    with somebody_always_waits(ground_root), running() as server:
        ground = TuningGround(
            data_dir=tmp_path / "data", clock=SystemClock(), capabilities=lambda: FACTS, affinity=CPUS, reserve_mb=16,
            pacing=QUICK, machine=recorded_machine(ground_root),
        )  # fmt: skip
        tuning = LiveTuning(ground, server.process)
        ledger = Ledger(server.process.drain_stats, tuning.on_latency)
        tuning.server.load(served(folder, options=HOME))
        with Load(server.port, clients=1) as load:
            tuning.start(ledger.collect, lambda: False, events.append)
            wait_for(lambda: events)
            load.more(20)
            facts = tuning.facts()
            tuning.stop()
        assert load.wrong == []
    assert events[0].kind == "tuning.changed"
    assert events[0].text.startswith("threads 2 -> 1")
    assert events[0].text.endswith("; kept")
    assert [(model["threads"], model["home_threads"]) for model in facts["models"]] == [(1, 2)]


def test_an_update_that_came_in_between_is_not_undone(tmp_path: Path) -> None:
    old, new = stub_folder(tmp_path), stub_folder(tmp_path, "2.0.0")
    with running() as server:
        tuning = TunedServer(server.process, CPUS)
        tuning.load(served(old, options=HOME))
        model = tuning.models()[0]
        tuning.load(served(new, options=HOME))
        with pytest.raises(LoadFailed, match="another bundle serves by now"):
            tuning.apply(model.name, model.digest, model.home.but(threads=1))
        assert server.process.snapshot().models[0].version == "2.0.0"


def test_a_tuning_that_the_runtime_refuses_leaves_what_served(tmp_path: Path) -> None:
    folder = stub_folder(tmp_path)
    with running() as server:
        tuning = TunedServer(server.process, CPUS)
        tuning.load(served(folder, options=HOME))
        model = tuning.models()[0]
        with pytest.raises(LoadFailed):
            tuning.apply(model.name, model.digest, model.home.but(threads=0))
        assert tuning.models()[0].current == model.home
        assert server.request("POST", "/v2/models/affine/infer", infer_json(sample_rows(1)))[0] == 200


def test_the_batch_window_changes_while_requests_come_and_goes_back_to_none(tmp_path: Path) -> None:
    def executions(server: Running) -> tuple[int, int]:
        entry = json.loads(server.request("GET", "/v2/models/affine/stats")[2])["model_stats"][0]
        return entry["inference_count"], entry["execution_count"]

    folder = stub_folder(tmp_path, behaviour={"delay_us": 4000})
    with running() as server:
        tuning = TunedServer(server.process, CPUS)
        tuning.load(served(folder, options=HOME))
        (model,) = tuning.models()
        assert (model.home.batch_window_ms, model.max_window_ms > 0) == (None, True)
        with Load(server.port, clients=8) as load:
            load.more(40)
            alone = executions(server)
            tuning.apply(model.name, model.digest, model.home.but(batch_window_ms=4.0))
            load.more(80)
            together = executions(server)
            tuning.apply(model.name, model.digest, model.home)
            load.more(40)
        assert load.wrong == []
    assert alone[0] == alone[1]
    assert together[1] - alone[1] < (together[0] - alone[0]) / 1.5


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_an_engine_is_kept_on_its_cpus_also_after_it_was_restarted(tmp_path: Path) -> None:
    one = frozenset({min(CPUS)})
    with running() as server:
        tuning = TunedServer(server.process, CPUS)
        tuning.load(served(stub_folder(tmp_path), options=HOME))
        model = tuning.models()[0]
        tuning.apply(model.name, model.digest, model.home.but(cpus=one))
        first = server.engine_pid()
        assert os.sched_getaffinity(first) == one
        os.kill(first, 9)
        second = wait_for(lambda: next((p for p in server.process.snapshot().engine_pids if p != first), None))
        wait_for(lambda: tuning.models() and os.sched_getaffinity(second) == one)
        tuning.apply(model.name, model.digest, model.home)
        assert os.sched_getaffinity(second) == CPUS


def test_a_second_model_frees_the_engine_of_its_cpus(tmp_path: Path) -> None:
    pinned: list[frozenset[int]] = []
    with running() as server:
        tuning = TunedServer(server.process, {0, 1}, lambda _pid, cpus: pinned.append(cpus))
        folder = stub_folder(tmp_path)
        tuning.load(served(folder, options=HOME))
        model = tuning.models()[0]
        tuning.apply(model.name, model.digest, model.home.but(cpus=frozenset({1})))
        tuning.load(served(folder, name="other", options=HOME))
    assert pinned == [frozenset({1}), frozenset({0, 1})]
    assert {model.current.cpus for model in tuning.models()} == {None}


def test_pinning_a_process_that_is_gone_is_no_matter() -> None:
    pin_threads(2**22 + 1, frozenset({0}))

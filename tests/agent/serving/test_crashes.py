"""Engines and servers that die, hang, are replaced: no request is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent.errors import LoadFailed
from agent.serving.control import EngineEvent, ServingOptions
from agent.serving.process import Bind, ServerProcess
from tests.agent.serving.running import (
    WARM_UP_RUNS,
    Load,
    Running,
    close_to,
    expected,
    process_exists,
    running,
    sample_rows,
    served,
    stub_folder,
    wait_for,
)
from tests.simulators.bundle_factory import onnx_bundle

HANG_S = 6.0
"""Long enough for a good model to be opened on a busy machine."""


def test_killing_the_engine_under_load_loses_no_request(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 1000})))
        with Load(server.port) as load:
            for _ in range(3):
                os.kill(server.engine_pid(), signal.SIGKILL)
                load.more()
        assert load.wrong == []
        assert server.wait_for_event("engine.restarted")
        crash = server.wait_for_event("engine.crashed")
        assert "SIGKILL" in str(crash.reason)
        assert server.process.snapshot().engine_restarts == 3


@pytest.mark.parametrize("number", [signal.SIGILL, signal.SIGSEGV, signal.SIGABRT])
def test_a_request_that_kills_the_engine_twice_gets_500_and_the_others_their_answers(
    folder: Path, number: signal.Signals
) -> None:
    # the delay keeps the worker's thread from answering before the signal, which the stub sends to the whole process
    behaviour = {"crash_at": "run", "signal": int(number), "after_runs": WARM_UP_RUNS, "delay_us": 20_000}
    deadly = stub_folder(folder, "6.6.6", behaviour=behaviour)
    with running() as server:
        server.process.load(served(deadly, name="deadly"))
        server.process.load(served(stub_folder(folder)))
        with Load(server.port, clients=2) as load:
            status, answer = server.infer(sample_rows(1), model="deadly")
            load.more()
        assert status == 500
        assert number.name in answer["error"]
        assert "2 times" in answer["error"]
        assert load.wrong == []
        assert server.wait_for_event("request.refused").model == "deadly"
        crashes = [event for event in server.events if event.kind == "engine.crashed"]
        assert [event.crashes for event in crashes if event.model == "deadly"] == [1, 2]
        states = {model.name: model for model in server.process.snapshot().models}
        assert states["deadly"].crashes == 2
        assert states["affine"].crashes == 0


def test_an_engine_that_hangs_is_killed_and_the_other_model_goes_on(folder: Path) -> None:
    hanging = stub_folder(folder, "6.6.6", behaviour={"hang_at": "run", "after_runs": WARM_UP_RUNS})
    with running(ServingOptions(hang_timeout_s=0.5)) as server:
        server.process.load(served(hanging, name="hanging"))
        server.process.load(served(stub_folder(folder)))
        with Load(server.port, clients=2) as load:
            status, answer = server.infer(sample_rows(1), model="hanging")
            load.more()
        assert status == 500
        assert "hung" in answer["error"]
        assert load.wrong == []


def test_a_stopped_engine_counts_as_hanging(folder: Path) -> None:
    with running(ServingOptions(hang_timeout_s=0.5)) as server:
        server.process.load(served(stub_folder(folder)))
        os.kill(server.engine_pid(), signal.SIGSTOP)
        assert server.infer(sample_rows(1))[0] == 200


@pytest.mark.parametrize(
    "behaviour",
    [{"crash_at": "load", "signal": 11}, {"error_at": "load"}, {"crash_at": "run"}, {"error_at": "run"},
     {"fall_back_to": "elsewhere"}, {"hang_at": "load"}],
)  # fmt: skip
def test_a_model_that_cannot_be_loaded_leaves_the_old_one_serving(folder: Path, behaviour: dict[str, Any]) -> None:
    bad = stub_folder(folder, "2.0.0", behaviour=behaviour)
    limit_s = HANG_S if "hang_at" in behaviour else 60.0
    with running(ServingOptions(load_timeout_s=limit_s)) as server:
        server.process.load(served(stub_folder(folder)))
        with Load(server.port, clients=2) as load:
            with pytest.raises(LoadFailed) as caught:
                server.process.load(served(bad, options={"provider": "stub-cpu"}))
            load.more()
        assert "affine" in str(caught.value)
        if "crash_at" in behaviour:
            assert server.wait_for_event("engine.crashed").version == "2.0.0"
        assert "\n" not in str(caught.value)
        assert load.wrong == []
        assert load.versions == {"1.0.0"}


def test_a_folder_that_is_no_bundle_and_a_variant_that_is_not_there_are_refused(folder: Path) -> None:
    with running() as server:
        model = served(stub_folder(folder))
        for wrong in ({"folder": str(folder / "nope")}, {"variant": "nope"}):
            with pytest.raises(LoadFailed) as caught:
                server.process.load(type(model)(**{**{f: getattr(model, f) for f in model.__struct_fields__}, **wrong}))
            assert "nope" in str(caught.value)
        server.process.load(model)
        assert server.infer(sample_rows(1))[0] == 200


def test_a_swap_under_load_loses_no_request_and_frees_the_old_model(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 2000})))
        with Load(server.port) as load:
            for version in ("1.1.0", "1.2.0", "1.3.0"):
                server.process.load(served(stub_folder(folder, version, behaviour={"delay_us": 2000})))
                load.more()
        assert load.wrong == []
        assert load.versions == {"1.0.0", "1.1.0", "1.2.0", "1.3.0"}
        assert server.request("GET", "/v2/models/affine/versions/1.0.0")[0] == 404
        pid = server.engine_pid()
        threads = Path(f"/proc/{pid}/task")
        wait_for(lambda: len([t for t in threads.iterdir() if "session" in (t / "comm").read_text()]) <= 1)
        assert server.events == []


def test_versions_serve_beside_each_other_also_after_a_crash_of_the_server(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder)))
        server.process.load(served(stub_folder(folder, "2.0.0"), beside=True))

        def versions() -> list[str]:
            paths = ["", "/versions/1.0.0", "/versions/2.0.0"]
            answers = [server.request("GET", f"/v2/models/affine{path}/config") for path in paths]
            assert [status for status, _, _ in answers] == [200] * 3
            return list(json.loads(server.request("GET", "/v2/models/affine")[2])["versions"])

        assert versions() == ["1.0.0", "2.0.0"]
        os.kill(server.process.snapshot().pid, signal.SIGKILL)
        server.wait_for_event("server.restarted")
        assert versions() == ["1.0.0", "2.0.0"]
        assert server.infer(sample_rows(1))[1]["model_version"] == "2.0.0"
        server.process.unload("affine", "2.0.0")
        assert server.infer(sample_rows(1))[1]["model_version"] == "1.0.0"
        server.process.load(served(stub_folder(folder, "3.0.0")))
        assert json.loads(server.request("GET", "/v2/models/affine")[2])["versions"] == ["3.0.0"]


def test_unloading_answers_what_is_in_flight_and_ends_the_idle_engine(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 100_000})))
        results: list[int] = []
        client = threading.Thread(target=lambda: results.append(server.infer(sample_rows(1))[0]))
        client.start()
        wait_for(lambda: server.process.snapshot().models[0].in_flight)
        pid = server.engine_pid()
        server.process.unload("affine")
        client.join()
        assert results == [200]
        assert server.infer(sample_rows(1))[0] == 404
        wait_for(lambda: not process_exists(pid))
        server.process.load(served(stub_folder(folder, "2.0.0")))
        assert server.infer(sample_rows(1))[0] == 200
        assert server.events == []


def test_a_killed_server_comes_back_on_its_port_with_its_models(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder)))
        state = server.process.snapshot()
        os.kill(state.pid, signal.SIGKILL)
        assert server.wait_for_event("server.restarted")
        assert server.infer(sample_rows(1))[0] == 200
        assert server.process.snapshot().pid != state.pid
        assert "SIGKILL" in server.wait_for_event("server.crashed").text
        wait_for(lambda: not any(process_exists(pid) for pid in state.engine_pids))


def test_stopping_answers_what_is_in_flight(folder: Path) -> None:
    results: list[tuple[int, Any]] = []
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 100_000})))
        clients = [threading.Thread(target=lambda: results.append(server.infer(sample_rows(1)))) for _ in range(4)]
        for client in clients:
            client.start()
        wait_for(lambda: server.process.snapshot().models[0].in_flight == 4)
        state = server.process.snapshot()
        server.process.stop(5.0)
        for client in clients:
            client.join()
    assert [status for status, _ in results] == [200] * 4
    assert all(close_to(answer["outputs"][0]["data"], expected(sample_rows(1))) for _, answer in results)
    assert not any(process_exists(pid) for pid in [state.pid, *state.engine_pids])


def test_stopping_waits_no_longer_than_it_is_told(folder: Path) -> None:
    with running() as server:
        server.process.load(served(stub_folder(folder, behaviour={"hang_at": "run", "after_runs": WARM_UP_RUNS})))
        client = threading.Thread(target=_ask_and_expect_nothing, args=(server,))
        client.start()
        wait_for(lambda: server.process.snapshot().models[0].in_flight)
        state, started = server.process.snapshot(), time.monotonic()
        server.process.stop(0.3)
        assert time.monotonic() - started < 30
        client.join()
        wait_for(lambda: not any(process_exists(pid) for pid in [state.pid, *state.engine_pids]))


def _ask_and_expect_nothing(server: Running) -> None:
    with pytest.raises(OSError):
        server.infer(sample_rows(1))


def test_nothing_outlives_a_killed_daemon(folder: Path) -> None:
    model = served(stub_folder(folder))
    code = f"""
        import time
        from agent.serving.control import ServedModel
        from agent.serving.process import Bind, ServerProcess
        process = ServerProcess()
        process.start(Bind(port=0))
        process.load(ServedModel(name="affine", version="1.0.0", digest="d", folder={model.folder!r},
                                 variant={model.variant!r}))
        state = process.snapshot()
        print(state.pid, *state.engine_pids, flush=True)
        time.sleep(60)
    """
    daemon = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    assert daemon.stdout is not None
    pids = [int(pid) for pid in daemon.stdout.readline().split()]
    assert len(pids) == 2
    daemon.kill()
    daemon.wait()
    daemon.stdout.close()
    wait_for(lambda: not any(process_exists(pid) for pid in pids))


def test_an_event_may_be_answered_by_a_call(folder: Path) -> None:
    good = served(stub_folder(folder))
    seen: list[str] = []

    def on_event(event: EngineEvent) -> None:
        process.load(good)
        seen.append(event.kind)

    process = ServerProcess(on_event=on_event)
    process.start(Bind(port=0))
    try:
        process.load(good)
        os.kill(process.snapshot().engine_pids[0], signal.SIGKILL)
        wait_for(lambda: len(seen) >= 1)
    finally:
        process.stop(1.0)


def test_a_model_whose_files_are_gone_when_the_engine_restarts_is_reported_and_refused(folder: Path) -> None:
    bundle = stub_folder(folder)
    with running() as server:
        server.process.load(served(bundle))
        (bundle.variant_folder(bundle.bundle.variants[0].name) / "model.json").unlink()
        os.kill(server.engine_pid(), signal.SIGKILL)
        assert server.wait_for_event("model.failed").model == "affine"
        status, answer = server.infer(sample_rows(1))
        assert status == 503
        assert "not ready" in answer["error"]
        assert server.request("GET", "/v2/health/ready")[0] == 503
        assert server.request("GET", "/v2/health/live")[0] == 200


def test_a_real_runtime_is_restarted_as_well(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    from agent.inference.bundle_folder import lay_out
    from edge_contracts.archive import open_bundle

    model = lay_out(open_bundle(onnx_bundle(folder / "m.mindie")), folder / "m")
    with running() as server:
        loaded = server.process.load(served(model, options={"threads": 1}))
        assert loaded.provider == "CPUExecutionProvider"
        os.kill(server.engine_pid(), signal.SIGKILL)
        status, answer = server.infer(sample_rows(1))
        assert status == 200
        assert close_to(answer["outputs"][0]["data"], expected(sample_rows(1)))


def test_the_daemons_side_imports_neither_asyncio_nor_numpy() -> None:
    code = "import sys, agent.serving.process; print([m for m in ('asyncio', 'numpy', 'ssl') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_server_stays_small_and_free_of_numpy(affine: Running) -> None:
    state = affine.process.snapshot()
    assert "numpy" not in Path(f"/proc/{state.pid}/maps").read_text()
    assert state.rss_mb < 50


def test_a_server_can_be_bound_to_one_cpu(folder: Path) -> None:
    process = ServerProcess()
    cpu = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    process.start(Bind(port=0), affinity=frozenset({cpu}))
    try:
        process.load(served(stub_folder(folder)))
        state = process.snapshot()
        assert all(os.sched_getaffinity(pid) == {cpu} for pid in [state.pid, *state.engine_pids])
        assert os.sched_getaffinity(0) == before
    finally:
        process.stop(1.0)

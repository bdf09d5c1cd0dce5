"""A model that is being loaded is not ready; a client that heard "unknown" would believe that it is gone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from agent.serving.control import ServingOptions
from agent.serving.process import Bind, ServerProcess
from tests.agent.serving.running import Running, sample_rows, served, stub_folder

DEADLINE_S = 60.0


def test_a_model_that_will_be_loaded_is_not_unknown(tmp_path: Path) -> None:
    process = ServerProcess(ServingOptions())
    server = Running(process, process.start(Bind("127.0.0.1", 0), expected=["affine"]))
    try:
        status, headers, body = server.request("GET", "/v2/models/affine")
        assert (status, headers["retry-after"]) == (503, "1")
        assert b"is being loaded" in body
        assert server.infer(sample_rows(1))[0] == 503
        assert server.request("GET", "/v2/models/other")[0] == 404
        process.load(served(stub_folder(tmp_path)))
        assert server.infer(sample_rows(1))[0] == 200
        process.unload("affine")
        assert server.infer(sample_rows(1))[0] == 404
    finally:
        process.stop(0.0)


def test_while_a_killed_server_comes_back_its_models_are_never_unknown(tmp_path: Path) -> None:
    process = ServerProcess(ServingOptions())
    server = Running(process, process.start(Bind("127.0.0.1", 0)))
    try:
        process.load(served(stub_folder(tmp_path, behaviour={"delay_us": 50_000})))
        os.kill(process.snapshot().pid, signal.SIGKILL)
        seen = set()
        deadline = time.monotonic() + DEADLINE_S
        while 200 not in seen and time.monotonic() < deadline:
            try:
                seen.add(server.infer(sample_rows(1))[0])
            except OSError:
                continue  # the connection that the dead server had
        assert 200 in seen
        assert seen <= {200, 503}
    finally:
        process.stop(0.0)

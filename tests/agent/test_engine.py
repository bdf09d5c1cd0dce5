"""The engine process by its wire contract, without a server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent.serving import engine_wire
from agent.serving.arena import create_memory
from agent.serving.engine_wire import Answer, Open, Opened, OpenFailed, Part, Run
from agent.serving.framing import BlockingFrames, frame
from tests.agent.serving.running import stub_folder

MEMORY_BYTES = 1 << 20


class Engine:
    """A started engine and our ends of its sockets."""

    def __init__(self) -> None:
        self.control, its_control = socket.socketpair()
        self.handover, its_handover = socket.socketpair()
        requests = create_memory("requests", MEMORY_BYTES)
        descriptors = (its_control.fileno(), its_handover.fileno(), requests)
        command = [
            sys.executable,
            "-m",
            "agent.engine",
            "--request-bytes",
            str(MEMORY_BYTES),
            "--parent",
            str(os.getpid()),
        ]
        for name, descriptor in zip(("control", "handover", "requests"), descriptors, strict=True):
            command += [f"--{name}", str(descriptor)]
        environ = {**os.environ, "MINDEDGE_STUB_BACKEND": "1"}
        self.process = subprocess.Popen(command, pass_fds=descriptors, env=environ)
        for its_end in (its_control, its_handover):
            its_end.close()
        os.close(requests)
        self.control.settimeout(20)
        self._frames = BlockingFrames(self.control)

    def open(self, session: int, folder: Path, variant: str) -> tuple[Opened | OpenFailed, socket.socket]:
        data, its_data = socket.socketpair()
        data.settimeout(20)
        answers = create_memory("answers", MEMORY_BYTES)
        socket.send_fds(self.handover, [b"+"], [its_data.fileno(), answers])
        its_data.close()
        os.close(answers)
        order = Open(session, str(folder), variant, {"threads": 1}, MEMORY_BYTES, [1, 2, 4])
        self.control.sendall(frame(msgspec.msgpack.encode(order)))
        found = self._frames.next()
        assert found is not None
        reply: Opened | OpenFailed = msgspec.msgpack.decode(bytes(found), type=engine_wire.FromEngineControl)
        return reply, data

    def close(self) -> None:
        self.control.close()
        self.handover.close()
        self.process.wait(60)


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = Engine()
    yield started
    started.close()


def test_models_are_opened_warm_and_answer_on_sockets_of_their_own(engine: Engine, tmp_path: Path) -> None:
    bundle = stub_folder(tmp_path)
    sockets = []
    for session in (1, 2):
        reply, data = engine.open(session, bundle.folder, bundle.bundle.variants[0].name)
        assert isinstance(reply, Opened)
        assert (reply.session, reply.provider) == (session, "stub-cpu")
        assert reply.warm_ms > 0
        sockets.append(data)
    for number, data in enumerate(sockets):
        data.sendall(frame(msgspec.msgpack.encode(Run(number, [Part(0, (1, 8), memoryview(bytes(32)))], [0]))))
        found = BlockingFrames(data).next()
        assert found is not None
        answer = msgspec.msgpack.decode(bytes(found), type=engine_wire.FromEngineData)
        assert isinstance(answer, Answer)
        assert answer.number == number
        assert answer.outputs[0].shape == (1, 4)
        data.close()


@pytest.mark.parametrize("wrong", ["folder", "variant", "options"])
def test_a_model_that_cannot_be_opened_is_refused_in_one_line_and_the_engine_lives(
    engine: Engine, tmp_path: Path, wrong: str
) -> None:
    behaviour = {"error_at": "load"} if wrong == "options" else {}
    bundle = stub_folder(tmp_path, behaviour=behaviour)
    folder = tmp_path / "nope" if wrong == "folder" else bundle.folder
    reply, data = engine.open(1, folder, "nope" if wrong == "variant" else bundle.bundle.variants[0].name)
    assert isinstance(reply, OpenFailed)
    assert "\n" not in reply.reason
    assert data.recv(1) == b""
    data.close()
    (tmp_path / "good").mkdir()
    good = stub_folder(tmp_path / "good")
    reply, data = engine.open(2, good.folder, good.bundle.variants[0].name)
    assert isinstance(reply, Opened)
    data.close()


def test_an_interrupt_from_the_terminal_is_the_servers_business(engine: Engine, tmp_path: Path) -> None:
    bundle = stub_folder(tmp_path)
    reply, data = engine.open(1, bundle.folder, bundle.bundle.variants[0].name)
    assert isinstance(reply, Opened)
    engine.process.send_signal(signal.SIGINT)
    engine.process.send_signal(signal.SIGTERM)
    reply, other = engine.open(2, bundle.folder, bundle.bundle.variants[0].name)
    assert isinstance(reply, Opened)
    data.close()
    other.close()


def test_it_ends_when_the_control_socket_closes(engine: Engine) -> None:
    engine.control.close()
    assert engine.process.wait(60) == 0


def test_it_ends_at_once_when_its_parent_is_gone_already() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        descriptors = (theirs.fileno(),) * 3
        command = [sys.executable, "-m", "agent.engine", "--request-bytes", "4096", "--parent", "1"]
        for name, descriptor in zip(("control", "handover", "requests"), descriptors, strict=True):
            command += [f"--{name}", str(descriptor)]
        assert subprocess.run(command, pass_fds=descriptors[:1], timeout=60, check=False).returncode == 1

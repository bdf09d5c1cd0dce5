"""A real server with a real engine for tests, the stub backend in it, and clients that count what they got."""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.inference.bundle_folder import BundleFolder, lay_out
from agent.serving.control import EngineEvent, ServedModel, ServingOptions
from agent.serving.process import Bind, ServerProcess
from edge_contracts.archive import open_bundle
from tests.simulators.bundle_factory import Affine, seeded_affine, stub_bundle

DEADLINE_S = 60.0
"""For whatever surely comes: only a machine that is very busy takes so long."""
WARM_UP_RUNS = 6
"""Runs of a new session before the first request: warm_up's three and the engine's three timed ones."""


def stub_folder(folder: Path, version: str = "1.0.0", **bundle: Any) -> BundleFolder:
    """A laid-out bundle of the stub backend."""
    archive = stub_bundle(folder / f"{version}.mindie", version=version, **bundle)
    return lay_out(open_bundle(archive), folder / version)


def served(folder: BundleFolder, name: str | None = None, **more: Any) -> ServedModel:
    """The first variant of a laid-out bundle."""
    spec = folder.bundle.spec
    return ServedModel(
        name=name or spec.name, version=spec.version, digest=folder.bundle.digest, folder=str(folder.folder),
        variant=folder.bundle.variants[0].name, **more,
    )  # fmt: skip


@dataclass
class Running:
    """A started server. ``events`` grows as they come."""

    process: ServerProcess
    port: int
    events: list[EngineEvent] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """One request on a connection of its own: status, headers (lower case), body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def infer(self, rows: list[list[float]], model: str = "affine") -> tuple[int, Any]:
        """Status and JSON of a JSON inference request."""
        status, _, body = self.request("POST", f"/v2/models/{model}/infer", infer_json(rows))
        return status, json.loads(body)

    def raw(
        self, data: bytes, *, timeout_s: float = 10.0, then: Callable[[socket.socket], None] | None = None
    ) -> bytes:
        """Send bytes, read until the server closes or is silent for a second."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as connection:
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(data)
            if then is not None:
                then(connection)
            return read_all(connection)

    def wait_for_event(self, kind: str, *, within_s: float = DEADLINE_S) -> EngineEvent:
        """The first event of that kind."""
        found: EngineEvent = wait_for(lambda: next((e for e in self.events if e.kind == kind), None), within_s)
        return found

    def engine_pid(self) -> int:
        """Of the one engine; waits while it is being restarted."""
        found: int = wait_for(lambda: next(iter(self.process.snapshot().engine_pids), None))
        return found


def wait_for(what: Callable[[], Any], within_s: float = DEADLINE_S) -> Any:
    """Poll until it gives something; fails when time is up."""
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        if found := what():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {within_s} s")


def read_all(connection: socket.socket) -> bytes:
    """Until the other side closes, or has said something and then nothing more for a second."""
    received = bytearray()
    connection.settimeout(DEADLINE_S)
    try:
        while chunk := connection.recv(1 << 16):
            received += chunk
            connection.settimeout(1.0)
    except (TimeoutError, ConnectionResetError):
        pass
    return bytes(received)


@contextmanager
def running(options: ServingOptions | None = None, **bind: Any) -> Iterator[Running]:
    """A server on a free port with nothing loaded; stopped at the end."""
    events: list[EngineEvent] = []
    process = ServerProcess(options, on_event=events.append)
    port = process.start(Bind(**{"port": 0, **bind}))
    try:
        yield Running(process, port, events)
    finally:
        process.stop(1.0)


def infer_json(rows: list[list[float]]) -> bytes:
    """The body of a JSON request to the affine model."""
    data = [value for row in rows for value in row]
    entry = {"name": "x", "shape": [len(rows), 8], "datatype": "FP32", "data": data}
    return json.dumps({"inputs": [entry]}).encode()


def http_post(body: bytes, *, path: str = "/v2/models/affine/infer", headers: str = "") -> bytes:
    """A request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def expected(rows: list[list[float]], model: Affine | None = None) -> list[float]:
    """What the affine model answers, flat."""
    affine = model or seeded_affine()
    return [value for row in rows for value in affine.answer(row)]


def close_to(got: list[float], want: list[float]) -> bool:
    """Equal as far as float32 goes."""
    return len(got) == len(want) and all(abs(a - b) < 1e-4 for a, b in zip(got, want, strict=True))


def sample_rows(seed: int, rows: int = 1) -> list[list[float]]:
    """Distinct small rows."""
    return [[struct.unpack("<f", struct.pack("<f", ((seed * 31 + r * 7 + c) % 97) / 97))[0] for c in range(8)]
            for r in range(rows)]  # fmt: skip


class Load:
    """Clients that send until told to stop, each on one kept connection, and check every answer."""

    def __init__(self, port: int, clients: int = 4, accept: Callable[[int, Any], bool] | None = None) -> None:
        self._port = port
        self._accept = accept or (lambda status, answer: status == 200)
        self._stop = threading.Event()
        self.answered = 0
        self.wrong: list[str] = []
        self.versions: set[str] = set()
        self._threads = [threading.Thread(target=self._client, args=(number,)) for number in range(clients)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        wait_for(lambda: self.answered > 0)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int = 20) -> None:
        """Wait until that many further requests are answered."""
        target = self.answered + count
        wait_for(lambda: self.answered >= target or self.wrong)

    def _client(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S)
        sent = 0
        while not self._stop.is_set():
            rows = sample_rows(number * 1000 + sent)
            sent += 1
            try:
                connection.request("POST", "/v2/models/affine/infer", infer_json(rows))
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(repr(error))
                return
            right = response.status == 200 and close_to(answer["outputs"][0]["data"], expected(rows))
            if response.status == 200:
                self.versions.add(answer["model_version"])
            if not right and not (response.status != 200 and self._accept(response.status, answer)):
                self.wrong.append(f"{response.status} {answer}")
            self.answered += 1
        connection.close()


def process_exists(pid: int) -> bool:
    """Whether that process lives (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def rss_mb(pid: int) -> float:
    """Resident memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6

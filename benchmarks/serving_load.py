"""Closed-loop HTTP load: ``python serving_load.py PORT CONNECTIONS SECONDS CPU REQUEST_FILE`` prints one JSON line.

Each connection sends the same bytes again as soon as its answer is in. A bare asyncio protocol, so that the client
costs less than what it measures; any status but 200 ends it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any


class Connection(asyncio.Protocol):
    def __init__(self, request: bytes, ends_s: float, latencies_s: list[float], done: asyncio.Future[None]) -> None:
        self._request = request
        self._ends_s = ends_s
        self._latencies_s = latencies_s
        self.done = done
        self._received = bytearray()
        self._needed: int | None = None
        self._sent_s = 0.0
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._received.clear()
        self._needed = None
        self._sent_s = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._needed is None:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._received[:end]).lower()
            if not head.startswith(b"http/1.1 200"):
                sys.exit(f"not 200: {bytes(self._received[:300])!r}")
            self._needed = end + 4 + int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        if len(self._received) < self._needed:
            return
        now_s = time.perf_counter()
        self._latencies_s.append(now_s - self._sent_s)
        if now_s < self._ends_s:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.done.set_result(None)


async def load(port: int, connections: int, seconds: float, request: bytes) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    latencies_s: list[float] = []
    started_s = time.perf_counter()
    futures = []
    for _ in range(connections):
        done: asyncio.Future[None] = loop.create_future()
        futures.append(done)
        ends_s = started_s + seconds
        await loop.create_connection(
            lambda done=done, ends_s=ends_s: Connection(request, ends_s, latencies_s, done),
            "127.0.0.1",
            port,  # type: ignore[misc]
        )
    await asyncio.gather(*futures)
    took_s = time.perf_counter() - started_s
    latencies_s.sort()
    at = {name: latencies_s[int(len(latencies_s) * fraction)] * 1e6 for name, fraction in
          (("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99))}  # fmt: skip
    return {"requests": len(latencies_s), "requests_per_s": len(latencies_s) / took_s, **at}


def main() -> None:
    port, connections, seconds, cpu, path = sys.argv[1:]
    os.sched_setaffinity(0, {int(cpu)})
    import uvloop

    uvloop.install()
    print(json.dumps(asyncio.run(load(int(port), int(connections), float(seconds), Path(path).read_bytes()))))


if __name__ == "__main__":
    main()

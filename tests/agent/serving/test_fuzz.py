"""A fixed budget of hostile input against a live server: it answers or closes, lives, and does not grow."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from edge_contracts.inference_wire import Tensor, encode_request
from tests.agent.serving.running import Running, http_post, infer_json, rss_mb, sample_rows

BUDGET = 400
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) [^\r]*\r\n(?:[^\r]+\r\n)*\r\n")
SEEDS = [
    *(
        path.read_bytes()
        for path in sorted((Path(__file__).parent / "field_inputs").iterdir())
        if path.suffix in (".bin", ".json")
    ),
    infer_json(sample_rows(1, 3)),
    encode_request([Tensor("x", "FP32", (2, 8), bytes(64))])[0],
    b'{"inputs":[{"name":"x","shape":[1,8],"datatype":"FP32","data":[' + b"9" * 5000 + b"]}]}",
    b'{"inputs":' + b"[" * 60_000,
    b'{"parameters":' + b'{"a":' * 60_000,
]
SCRAPS = [
    b"\0",
    b"\xff",
    b'"',
    b"[",
    b"]",
    b"{",
    b"}",
    b"1e999",
    b"-",
    b"null",
    b"NaN",
    b"18446744073709551616",
    b"\\ud800",
    b",",
]
LENGTHS = ["", "0", "-1", "1", "abc", "104", "99999999999999999999", "5", "\x01"]


def mutated(rng: random.Random) -> bytes:
    body = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randint(0, 6)):
        at = rng.randint(0, len(body))
        kind = rng.randint(0, 3)
        if kind == 0:
            body[at:at] = rng.choice(SCRAPS)
        elif kind == 1:
            del body[at : at + rng.randint(1, 40)]
        elif kind == 2 and at < len(body):
            body[at] = rng.randint(0, 255)
        else:
            body[at:at] = body[: rng.randint(0, 60)]
    return bytes(body)


def test_hostile_bodies_get_4xx_or_an_answer_and_the_server_does_not_grow(affine: Running) -> None:
    rng = random.Random(20261130)
    state = affine.process.snapshot()
    seen: set[int] = set()
    before_mb = 0.0
    for step in range(BUDGET):
        body = mutated(rng)
        length = rng.choice(LENGTHS)
        headers = f"Inference-Header-Content-Length: {length}\r\n" if length else ""
        if rng.random() < 0.1:
            headers += f"Content-Encoding: {rng.choice(['gzip', 'deflate', 'br'])}\r\n"
        answer = affine.raw(http_post(body, headers=headers + "Connection: close\r\n"))
        found = STATUS.match(answer)
        assert found is not None, (body[:200], headers, answer[:200])
        status = int(found.group(1))
        seen.add(status)
        assert status == 200 or (400 <= status < 500 and json.loads(answer[found.end() :])["error"])
        if step == BUDGET // 4:
            before_mb = rss_mb(state.pid)
    assert {200, 400} <= seen
    after = affine.process.snapshot()
    assert (after.pid, after.engine_pids) == (state.pid, state.engine_pids)
    assert rss_mb(state.pid) < before_mb + 15
    assert affine.infer(sample_rows(1))[0] == 200


def test_hostile_http_is_answered_or_closed_and_the_server_lives(affine: Running) -> None:
    rng = random.Random(7)
    chunked = b'POST /v2/models/affine/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"in"\r\n0\r\n\r\n'
    seeds = [http_post(infer_json(sample_rows(1)), headers="Connection: close\r\n"), chunked,
             b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"]  # fmt: skip
    pid = affine.process.snapshot().pid
    for _ in range(60):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.choice([0, 10, 13, 32, 58, 255, rng.randint(0, 255)])
        answer = affine.raw(bytes(data) + b"\r\n\r\n", timeout_s=5.0, then=lambda c: c.shutdown(1))
        assert answer == b"" or STATUS.match(answer), (bytes(data), answer[:200])
    assert affine.process.snapshot().pid == pid
    assert affine.infer(sample_rows(1))[0] == 200

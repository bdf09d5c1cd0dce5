from __future__ import annotations

import contextlib
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
import requests

from agent.__main__ import main
from agent.config import DownloadConfig, LinkConfig
from agent.disk import RealDisk
from agent.errors import ConfigurationError, LinkError
from agent.fleet_link.enrol import enrol
from agent.fleet_link.identity import Identity, load_identity, save_identity
from edge_contracts.enrolment import EnrolmentToken, EnrolRequest, EnrolResponse, MqttEndpoint, encode_token

ANSWER = EnrolResponse(device="cam-1", site="lyon", password="s3cret", mqtt=MqttEndpoint(port=1883))
TOKEN = EnrolmentToken(server="http://unused", secret="one-time")


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", got
    finally:
        server.shutdown()
        server.server_close()


def try_enrol(url: str) -> Identity:
    return enrol(TOKEN, EnrolRequest(secret=TOKEN.secret), requests.Session(), DownloadConfig(), url).identity


def test_a_token_becomes_an_identity() -> None:
    with answering(201, msgspec.json.encode(ANSWER)) as (url, got):
        identity = try_enrol(url + "/")
    assert (identity.device, identity.site, identity.server) == ("cam-1", "lyon", url)
    assert msgspec.json.decode(got[0])["secret"] == "one-time"


@pytest.mark.parametrize("replaced", [True, False])
def test_force_takes_a_name_and_says_whose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replaced: bool
) -> None:  # fmt: skip
    answer = msgspec.structs.replace(ANSWER, replaced=replaced)
    token = tmp_path / "token"
    with answering(201, msgspec.json.encode(answer)) as (url, got):
        token.write_text(encode_token(EnrolmentToken(server=url, secret="one-time")))
        force = ["--force"] if replaced else []
        assert main(["enroll", "--data", str(tmp_path / "data"), "--token-file", str(token), "--json", *force]) == 0
    assert msgspec.json.decode(got[0], type=EnrolRequest).replace is replaced
    told = capsys.readouterr()
    first, last = told.err.splitlines()
    assert first == f"enrolling at {url} ..."
    assert last.startswith("replaces cam-1, enrolled as lyon/cam-1" if replaced else "enrolled as lyon/cam-1")
    assert msgspec.json.decode(told.out)["replaced"] is replaced


def test_a_refusal_is_told_in_the_servers_words() -> None:
    with (
        answering(403, b'{"detail": "the token has been used up"}') as (url, _),
        pytest.raises(LinkError, match="used up"),
    ):
        try_enrol(url)


@pytest.mark.parametrize("body", [b"<html>", b"", b"\xff", b'{"device": "a/b", "site": "s"}', b"[]"])
def test_something_that_is_no_fleet_server_is_told(body: bytes) -> None:
    with answering(200, body) as (url, _), pytest.raises(LinkError, match="is it a mindfleet"):
        try_enrol(url)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(LinkError, match="cannot be reached"):
        try_enrol("http://127.0.0.1:1")


def identity() -> Identity:
    return Identity(device="cam-1", site="lyon", password="s3cret", server="http://fleet:8080", mqtt=ANSWER.mqtt)


def test_the_identity_is_private_and_never_shown(tmp_path: Path) -> None:
    save_identity(tmp_path, identity(), RealDisk())
    assert stat.S_IMODE((tmp_path / "identity.json").stat().st_mode) == 0o600
    assert load_identity(tmp_path) == identity()
    assert "s3cret" not in repr(identity())
    assert "s3cret" not in repr(identity().account)


def test_no_identity_is_none_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    assert load_identity(tmp_path) is None
    (tmp_path / "identity.json").write_bytes(b'{"device": ')
    with pytest.raises(ConfigurationError, match="enrol this device again"):
        load_identity(tmp_path)


def test_brokers_are_those_configured_or_the_servers_host() -> None:
    assert identity().broker_addresses(LinkConfig()) == [("fleet", 1883)]
    hosts = LinkConfig(hosts=["a", "b:1884", "[::1]:1885", "[::2]"])
    assert identity().broker_addresses(hosts) == [("a", 1883), ("b", 1884), ("::1", 1885), ("::2", 1883)]
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        identity().broker_addresses(LinkConfig(hosts=["a:b"]))

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.client import FleetClient
from fleet.errors import ClientError, ServerUnreachable


class Heard(http.server.ThreadingHTTPServer):
    """Answers 200 to everything and keeps the credentials that came, by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.credentials: dict[str, str | None] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Heard)
        self.server.credentials[self.path] = self.headers.get("Authorization")
        self.send_response(302 if self.path.startswith("/to/") else 200)
        if self.path.startswith("/to/"):
            self.send_header("Location", f"http://localhost:{self.path[4:]}/moved")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def heard() -> Iterator[Heard]:
    with Heard() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_location_of_this_very_server_is_followed_with_the_token(heard: Heard) -> None:
    client = FleetClient(heard.url, "token")
    client.send("GET", f"{heard.url}/v2/upload?digest=x")
    client.send("GET", "/v2/other")
    assert heard.credentials == {"/v2/upload?digest=x": "Bearer token", "/v2/other": "Bearer token"}


@pytest.mark.parametrize(
    "location",
    ["http://localhost:PORT/x", "http://127.0.0.1:1/x", "https://127.0.0.1:PORT/x", "@localhost:PORT/x",
     "http://localhost:PORT\\@127.0.0.1:PORT/x", "http://127.0.0.1:PORT@localhost:PORT/x", ".example/x", "x", "",
     "http://[", "ftp://127.0.0.1:PORT/x"],
)  # fmt: skip
def test_a_location_of_another_server_is_refused_and_the_token_stays_here(heard: Heard, location: str) -> None:
    client = FleetClient(heard.url, "token")
    with pytest.raises(ClientError) as refused:
        client.send("GET", location.replace("PORT", str(heard.server_port)))
    assert not isinstance(refused.value, ServerUnreachable)
    assert "\n" not in str(refused.value)
    assert heard.credentials == {}


def test_a_redirection_to_another_host_does_not_take_the_token_along(heard: Heard) -> None:
    FleetClient(heard.url, "token").send("GET", f"/to/{heard.server_port}")
    assert heard.credentials == {f"/to/{heard.server_port}": "Bearer token", "/moved": None}


def test_the_token_wins_over_a_netrc(heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    FleetClient(heard.url, "token").send("GET", "/with")
    FleetClient(heard.url, None).send("GET", "/without")
    assert heard.credentials == {"/with": "Bearer token", "/without": None}

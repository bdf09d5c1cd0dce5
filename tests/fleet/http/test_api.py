from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge_contracts.enrolment import EnrolResponse, parse_token
from fleet.errors import StoreUnavailable
from fleet.http import api_types as api
from fleet.http.app import make_app
from fleet.http.rooms import Rooms
from fleet.services.access import Access
from fleet.services.bundles import Bundles
from tests.fleet.asgi_client import AsgiClient
from tests.fleet.fleet_in_memory import FleetInMemory
from tests.simulators.device import Plan

TOKEN = "operator-token"


@pytest.fixture
def fleet() -> FleetInMemory:
    made = FleetInMemory()
    made.device("cam-1")
    made.bundle("digits", "1.0.0")
    return made


@pytest.fixture
def ask(fleet: FleetInMemory) -> AsgiClient:
    rooms = Rooms(
        access=Access(TOKEN, fleet.enrolment.check), enrolment=fleet.enrolment, bundles=fleet.bundles,
        rollouts=fleet.rollouts, reading=fleet.reading, metrics=lambda: "up 1\n",
        health=lambda: api.Health(status="ok", version="1", broker_connected=True, mqtt_port=1883),
    )  # fmt: skip

    async def no_registry(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError(scope)

    return AsgiClient(make_app(rooms, no_registry), TOKEN)


def test_a_device_enrols_without_any_credential_but_its_token(ask: AsgiClient) -> None:
    made = ask("POST", "/api/v1/enrolment-tokens", json={"uses": 2, "site": "lyon"})
    assert made.status_code == 201
    line = msgspec.json.decode(made.content, type=api.TokenCreated).token
    assert parse_token(line).server == "http://server"
    request = {"secret": parse_token(line).secret, "device": "cam-9", "unheard-of": 1}
    answer = ask("POST", "/api/v1/enroll", json=request, headers={"Authorization": ""})
    assert answer.status_code == 200
    assert msgspec.json.decode(answer.content, type=EnrolResponse).site == "lyon"
    (token,) = [t for t in ask("GET", "/api/v1/enrolment-tokens").json()["items"] if t["site"] == "lyon"]
    assert token["uses_left"] == 1
    assert ask("DELETE", f"/api/v1/enrolment-tokens/{token['id']}").status_code == 204


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/v1/devices"), ("GET", "/api/v1/devices/cam-1"), ("GET", "/api/v1/bundles"),
     ("POST", "/api/v1/bundles"), ("GET", "/api/v1/rollouts"), ("POST", "/api/v1/rollouts/x/start"),
     ("GET", "/api/v1/enrolment-tokens"), ("POST", "/api/v1/enrolment-tokens"), ("GET", "/api/v1/openapi.json")],
)  # fmt: skip
@pytest.mark.parametrize("credential", ["", "Bearer wrong", "Basic Y2FtLTE6d3Jvbmc=", "nonsense"])
def test_everything_else_needs_the_operators_token(ask: AsgiClient, method: str, path: str, credential: str) -> None:
    answer = ask(method, path, headers={"Authorization": credential}, json={} if method == "POST" else None)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert "\n" not in answer.json()["detail"]


def test_health_and_metrics_are_open(ask: AsgiClient) -> None:
    assert ask("GET", "/healthz", headers={"Authorization": ""}).json()["status"] == "ok"
    assert ask("GET", "/metrics", headers={"Authorization": ""}).text == "up 1\n"


def test_a_rollout_is_created_started_seen_and_paused(ask: AsgiClient, fleet: FleetInMemory) -> None:
    fleet.devices["cam-1"].plans["1.0.0"] = Plan.STOP_IN_TRIAL
    request = {"bundle": "digits", "version": "1.0.0", "waves": [{"size": "1"}], "policy": {"allow_unsigned": True}}
    made = ask("POST", "/api/v1/rollouts", json=request)
    assert made.status_code == 201
    draft = msgspec.json.decode(made.content, type=api.RolloutView)
    assert (draft.state, draft.verbs) == ("draft", ["start", "abort"])
    assert ask("POST", f"/api/v1/rollouts/{draft.id}/start").status_code == 200
    fleet.settle()
    view = msgspec.json.decode(ask("GET", f"/api/v1/rollouts/{draft.id}").content, type=api.RolloutView)
    assert (view.state, view.counts.in_flight) == ("running", 1)
    assert [(row.device, row.state, row.online) for row in view.devices] == [("cam-1", "trial", True)]
    assert ask("POST", f"/api/v1/rollouts/{draft.id}/pause").json()["why"] == "paused by the operator"
    again = ask("POST", f"/api/v1/rollouts/{draft.id}/pause")
    assert (again.status_code, again.json()["detail"]) == (409, f"cannot pause rollout {draft.id}: it is paused")
    (row,) = ask("GET", "/api/v1/rollouts").json()["items"]
    assert (row["id"], row["devices"]) == (draft.id, [])
    assert ask("GET", "/api/v1/rollouts?limit=0").json()["items"] == [row]
    for limit in ("-1", "1001", "many"):
        assert ask("GET", f"/api/v1/rollouts?limit={limit}").status_code == 400


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [(b"", 400, "the request has no body"), (b"[]", 400, ""), (b"\xff", 400, ""), (b"{}", 400, "bundle"),
     (b'{"bundle":"digits","version":"1.0.0","unknown":1}', 400, "unknown"),
     (b'{"bundle":"digits","version":"1.0.0","waves":[{"size":"1","soak":1}]}', 400, "soak"),
     (b'{"bundle":"digits","version":"1.0.0","waves":[{"size":"x"}],"policy":{"allow_unsigned":true}}', 400,
      "waves[0].size: 'x' is neither a count"),
     (b'{"bundle":"digits","version":"1.0.0","waves":[{"error_action":"explode"}]}', 400, "explode"),
     (b'{"bundle":"digits","version":"9.0.0"}', 404, "no bundle 'digits 9.0.0'"),
     (b'{"bundle":"digits","version":"1.0.0"}', 400, "unsigned bundle"),
     (b"[" * 50_000, 400, "")],
)  # fmt: skip
def test_a_rollout_that_cannot_be_is_refused_with_the_field(
    ask: AsgiClient, body: bytes, status: int, words: str
) -> None:
    answer = ask("POST", "/api/v1/rollouts", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/api/v1/devices/nobody", 404), ("GET", "/api/v1/rollouts/nope", 404),
     ("POST", "/api/v1/rollouts/nope/start", 404), ("POST", "/api/v1/rollouts/nope/explode", 404),
     ("GET", "/nowhere", 404), ("PUT", "/api/v1/devices", 405), ("DELETE", "/api/v1/enrolment-tokens/x", 404)],
)  # fmt: skip
def test_what_is_not_there_is_a_problem_document(ask: AsgiClient, method: str, path: str, status: int) -> None:
    answer = ask(method, path)
    assert answer.status_code == status
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


def test_a_refused_token_is_403_and_tells_the_way_out(ask: AsgiClient) -> None:
    answer = ask("POST", "/api/v1/enroll", json={"secret": "guess"}, headers={"Authorization": ""})
    assert answer.status_code == 403
    assert "mindfleet token create" in answer.json()["detail"]


def test_a_store_that_is_down_is_503_and_a_bug_is_500_without_a_trace(
    ask: AsgiClient, fleet: FleetInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked() -> None:
        raise StoreUnavailable("database is locked")

    monkeypatch.setattr(fleet.reading, "devices", locked)
    assert ask("GET", "/api/v1/devices").status_code == 503
    monkeypatch.setattr(fleet.reading, "devices", lambda: 1 // 0)
    broken = ask("GET", "/api/v1/devices")
    assert (broken.status_code, broken.json()["detail"]) == (500, "the server failed on this request; its log says why")


def test_the_api_describes_itself(ask: AsgiClient) -> None:
    document = ask("GET", "/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    paths = set(document["paths"])
    assert {"/api/v1/enroll", "/api/v1/devices", "/api/v1/rollouts/{rollout}/{verb}", "/healthz"} <= paths


def test_registering_needs_every_blob_of_the_right_size(fleet: FleetInMemory, tmp_path: Path) -> None:
    from edge_contracts.archive import open_bundle
    from fleet.errors import AlreadyThere, InvalidRequest, NotFound, UnsignedBundle
    from tests.simulators.bundle_factory import stub_bundle

    archive = open_bundle(stub_bundle(tmp_path / "a.mindie", name="stubby", version="1.0.0"))
    other = open_bundle(stub_bundle(tmp_path / "b.mindie", name="stubby", version="1.0.0", damaged=True))
    held = {archive.bundle.digest: archive.index_bytes, other.bundle.digest: other.index_bytes}
    for pushed in (archive, other):
        held.update({digest: pushed.blob(digest) for digest in pushed.bundle.blobs()})

    class Held:
        def read_small(self, digest: str) -> bytes:
            return held[digest]

        def size(self, digest: str) -> int | None:
            return len(held[digest]) if digest in held else None

    bundles = Bundles(fleet.store, Held(), lambda: 1)
    with pytest.raises(UnsignedBundle):
        bundles.register("stubby", archive.bundle.digest, allow_unsigned=False)
    with pytest.raises(InvalidRequest, match="calls itself 'stubby'"):
        bundles.register("other", archive.bundle.digest, allow_unsigned=True)
    goldens = held.pop(archive.bundle.goldens.digest)
    with pytest.raises(InvalidRequest, match="is missing"):
        bundles.register("stubby", archive.bundle.digest, allow_unsigned=True)
    held[archive.bundle.goldens.digest] = goldens
    first = bundles.register("stubby", archive.bundle.digest, allow_unsigned=True)
    assert bundles.register("stubby", archive.bundle.digest, allow_unsigned=True) == first
    record, contents = bundles.contents("stubby", "1.0.0")
    assert (record, [each.name for each in contents.variants]) == (first, first.variants)
    with pytest.raises(NotFound):
        bundles.contents("stubby", "9.9.9")
    with pytest.raises(AlreadyThere, match="give changed bytes another version"):
        bundles.register("stubby", other.bundle.digest, allow_unsigned=True)


def test_the_root_tells_what_this_is_without_a_credential(ask: AsgiClient) -> None:
    answer = ask("GET", "/", headers={"Authorization": ""})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/html")
    assert "MindEdge fleet" in answer.text

from __future__ import annotations

import msgspec
import pytest

from edge_contracts.enrolment import EnrolRequest, parse_token
from fleet.domain.device import DeviceState
from fleet.errors import CredentialsRefused, DeviceOnline, EnrolmentRefused, InvalidRequest, NotFound
from fleet.http.problems import status_of
from tests.fleet.fleet_in_memory import SERVER, FleetInMemory


@pytest.fixture
def fleet() -> FleetInMemory:
    return FleetInMemory()


def token(fleet: FleetInMemory, *, uses: int = 1, expires_s: float | None = None) -> str:
    """The secret of a new token."""
    _, line = fleet.enrolment.create_token(SERVER, uses=uses, expires_s=expires_s, site="lyon", labels={"floor": "2"})
    assert parse_token(line).server == SERVER
    return parse_token(line).secret


def test_a_device_gets_an_identity_that_opens_broker_and_registry(fleet: FleetInMemory) -> None:
    answer = fleet.enrolment.enrol(EnrolRequest(secret=token(fleet), device="cam-1", labels={"x": "y"}))
    assert (answer.device, answer.site, answer.mqtt.port) == ("cam-1", "lyon", 1883)
    assert fleet.enrolment.check("cam-1", answer.password)
    assert not fleet.enrolment.check("cam-1", answer.password + "x")
    assert not fleet.enrolment.check("cam-2", answer.password)
    fleet.broker.connect("cam-1", answer.password, print)
    with pytest.raises(CredentialsRefused):
        fleet.broker.connect("cam-1", "wrong", print)
    with fleet.store.read() as work:
        assert work.devices.get("cam-1").labels == {"floor": "2", "x": "y"}  # type: ignore[union-attr]


def test_neither_secret_nor_password_is_stored(fleet: FleetInMemory) -> None:
    secret = token(fleet, uses=2)
    answer = fleet.enrolment.enrol(EnrolRequest(secret=secret))
    with fleet.store.read() as work:
        stored = repr([work.tokens.find(), work.credentials.find(), work.devices.find()])
    assert secret not in stored
    assert answer.password not in stored


def test_a_token_lets_in_as_many_devices_as_it_says(fleet: FleetInMemory) -> None:
    secret = token(fleet, uses=2)
    first, second = (fleet.enrolment.enrol(EnrolRequest(secret=secret)) for _ in range(2))
    assert first.device != second.device
    with pytest.raises(EnrolmentRefused, match="used up or has expired"):
        fleet.enrolment.enrol(EnrolRequest(secret=secret))


def test_an_expired_an_unknown_and_a_deleted_token_are_refused(fleet: FleetInMemory) -> None:
    secret = token(fleet, expires_s=60.0)
    fleet.now_ms += 60_000
    with pytest.raises(EnrolmentRefused, match="expired"):
        fleet.enrolment.enrol(EnrolRequest(secret=secret))
    with pytest.raises(EnrolmentRefused, match="unknown"):
        fleet.enrolment.enrol(EnrolRequest(secret="guess"))
    withdrawn, line = fleet.enrolment.create_token(SERVER, uses=1, expires_s=None, site="lyon", labels={})
    fleet.enrolment.delete_token(withdrawn.id)
    with pytest.raises(EnrolmentRefused, match="unknown"):
        fleet.enrolment.enrol(EnrolRequest(secret=parse_token(line).secret))
    with pytest.raises(NotFound):
        fleet.enrolment.delete_token("nope")


def test_a_refused_device_does_not_cost_a_use(fleet: FleetInMemory) -> None:
    secret = token(fleet)
    with pytest.raises(InvalidRequest, match="device"):
        fleet.enrolment.enrol(EnrolRequest(secret=secret, device="not/a/name"))
    assert fleet.enrolment.tokens()[0].uses_left == 1
    fleet.enrolment.enrol(EnrolRequest(secret=secret, device="fine"))


def test_a_name_that_is_taken_is_refused_unless_it_is_the_same_hardware(fleet: FleetInMemory) -> None:
    secret = token(fleet, uses=9)
    first = fleet.enrolment.enrol(EnrolRequest(secret=secret, device="cam", fingerprint="f1"))
    with pytest.raises(EnrolmentRefused, match="exists already"):
        fleet.enrolment.enrol(EnrolRequest(secret=secret, device="cam", fingerprint="f2"))
    with pytest.raises(EnrolmentRefused, match="exists already"):
        fleet.enrolment.enrol(EnrolRequest(secret=secret, device="cam"))
    again = fleet.enrolment.enrol(EnrolRequest(secret=secret, device="cam", fingerprint="f1"))
    assert not fleet.enrolment.check("cam", first.password)
    assert fleet.enrolment.check("cam", again.password)


def test_a_device_that_is_not_active_is_let_in_nowhere(fleet: FleetInMemory) -> None:
    answer = fleet.enrolment.enrol(EnrolRequest(secret=token(fleet), device="cam"))
    with fleet.store.write() as work:
        device = work.devices.get("cam")
        assert device is not None
        work.devices.save([msgspec.structs.replace(device, state=DeviceState.QUARANTINED)])
        work.commit()
    fleet.accounts.load()
    assert not fleet.enrolment.check("cam", answer.password)
    with pytest.raises(CredentialsRefused):
        fleet.broker.connect("cam", answer.password, print)


@pytest.mark.parametrize(
    ("fields", "where"),
    [({"uses": 0}, "uses"), ({"uses": 10**9}, "uses"), ({"expires_s": 0.0}, "expires_s"), ({"site": "a/b"}, "site"),
     ({"expires_s": float("nan")}, "expires_s"), ({"server": "10.0.0.5:8080"}, "server")],
)  # fmt: skip
def test_a_token_that_cannot_be_is_refused_by_field(
    fleet: FleetInMemory, fields: dict[str, object], where: str
) -> None:
    good: dict[str, object] = {"server": SERVER, "uses": 1, "expires_s": None, "site": "lyon", "labels": {}}
    with pytest.raises(InvalidRequest) as refused:
        fleet.enrolment.create_token(**{**good, **fields})  # type: ignore[arg-type]
    assert refused.value.where == where


def test_the_name_of_a_device_that_is_online_is_taken_only_when_asked_for(fleet: FleetInMemory) -> None:
    fleet.device("cam")
    fleet.lose("cam")
    secret = token(fleet, uses=1)
    with fleet.store.write() as work:
        known = work.devices.get("cam")
        assert known is not None
        work.devices.save([msgspec.structs.replace(known, fingerprint="f1")])
        work.commit()
    fleet.connect("cam")
    fleet.settle()
    wish = EnrolRequest(secret=secret, device="cam", fingerprint="f1")
    with pytest.raises(DeviceOnline, match="'cam' is online"):
        fleet.enrolment.enrol(wish)
    assert fleet.enrolment.tokens()[0].uses_left == 1, "a refusal costs no use"
    assert fleet.enrolment.enrol(msgspec.structs.replace(wish, replace=True)).replaced


def test_the_answer_tells_whether_a_known_device_is_replaced(fleet: FleetInMemory) -> None:
    wish = EnrolRequest(secret=token(fleet, uses=2), device="cam", fingerprint="f1")
    assert not fleet.enrolment.enrol(wish).replaced
    assert fleet.enrolment.enrol(wish).replaced, "it is offline, so nothing is lost"


def test_replacing_does_not_let_other_hardware_in(fleet: FleetInMemory) -> None:
    secret = token(fleet, uses=2)
    fleet.enrolment.enrol(EnrolRequest(secret=secret, device="cam", fingerprint="f1"))
    with pytest.raises(EnrolmentRefused, match="exists already"):
        fleet.enrolment.enrol(EnrolRequest(secret=secret, device="cam", fingerprint="f2", replace=True))


def test_a_name_that_is_in_use_is_a_conflict_over_http() -> None:
    assert status_of(DeviceOnline("cam")) == 409
    assert status_of(EnrolmentRefused("no")) == 403

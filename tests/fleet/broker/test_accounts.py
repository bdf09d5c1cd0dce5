from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fleet.broker.broker import BrokerAddress, DeviceAccount, ServerCredentials
from fleet.broker.child_broker import Login, Settings
from fleet.broker.embedded import NatsDialect
from fleet.broker.mosquitto import MosquittoDialect
from fleet.broker.verifiers import make_verifiers
from fleet.errors import AccountRefused, BrokerBinaryMissing, BrokerStartFailed

VERIFIERS = make_verifiers("pw", salt=b"s" * 16)
SETTINGS = Settings(
    folder=Path("/data/broker"),
    address=BrokerAddress("127.0.0.1", 1883),
    server=Login("@server", VERIFIERS),
    probe=Login("@probe", VERIFIERS),
    accounts=(DeviceAccount("cam-1", "lyon", VERIFIERS),),
)


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "+", "#", "a b", "@server", "a\nb", '"', "ü", "x" * 65, "a:b"])
def test_a_name_that_could_widen_a_topic_or_break_a_file_is_no_account(name: str) -> None:
    with pytest.raises(AccountRefused):
        DeviceAccount(name, "lyon", VERIFIERS)
    with pytest.raises(AccountRefused):
        DeviceAccount("cam-1", name, VERIFIERS)


def test_nothing_secret_shows_when_accounts_and_credentials_are_printed() -> None:
    shown = repr(DeviceAccount("cam-1", "lyon", VERIFIERS)) + repr(ServerCredentials("@server", "hunter2", "server-1"))
    assert "hunter2" not in shown
    assert VERIFIERS.bcrypt not in shown


def test_nats_lets_a_device_write_its_own_up_and_read_its_own_down_and_nothing_else() -> None:
    config = NatsDialect().files(SETTINGS)["nats.conf"]
    line = next(line for line in config.splitlines() if "cam-1" in line)
    assert 'publish: { allow: ["mindedge.v1.lyon.cam-1.up", "mindedge.v1.lyon.cam-1.up.>"] }' in line
    own = '"mindedge.v1.lyon.cam-1.down", "mindedge.v1.lyon.cam-1.down.>", "$MQTT.sub.>", "$MQTT.deliver.pubrel.>"'
    assert f"subscribe: {{ allow: [{own}] }}" in line
    assert 'allowed_connection_types: ["MQTT"]' in line


def test_no_user_of_nats_is_without_permissions_since_that_would_mean_all() -> None:
    users = [line for line in NatsDialect().files(SETTINGS)["nats.conf"].splitlines() if "{ user:" in line]
    assert len(users) == 3
    assert all("publish: {" in line and "subscribe: {" in line and "[]" not in line for line in users)


def test_mosquitto_writes_the_password_file_last_since_the_probe_proves_it() -> None:
    files = MosquittoDialect(is_root=True).files(SETTINGS)
    assert list(files)[-1] == "passwords"
    assert files["acl"].splitlines()[2:] == [
        "user cam-1",
        "topic write mindedge/v1/lyon/cam-1/up/#",
        "topic read mindedge/v1/lyon/cam-1/down/#",
    ]


@pytest.mark.parametrize("is_root", [True, False])
def test_mosquitto_keeps_the_user_it_is_started_as(is_root: bool) -> None:
    config = MosquittoDialect(is_root=is_root).files(SETTINGS)["mosquitto.conf"]
    assert ("user root" in config.splitlines()) == is_root


def test_a_folder_that_cannot_stand_in_the_configuration_is_refused() -> None:
    with pytest.raises(BrokerStartFailed, match="line break"):
        MosquittoDialect(is_root=False).files(replace(SETTINGS, folder=Path("/data\nallow_anonymous true")))


@pytest.mark.parametrize(
    ("dialect", "way_out"), [(NatsDialect, r"pip install 'mindedge\[fleet\]'"), (MosquittoDialect, "apt install")]
)
def test_a_missing_program_is_named_with_the_way_to_get_it(
    dialect: type[NatsDialect] | type[MosquittoDialect],
    way_out: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("fleet.broker.mosquitto._SYSTEM_FOLDERS", str(tmp_path))
    nowhere = NatsDialect(tmp_path) if dialect is NatsDialect else MosquittoDialect()
    with pytest.raises(BrokerBinaryMissing, match=way_out):
        nowhere.find_binary()

"""The server's link where there is no broker, or none that behaves. With a broker: the suite."""

from __future__ import annotations

import socket

import pytest

from fleet.broker.backoff import Backoff
from fleet.broker.broker import BrokerAddress, ServerCredentials
from fleet.broker.client import ServerClient
from fleet.broker.probe import Answer, ask
from fleet.errors import PublishRefused
from tests.suites.broker_suite import eventually

CREDENTIALS = ServerCredentials("@server", "pw", "server-1")


def link_to(port: int, max_waiting: int = 10) -> ServerClient:
    return ServerClient(
        BrokerAddress("127.0.0.1", port),
        CREDENTIALS,
        lambda _: None,
        backoff=Backoff(first_s=0.01, cap_s=0.02, stable_s=60.0),
        max_waiting=max_waiting,
    )


@pytest.fixture
def silent() -> socket.socket:
    """Accepts connections and never says a word."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_without_a_broker_it_says_so_once_takes_messages_up_to_its_limit_and_stops_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    link = link_to(unused_port(), max_waiting=2)
    link.start()
    eventually(lambda: "no connection to the broker" in caplog.text)
    link.publish("a", b"1", retain=False)
    link.publish("a", b"2", retain=False)
    with pytest.raises(PublishRefused):
        link.publish("a", b"3", retain=False)
    link.stop()
    assert caplog.text.count("no connection to the broker") == 1


@pytest.mark.parametrize("_again", range(20))  # the stop meets the connect at another point each time
def test_a_broker_that_never_answers_does_not_hold_up_the_stop(silent: socket.socket, _again: int) -> None:
    link = link_to(silent.getsockname()[1])
    link.start()
    connection, _ = silent.accept()
    assert connection.recv(1) == b"\x10"
    assert not link.connected
    link.stop()
    connection.close()
    silent.close()


def test_a_link_stopped_before_it_could_start_its_connection_ends() -> None:
    link = link_to(unused_port())
    link.start()
    link.stop()
    assert not link.connected


@pytest.mark.parametrize("topic_filter", ["", "a/#/b", "a+"])
def test_a_malformed_filter_is_refused_where_it_is_given(topic_filter: str) -> None:
    with pytest.raises(ValueError, match="filter"):
        link_to(1).subscribe(topic_filter)


def test_the_probe_takes_a_closed_port_and_a_silent_server_for_no_answer(silent: socket.socket) -> None:
    for port in (unused_port(), silent.getsockname()[1]):
        assert ask(BrokerAddress("127.0.0.1", port), "probe", "u", "p", timeout_s=0.05) is Answer.SILENT
    silent.close()

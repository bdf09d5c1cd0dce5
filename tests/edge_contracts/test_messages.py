from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts import messages
from edge_contracts.deployment import FAILURES, IN_FLIGHT, TERMINAL, DeploymentState
from edge_contracts.errors import MalformedMessage

KINDS = [
    messages.Status,
    messages.Birth,
    messages.Desired,
    messages.Reported,
    messages.Telemetry,
    messages.Event,
    messages.Command,
]


def test_a_state_of_a_newer_peer_decodes_to_unknown() -> None:
    payload = b'{"version":1,"session":1,"models":{"m":{"deployment":"d","state":"levitating"}}}'
    assert messages.decode(payload, messages.Reported).models["m"].state is DeploymentState.UNKNOWN


def test_unknown_fields_are_tolerated() -> None:
    assert messages.decode(b'{"online":true,"session":3,"mood":"good"}', messages.Status).session == 3


@pytest.mark.parametrize("kind", KINDS)
@given(payload=st.binary(max_size=200))
def test_garbage_is_refused_as_the_message_it_was_taken_for(kind: type, payload: bytes) -> None:
    with pytest.raises(MalformedMessage, match=kind.__name__.lower()):
        messages.decode(payload, kind)


@pytest.mark.parametrize("payload", [b"\xff\xfe", b"[" * 100_000, b'{"online":tru', b"NaN", b""])
def test_hostile_json_is_refused(payload: bytes) -> None:
    with pytest.raises(MalformedMessage):
        messages.decode(payload, messages.Status)


def test_a_payload_over_the_brokers_limit_is_refused_both_ways() -> None:
    event = messages.Event(id="1", at_ms=0, kind="x", text="y" * messages.MAX_PAYLOAD_BYTES)
    with pytest.raises(MalformedMessage, match="bytes"):
        messages.encode(event)
    with pytest.raises(MalformedMessage, match="bytes"):
        messages.decode(b" " * (messages.MAX_PAYLOAD_BYTES + 1), messages.Event)


SHORT = st.text(max_size=9)
WISHED = st.builds(messages.DesiredModel, deployment=SHORT, version=SHORT, digest=SHORT)
WISHES = st.builds(messages.Desired, version=st.integers(0, 2**53), models=st.dictionaries(SHORT, WISHED, max_size=3))


@given(WISHES)
def test_a_wish_survives_the_wire(desired: messages.Desired) -> None:
    assert messages.decode(messages.encode(desired), messages.Desired) == desired


def test_every_state_is_in_flight_or_terminal_and_failures_are_terminal() -> None:
    assert set(DeploymentState) - {DeploymentState.UNKNOWN} == IN_FLIGHT | TERMINAL
    assert not IN_FLIGHT & TERMINAL
    assert FAILURES < TERMINAL

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.broker.broker import MAX_PAYLOAD_BYTES
from fleet.broker.outbox import Outbox, Outgoing
from fleet.errors import PublishRefused

MESSAGES = st.builds(Outgoing, st.sampled_from("abc"), st.binary(max_size=3), st.booleans())


@given(st.lists(st.tuples(MESSAGES, st.booleans())))
def test_what_waits_is_every_message_not_confirmed_and_of_the_retained_only_the_last_of_a_topic(
    steps: list[tuple[Outgoing, bool]],
) -> None:
    box = Outbox(max_messages=1000)
    expected: list[tuple[int, Outgoing]] = []
    for message, confirmed in steps:
        ticket = box.add(message)
        expected = [e for e in expected if not (message.retain and e[1].retain and e[1].topic == message.topic)]
        if confirmed:
            box.confirm(ticket)
        else:
            expected.append((ticket, message))
    assert box.waiting() == expected
    assert len(box) == len(expected)


def test_confirming_a_replaced_message_leaves_its_successor() -> None:
    box = Outbox(max_messages=10)
    first = box.add(Outgoing("t", b"1", True))
    box.add(Outgoing("t", b"2", True))
    box.confirm(first)
    box.confirm(first)
    assert [message.payload for _, message in box.waiting()] == [b"2"]


def test_a_full_outbox_refuses_but_still_takes_a_newer_wish_for_the_same_topic() -> None:
    box = Outbox(max_messages=1)
    box.add(Outgoing("t", b"1", True))
    box.add(Outgoing("t", b"2", True))
    with pytest.raises(PublishRefused, match="already wait"):
        box.add(Outgoing("u", b"3", True))
    assert [message.payload for _, message in box.waiting()] == [b"2"]


@pytest.mark.parametrize("topic", ["", "a/+", "#"])
def test_a_topic_with_wildcards_is_refused(topic: str) -> None:
    with pytest.raises(PublishRefused):
        Outgoing(topic, b"", retain=False)


def test_a_payload_too_large_is_refused_naming_the_limit() -> None:
    Outgoing("t", bytes(MAX_PAYLOAD_BYTES), retain=False)
    with pytest.raises(PublishRefused, match=str(MAX_PAYLOAD_BYTES)):
        Outgoing("t", bytes(MAX_PAYLOAD_BYTES + 1), retain=False)

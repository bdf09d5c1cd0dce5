from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from fleet.broker.topic_filter import is_filter, is_topic, matches

LEVELS = st.sampled_from(["a", "b", "", "$SYS", "up"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=5).map("/".join).filter(bool)
FILTERS = st.builds(
    lambda levels, tail: "/".join([*levels, *tail]),
    st.lists(st.one_of(LEVELS, st.just("+")), min_size=1, max_size=5),
    st.sampled_from([[], ["#"]]),
).filter(bool)


@given(FILTERS, TOPICS)
def test_filters_match_as_paho_matches_them(topic_filter: str, topic: str) -> None:
    assert matches(topic_filter, topic) == topic_matches_sub(topic_filter, topic)


@given(TOPICS)
def test_a_topic_is_a_filter_of_itself(topic: str) -> None:
    assert is_topic(topic)
    assert is_filter(topic)
    assert matches(topic, topic)


@pytest.mark.parametrize("text", ["", "a/#/b", "a#", "+a/b", "a/b+", "nul\0", "\ud800", "x" * 65_536])
def test_malformed_filters_are_told_apart(text: str) -> None:
    assert not is_filter(text)


@pytest.mark.parametrize("text", ["", "a/+", "#", "nul\0", "\udfff", "ü" * 32_768])
def test_malformed_topics_are_told_apart(text: str) -> None:
    assert not is_topic(text)

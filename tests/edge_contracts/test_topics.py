from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts import topics
from edge_contracts.errors import MalformedTopic

LEVEL = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@given(LEVEL, LEVEL, st.sampled_from(topics.UP_KINDS))
def test_an_up_topic_parses_back_to_what_it_was_built_from(site: str, device: str, kind: str) -> None:
    assert topics.parse(topics.up(site, device, kind)) == topics.Topic(site, device, "up", kind)


@given(LEVEL, LEVEL, LEVEL)
def test_a_down_topic_parses_back_to_what_it_was_built_from(site: str, device: str, command_id: str) -> None:
    assert topics.parse(topics.desired(site, device)) == topics.Topic(site, device, "down", "desired")
    parsed = topics.parse(topics.command(site, device, command_id))
    assert parsed == topics.Topic(site, device, "down", "command", command_id)


@given(st.text())
def test_any_text_is_a_topic_or_is_refused_as_one(text: str) -> None:
    try:
        parsed = topics.parse(text)
    except MalformedTopic:
        return
    assert text.startswith(f"{topics.PREFIX}/{parsed.site}/{parsed.device}/{parsed.direction}/{parsed.kind}")


@pytest.mark.parametrize("name", ["", "a/b", "a+b", "#", "a.b", "ä", "x" * 65, "a b", "a\n"])
def test_a_name_that_cannot_stand_in_a_topic_is_refused_by_the_builders(name: str) -> None:
    for build in (
        lambda: topics.up(name, "d", "birth"),
        lambda: topics.desired("s", name),
        lambda: topics.command("s", "d", name),
    ):
        with pytest.raises(MalformedTopic):
            build()


@pytest.mark.parametrize(
    "topic",
    [
        "mindedge/v2/s/d/up/birth",
        "mindedge/v1/s/d/up/desired",
        "mindedge/v1/s/d/down/birth",
        "mindedge/v1/s/d/up/birth/more",
        "mindedge/v1/s/d/down/command",
        "mindedge/v1/s/d",
        "/mindedge/v1/s/d/up/birth",
    ],
)
def test_a_topic_outside_the_scheme_is_refused(topic: str) -> None:
    with pytest.raises(MalformedTopic):
        topics.parse(topic)

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.fleet_link.memory import MemoryBroker, MemoryLink
from edge_contracts import messages, topics
from edge_contracts.deployment import DeploymentState
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence
from edge_contracts.messages import Desired, Reported, ReportedModel
from tests.agent.fleet_link.test_memory import MemoryRig
from tests.suites.link_suite import ACCOUNT, Device, a_command, up

DOWN = f"mindedge/v1/{ACCOUNT.site}/{ACCOUNT.device}/down"
some_topics = st.sampled_from([f"{DOWN}/desired", f"{DOWN}/command/c1", f"{DOWN}/command/a.b", f"{DOWN}/x", "", "a/b"])
json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
near_misses = st.builds(
    lambda version, models, more: msgspec.json.encode({"version": version, "models": models, **more}),
    json_like, json_like, st.dictionaries(st.sampled_from(["id", "kind", "expires_at_ms", "args"]), json_like),
)  # fmt: skip


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Device:
    device = Device(MemoryRig(), tmp_path_factory.mktemp("device"))
    device.start()
    return device


@given(topic=some_topics | st.text(max_size=40), payload=st.binary(max_size=200) | near_misses, retained=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_message_whatever_it_is_raises(device: Device, topic: str, payload: bytes, retained: bool) -> None:
    before = len(device.desired) + len(device.commands)
    device.session.on_message(topic, payload, retained)
    understood = len(device.desired) + len(device.commands) - before
    assert understood + device.session.take_dropped() == 1


def test_a_report_too_large_for_a_broker_goes_without_the_losers(tmp_path: Path) -> None:
    rig = MemoryRig()
    device = Device(rig, tmp_path)
    device.start()
    one = CandidateEvidence(name="c", variant="v", runtime="r", precision="fp32", status="refused", reason="x" * 5000)
    evidence = ChoiceEvidence(chosen=one, why="fastest", candidates=[one] * 300)
    model = ReportedModel(deployment="d", state=DeploymentState.COMMITTED, evidence=evidence)
    device.session.report(Reported(version=9, session=0, models={"digits": model}), final=True)
    told = messages.decode(rig.received(up("reported"))[-1], Reported).models["digits"].evidence
    assert told is not None
    assert (told.chosen.name, told.candidates) == ("c", [])


def test_a_clone_that_takes_the_connection_does_no_command_twice(tmp_path: Path) -> None:
    """Two processes of one device share no memory, but a broker delivers to one of them only."""
    broker = MemoryBroker()
    rig = MemoryRig()
    rig.broker = broker
    first, second = Device(rig, tmp_path / "a"), Device(rig, tmp_path / "b")
    first.start()
    second.start()
    assert isinstance(first.link, MemoryLink)
    assert not first.session.connected
    rig.publish(topics.command(ACCOUNT.site, ACCOUNT.device, "c1"), a_command("c1"))
    assert (len(first.commands), len(second.commands)) == (0, 1)


def test_a_wish_is_handed_over_as_it_is(tmp_path: Path) -> None:
    rig = MemoryRig()
    device = Device(rig, tmp_path)
    device.start()
    rig.publish(topics.desired(ACCOUNT.site, ACCOUNT.device), b'{"version":3,"models":{},"of the future":1}')
    assert device.desired == [Desired(version=3, models={})]

from __future__ import annotations

import msgspec
import pytest

from fleet.domain import deadlines
from fleet.domain.device import Device
from fleet.domain.targeting import Selector, select
from fleet.errors import InvalidRollout

FLEET = [
    Device(id="b", site="lyon", enrolled_ms=1, labels={"floor": "1"}),
    Device(id="a", site="lyon", enrolled_ms=1, labels={"floor": "2"}),
    Device(id="c", site="paris", enrolled_ms=1, labels={"floor": "1", "role": "camera"}),
]


def test_without_conditions_every_device_is_meant_in_the_order_of_ids() -> None:
    assert select(Selector(), FLEET) == ["a", "b", "c"]


def test_all_conditions_must_hold() -> None:
    assert select(Selector(site="lyon"), FLEET) == ["a", "b"]
    assert select(Selector(labels={"floor": "1"}), FLEET) == ["b", "c"]
    assert select(Selector(site="lyon", labels={"floor": "1"}), FLEET) == ["b"]
    assert select(Selector(labels={"role": "printer"}), FLEET) == []


def test_named_devices_keep_their_order_so_that_a_canary_can_be_chosen() -> None:
    assert select(Selector(devices=["c", "missing", "a"]), FLEET) == ["c", "a"]


def test_an_unknown_condition_is_an_error_and_not_every_device() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"lable": {"floor": "1"}}', type=Selector)


@pytest.mark.parametrize(("state", "seconds"), [("committed", 5.0), ("nonsense", 5.0), ("trial", 0.0)])
def test_a_deadline_for_what_has_none_is_refused(state: str, seconds: float) -> None:
    with pytest.raises(InvalidRollout, match="deadlines_s"):
        deadlines.check({state: seconds})

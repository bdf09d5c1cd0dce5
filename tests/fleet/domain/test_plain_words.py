from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence
from fleet.domain.plain_words import count, short_choice, shortened, significant, state_text
from tests.simulators.fleet_client import evidence


@given(st.floats(1e-4, 1e4))
def test_three_digits_are_told_without_an_exponent(value: float) -> None:
    text = significant(value)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=0.00501, abs=5e-7)


def test_a_choice_in_short_names_backend_threads_and_gain() -> None:
    told = evidence()
    threaded = msgspec.structs.replace(told, chosen=msgspec.structs.replace(told.chosen, options={"threads": 1}))
    assert short_choice(threaded) == "openvino int8, 1 thread: 1.84x ORT default"
    assert short_choice(msgspec.structs.replace(told, ratio_vs_onnxruntime_default=None)) == "openvino int8"


def test_a_reason_that_repeats_the_choice_is_shortened_and_another_is_kept() -> None:
    told = evidence()
    assert shortened(f"no slower; {told.why}", told) == f"no slower; {short_choice(told)}"
    assert shortened("wrong answers", told) == "wrong answers"
    assert shortened(None, told) is None


def test_words_have_no_marks_of_the_api_and_one_is_singular() -> None:
    assert state_text("rolled_back") == "rolled back"
    assert (count(1, "device"), count(3000, "device")) == ("1 device", "3,000 devices")


def test_the_reason_of_a_device_that_found_nothing_to_choose_is_kept_whole() -> None:
    nobody = CandidateEvidence(name="none", variant="", runtime="", precision="", status="refused", reason="all wrong")
    refused = ChoiceEvidence(chosen=nobody, why="every variant answers the goldens wrongly")
    assert shortened(refused.why, refused) == "every variant answers the goldens wrongly"

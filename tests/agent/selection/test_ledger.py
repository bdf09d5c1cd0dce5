"""What is known of the candidates, and who counts as measured."""

from __future__ import annotations

from agent.selection.candidates import Entrant
from agent.selection.ledger import Ledger
from edge_contracts.bundle import Variant
from edge_contracts.evidence import CandidateEvidence, Latency
from fleet.tui.view_models.choice import status_text
from tests.simulators.bundle_factory import affine_spec


def line(name: str, status: str, latency: Latency | None) -> CandidateEvidence:
    return CandidateEvidence(name=name, variant=name, runtime="r", precision="p", status=status, latency=latency)


def test_who_was_never_measured_is_not_tried_and_not_counted() -> None:
    measured = Latency(p50_ms=1.0, p90_ms=1.0)
    ledger = Ledger([line("a", "halved", measured), line("b", "raced", measured), line("c", "refused", None)])
    ledger.untried(Entrant(Variant("sha256:d", affine_spec("d", "tflite", "m"), []), {}, 0), "not tried: no time")
    assert ledger.counts() == {"halved": 1, "raced": 1, "refused": 1, "not_tried": 1}
    assert ledger.measured_count == 2
    assert [status_text(known) for known in ledger.lines()] == ["raced", "dropped", "not tried", "refused"]

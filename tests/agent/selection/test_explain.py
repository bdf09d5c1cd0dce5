from __future__ import annotations

from html.parser import HTMLParser

import msgspec
import pytest

from agent.selection.bench_document import document
from agent.selection.explain import explain
from agent.selection.report import page
from edge_contracts.bundle import Accuracy
from edge_contracts.evidence import CandidateEvidence, ChoiceEvidence, Latency


def line(name: str, status: str, **more: object) -> CandidateEvidence:
    fields = {"variant": name.split()[0], "runtime": "tflite", "precision": "int8", "reason": f"because {name}", **more}
    return CandidateEvidence(name=name, status=status, **fields)  # type: ignore[arg-type]


LATENCY = Latency(p50_ms=2.0, p90_ms=2.5, p99_ms=4.0, samples=100)
CHOSEN = line(
    "tflite-int8-cpu t1", "chosen", options={"threads": 1, "xnnpack": True}, provider="cpu", runtime_version="2.3.0",
    latency=LATENCY, peak_rss_mb=80.4,
    accuracy=Accuracy(metric="top1", value=0.98, source_value=0.985, drop=0.005, samples=128),
)  # fmt: skip
EVIDENCE = ChoiceEvidence(
    chosen=CHOSEN, why="lowest p90", budget_cpus=2.0, rounds=24, seconds=9.5, ratio_vs_onnxruntime_default=2.0,
    baselines={"onnxruntime-default": Latency(p50_ms=4.0, p90_ms=9.0, p99_ms=20.0)},
    candidates=[
        CHOSEN, line("tflite-int8-cpu t2", "raced", options={"threads": 2}, latency=LATENCY, peak_rss_mb=82.0),
        line("onnxruntime-fp32-cpu t2", "halved", options={"threads": 2}, latency=LATENCY, peak_rss_mb=70.0),
        line("openvino-fp16-gpu", "refused"), line("<script>alert(1)</script>", "quarantined"),
    ],
)  # fmt: skip


def test_the_words_name_the_choice_its_speed_and_every_loser_with_its_reason() -> None:
    text = explain(EVIDENCE)
    for part in (
        "Chosen: tflite-int8-cpu (tflite 2.3.0, int8, cpu)", "threads 1, xnnpack on", "Why: lowest p90",
        "top1 0.9800 on 128 goldens", "80 MB", "2 CPUs, 24 interleaved rounds in 9.5 s",
        "ONNX Runtime with default options: p50 4.000 ms", "2.00 times the chosen one's p50",
        "because tflite-int8-cpu t2", "because onnxruntime-fp32-cpu t2", "because openvino-fp16-gpu",
        "In quarantine on this device:",
    ):  # fmt: skip
        assert part in text


def test_a_choice_from_the_cache_says_so_and_one_without_baselines_too() -> None:
    text = explain(msgspec.structs.replace(EVIDENCE, from_cache=True, baselines={}))
    assert "from an earlier race" in text
    assert "no comparison" in text


def test_no_choice_is_explained_too() -> None:
    nobody = CandidateEvidence(name="none", variant="", runtime="", precision="", status="refused")
    text = explain(ChoiceEvidence(chosen=nobody, why="no variant fits", candidates=[line("a", "refused")]))
    assert text.startswith("Nothing was chosen: no variant fits")
    assert "because a" in text


def test_the_document_has_the_keys_that_programs_rely_on() -> None:
    told = msgspec.json.decode(msgspec.json.encode(document("m.onnx", EVIDENCE)))
    assert {"variant", "runtime", "precision", "options"} <= set(told["choice"])
    assert told["latency_ms"]["p50"] == 2.0
    assert {"p50", "p90", "p99"} <= set(told["baselines"]["onnxruntime-default"])
    assert told["ratio_vs_onnxruntime_default"] == 2.0
    assert told["accuracy"]["metric"] == "top1"
    assert told["peak_rss_mb"] == 80.4
    assert all({"status", "reason"} <= set(candidate) for candidate in told["candidates"])


def test_without_a_choice_the_document_says_null() -> None:
    nobody = CandidateEvidence(name="none", variant="", runtime="", precision="", status="refused")
    told = document("m.onnx", ChoiceEvidence(chosen=nobody, why="nothing runs"))
    assert (told["choice"], told["latency_ms"], told["ratio_vs_onnxruntime_default"]) == (None, None, None)


class Balanced(HTMLParser):
    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.seen: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.mark.parametrize(
    "samples", [{}, {"tflite-int8-cpu t1": [2000.0] * 9, "onnxruntime-default": [3000.0, 4000.0, 90.0]}]
)
def test_the_page_is_whole_loads_nothing_and_runs_nothing(samples: dict[str, list[float]]) -> None:
    text = page("<b>.onnx", EVIDENCE, samples, {"tflite-int8-cpu": 100, "onnxruntime-fp32-cpu": 400})
    parser = Balanced()
    parser.feed(text)
    assert parser.stack == []
    assert parser.links == []
    assert "script" not in parser.seen
    assert "b" not in parser.seen
    assert "svg" in parser.seen
    for name in ("tflite-int8-cpu t1", "openvino-fp16-gpu", "&lt;script&gt;"):
        assert name in text


def test_a_page_about_nothing_still_tells_the_reasons() -> None:
    nobody = CandidateEvidence(name="none", variant="", runtime="", precision="", status="refused")
    text = page("m", ChoiceEvidence(chosen=nobody, why="nothing", candidates=[line("a", "refused")]), {}, {})
    assert "because a" in text

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.serving.batching import BatchRule, batch_dimension, gather
from agent.serving.control import Batching, ServingOptions
from agent.serving.engine_wire import Part, Run
from edge_contracts.tensor_signature import Signature, TensorSpec
from tests.agent.serving.running import (
    Load,
    close_to,
    expected,
    running,
    sample_rows,
    served,
    stub_folder,
)

RULE = BatchRule(max_rows=8, max_delay_ns=2_000_000)


@dataclass
class Request:
    """A waiting request of ``size`` rows."""

    size: int
    width: int = 8
    parsed_ns: int = 0
    runs_alone: bool = False

    @property
    def run(self) -> Run:
        return Run(1, [Part(0, (self.size, self.width), memoryview(b""))], [0])

    def rows(self) -> int:
        return self.size


def sizes(queue: list[Request], now_ns: int = 0, *, idle: bool = True) -> list[int]:
    return [request.size for request in gather(queue, RULE, now_ns, engine_is_idle=idle)[0]]


def test_a_full_batch_runs_at_once_even_while_the_engine_works() -> None:
    assert sizes([Request(1) for _ in range(20)], idle=False) == [1] * 8


def test_less_than_a_batch_waits_for_the_delay_and_says_how_long() -> None:
    queue = [Request(1, parsed_ns=1_000_000), Request(2, parsed_ns=1_500_000)]
    assert gather(queue, RULE, 2_000_000, engine_is_idle=True) == ([], 0.001)
    assert sizes(queue, 3_000_000) == [1, 2]
    assert sizes(queue, 3_000_000, idle=False) == []
    assert gather([], RULE, 0, engine_is_idle=True) == ([], None)


def test_a_request_larger_than_a_batch_runs_alone() -> None:
    assert sizes([Request(100), Request(1)]) == [100]


def test_requests_of_other_inner_dimensions_do_not_mix() -> None:
    assert sizes([Request(1), Request(1, width=9), Request(1)]) == [1]


def test_a_request_that_saw_an_engine_die_runs_alone() -> None:
    assert sizes([Request(1), Request(1, runs_alone=True), Request(1)]) == [1]
    assert sizes([Request(1, runs_alone=True), Request(1)]) == [1]


@given(
    st.lists(st.builds(Request, st.integers(1, 12), st.sampled_from([8, 9]), st.just(0), st.booleans()), max_size=20)
)
def test_a_batch_is_a_prefix_within_the_limit_of_one_width(queue: list[Request]) -> None:
    batch, wait_s = gather(queue, RULE, 10_000_000, engine_is_idle=True)
    assert batch == queue[: len(batch)]
    assert bool(batch) == bool(queue)
    assert wait_s is None
    assert len(batch) <= 1 or sum(request.size for request in batch) <= RULE.max_rows
    assert len({request.width for request in batch}) <= 1
    assert len(batch) <= 1 or not any(request.runs_alone for request in batch)


def spec(*shape: int | str, name: str = "x") -> TensorSpec:
    return TensorSpec(name=name, dtype="FP32", shape=list(shape))


@pytest.mark.parametrize(
    ("inputs", "outputs", "dimension"),
    [([spec("n", 8)], [spec("n", 4)], "n"), ([spec("n", 8), spec("n")], [spec("n")], "n"),
     ([spec(1, 8)], [spec(1, 4)], None), ([spec("n", 8)], [spec("m", 4)], None),
     ([spec("n", 8), spec("m", 8)], [spec("n")], None), ([spec()], [spec("n")], None),
     ([spec("n", "n")], [spec("n")], None), ([spec("n", 8)], [spec("n", "n")], None),
     ([spec("n", 8)], [spec(4)], None)],
)  # fmt: skip
def test_only_a_leading_dimension_that_all_share_is_batched(
    inputs: list[TensorSpec], outputs: list[TensorSpec], dimension: str | None
) -> None:
    assert batch_dimension(Signature(inputs=inputs, outputs=outputs)) == dimension


def test_waiting_requests_run_together_and_each_gets_its_own_rows(folder: Path) -> None:
    options = ServingOptions(batching=Batching(max_batch=8, max_delay_ms=1.0))
    with running(options) as server:
        server.process.load(served(stub_folder(folder, behaviour={"delay_us": 5000})))
        with Load(server.port, clients=8) as load:
            load.more(80)
        assert load.wrong == []
        answers: list[bool] = []

        def ask(number: int) -> None:
            rows = sample_rows(number, rows=1 + number % 3)
            status, answer = server.infer(rows)
            answers.append(status == 200 and close_to(answer["outputs"][0]["data"], expected(rows)))

        clients = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert answers == [True] * 12
        entry = json.loads(server.request("GET", "/v2/models/affine/stats")[2])["model_stats"][0]
        assert entry["execution_count"] < entry["inference_count"] / 1.5

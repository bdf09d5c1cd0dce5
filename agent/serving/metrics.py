"""``GET /metrics`` in Prometheus text form: Triton's stems where it has one, ``mindie_*`` beside them. Pure.

Source of the names: Triton Inference Server, docs/user_guide/metrics.md. Durations are cumulative microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent.serving.control import ModelState, ServerState
from agent.serving.statistics import ModelStatistics

_PER_MODEL: list[tuple[str, str, str, Callable[[ModelStatistics], float]]] = [
    ("nv_inference_request_success", "counter", "Requests answered", lambda s: s.successes),
    ("nv_inference_request_failure", "counter", "Requests failed or timed out", lambda s: s.failures),
    ("nv_inference_count", "counter", "Inferences: a batch of n counts n", lambda s: s.rows),
    ("nv_inference_exec_count", "counter", "Runs of the runtime", lambda s: round(s.executions)),
    ("nv_inference_request_duration_us", "counter", "Arrival to answer", lambda s: s.total_us["total"]),
    ("nv_inference_queue_duration_us", "counter", "Waiting", lambda s: s.total_us["queue"]),
    ("nv_inference_compute_input_duration_us", "counter", "Parsing, building arrays", lambda s: s.total_us["input"]),
    ("nv_inference_compute_infer_duration_us", "counter", "In the runtime", lambda s: s.total_us["infer"]),
    ("nv_inference_compute_output_duration_us", "counter", "Formatting answers", lambda s: s.total_us["output"]),
    ("mindie_engine_crashes", "counter", "Deaths of the engine while it ran this model", lambda s: s.crashes),
]
_STATES: list[tuple[str, str, str, Callable[[ModelState], float]]] = [
    ("nv_inference_pending_request_count", "gauge", "Requests waiting", lambda m: m.queued),
    ("mindie_requests_in_flight", "gauge", "Requests in the engine", lambda m: m.in_flight),
    ("mindie_model_ready", "gauge", "1 when an engine holds the model warm", lambda m: int(m.ready)),
]
_SERVER: list[tuple[str, str, str, Callable[[ServerState], float]]] = [
    ("mindie_connections", "gauge", "Open client connections", lambda s: s.connections),
    ("mindie_engine_restarts", "counter", "Restarts of the engine after it died", lambda s: s.engine_restarts),
    ("mindie_server_rss_bytes", "gauge", "Resident memory of the server", lambda s: s.rss_mb * 1e6),
    ("mindie_engine_rss_bytes", "gauge", "Resident memory of the engines", lambda s: s.engine_rss_mb * 1e6),
]


def prometheus_text(statistics: Iterable[ModelStatistics], state: ServerState) -> bytes:
    """The whole document."""
    versions = list(statistics)
    lines: list[str] = []
    for name, kind, about, of_model in _PER_MODEL:
        lines += [*_head(name, kind, about), *(f"{name}{_labels(s)} {of_model(s):.15g}" for s in versions)]
    for name, kind, about, of_state in _STATES:
        lines += [*_head(name, kind, about), *(f"{name}{_labels(m)} {of_state(m):.15g}" for m in state.models)]
    for name, kind, about, of_server in _SERVER:
        lines += [*_head(name, kind, about), f"{name} {of_server(state):.15g}"]
    return ("\n".join(lines) + "\n").encode()


def _head(name: str, kind: str, about: str) -> list[str]:
    return [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]


def _labels(of: ModelStatistics | ModelState) -> str:
    return f'{{model="{of.name}",version="{of.version}"}}'

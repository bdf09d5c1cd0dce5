"""Whether the serving figures meet their bars: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bars import Bar

OVER_MLSERVER = 3.5
ADDED_US = 500.0


def serving_bars(results: Sequence[Mapping[str, Any]]) -> list[Bar]:
    """Those that the measured servers allow."""
    at = {(one["model"], one["clients"], one["server"]): one for one in results}
    bars = []
    mine = at["tiny", 8, "mindie"]
    peers = [one for (model, clients, server), one in at.items() if (model, clients) == ("tiny", 8) and "mls" in server]
    if peers:
        ratio = mine["requests_per_s"] / max(one["requests_per_s"] for one in peers)
        bars.append(Bar("tiny, JSON, 8 clients: requests/s over MLServer's best", f"at least {OVER_MLSERVER}x",
                        f"{ratio:.2f}x", ratio >= OVER_MLSERVER))  # fmt: skip
    if starlette := at.get(("tiny", 8, "starlette")):
        ratio = mine["requests_per_s"] / starlette["requests_per_s"]
        bars.append(Bar("tiny, JSON, 8 clients: requests/s over Starlette", "at least 1x", f"{ratio:.2f}x", ratio >= 1))
    added_us = at["image", 1, "mindie"]["p50_us"] - at["image", 1, "in-process"]["p50_us"]
    bars.append(Bar("image, binary, 1 client: p50 added over the runtime in-process", f"at most {ADDED_US:.0f} us",
                    f"{added_us:.0f} us", added_us <= ADDED_US))  # fmt: skip
    for model in ("tiny", "image") if ("tiny", 8, "starlette") in at else ():
        ratio = at[model, 8, "mindie"]["p99_us"] / at[model, 8, "starlette"]["p99_us"]
        bars.append(Bar(f"{model}, 8 clients: p99 over Starlette's", "at most 1x", f"{ratio:.2f}x", ratio <= 1))
    return bars

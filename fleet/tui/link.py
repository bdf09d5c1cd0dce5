"""What is known about the server's answers. Pure. Times are seconds of a monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, replace

PATIENCE_S = 5.0
"""A question that waits longer counts as no answer, before its own time limit says so."""
SLOWEST_S = 5.0


@dataclass(frozen=True)
class Link:
    """trouble: why the last question got no good answer. asked_s: since when a question waits. failures: in a row."""

    trouble: str | None = None
    asked_s: float | None = None
    failures: int = 0

    def asking(self, now_s: float) -> Link:
        return replace(self, asked_s=now_s)

    def answered(self) -> Link:
        return Link()

    def failed(self, trouble: str) -> Link:
        return Link(trouble, failures=self.failures + 1)

    def trouble_at(self, now_s: float) -> str | None:
        """What is wrong now; None: nothing."""
        if self.trouble is None and self.asked_s is not None and now_s - self.asked_s > PATIENCE_S:
            return f"server does not answer: silent for {now_s - self.asked_s:.0f} s"
        return self.trouble

    def rest_s(self, poll_s: float) -> float:
        """How long to wait before the next question: longer after failures, never more than SLOWEST_S (or poll_s)."""
        return max(poll_s, min(SLOWEST_S, poll_s * 2 ** min(self.failures, 6)) if self.failures > 1 else poll_s)

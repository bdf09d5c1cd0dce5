"""Sends held-out digits to a device with tritonclient, a client that no one here wrote."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

MODEL = "digits"
INPUT = "image"
OUTPUT = "logits"


@dataclass(frozen=True)
class Measured:
    """Client-side latencies in ms, and the share of right answers."""

    p50_ms: float
    p90_ms: float
    accuracy: float
    requests: int


def ask(client: triton.InferenceServerClient, image: np.ndarray) -> tuple[int, str]:
    """Class and serving version for one image of shape [1, 1, 8, 8], FP32."""
    tensor = triton.InferInput(INPUT, list(image.shape), "FP32")
    tensor.set_data_from_numpy(image)
    result = client.infer(MODEL, [tensor], outputs=[triton.InferRequestedOutput(OUTPUT)])
    return int(np.argmax(result.as_numpy(OUTPUT))), str(result.get_response().get("model_version"))


def measure(port: int, images: np.ndarray, labels: np.ndarray) -> Measured:
    """Every held-out image once, one at a time."""
    client = triton.InferenceServerClient(f"127.0.0.1:{port}", network_timeout=20.0)
    times, right = [], 0
    try:
        for image, label in zip(images, labels, strict=True):
            started = time.perf_counter()
            answer, _ = ask(client, image[None])
            times.append((time.perf_counter() - started) * 1000)
            right += answer == int(label)
    finally:
        client.close()
    return Measured(float(np.percentile(times, 50)), float(np.percentile(times, 90)), right / len(labels), len(labels))


@dataclass
class Stream:
    """Requests sent to one device all the while, in a thread of its own; counts answers by version, and failures."""

    port: int
    images: np.ndarray
    pause_s: float = 0.02
    answers: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send."""
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the request in flight."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(30)

    def _send(self) -> None:
        client = triton.InferenceServerClient(f"127.0.0.1:{self.port}", network_timeout=20.0)
        at = 0
        while not self._stop.wait(self.pause_s):
            try:
                _, version = ask(client, self.images[at % len(self.images)][None])
                self.answers[version] = self.answers.get(version, 0) + 1
            except (InferenceServerException, OSError) as error:
                self.failures.append(str(error))
            at += 1
        client.close()

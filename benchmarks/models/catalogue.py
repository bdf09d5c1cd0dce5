"""The models of the benchmarks: where each comes from, what it takes, and whether its answers mean something."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Model:
    """``source``: "torch" (torch_networks.py), "wheel" (wheels.py), "digits" (examples/digits).

    trained: whether accuracy counts; nets with random weights stand for speed only, and their gate is open (max_drop 1)
    so that a precision is not refused for what a random net does with it. fixed_shapes: dimensions frozen when packed.
    """

    name: str
    source: str
    trained: bool
    about: str
    max_drop: float = 0.01
    fixed_shapes: dict[str, str] = field(default_factory=dict)


MODELS = {
    model.name: model for model in (
        Model("mobilenet-v3-large", "torch", False, "timm mobilenetv3_large_100, 224x224, random weights", 1.0),
        Model("resnet50", "torch", False, "timm resnet50, 224x224, random weights", 1.0),
        Model("digits", "digits", True, "examples/digits, 8x8, held-out digits with labels"),
        Model("magika", "wheel", True, "magika 1.0.3: what kind of file is this, on files of Python's own library"),
        Model("ocr-rec", "wheel", True, "rapidocr-onnxruntime 1.4.4 text recognition, on rendered lines of text",
              fixed_shapes={"x": "1,3,48,320"}),
        Model("bert-small", "torch", False, "encoder of 6 layers, 384 wide, 128 tokens, random weights", 1.0),
        Model("efficientdet-d0", "torch", False, "effdet tf_efficientdet_d0, 512x512, random weights", 1.0),
    )
}  # fmt: skip
"""In the order in which they are measured."""

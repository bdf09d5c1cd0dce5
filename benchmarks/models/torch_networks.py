"""Run in the environment with torch (models.environment): ``python torch_networks.py NAME OUT.onnx``.

The networks have seeded random weights, and batch normalisation that has seen noise, so that activations keep the range
of trained ones: they stand for the speed of their kind, never for its accuracy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["PYTORCH_JIT"] = "0"  # effdet's scripted parts do not export
sys.path.insert(0, str(Path(__file__).parent / "stand_ins"))

import torch
from torch import Tensor, nn

SEED = 11
OPSET = 17
SETTLING_BATCHES = 4
Example = tuple[Tensor, ...]


class Encoder(nn.Module):
    """BERT's shape, small: token and position embeddings, post-norm layers, a pooled answer of two classes.

    ``input_ids`` and ``attention_mask``: int64 [1, 128]. Returns float32 [1, 2].
    """

    def __init__(self, layers: int = 6, width: int = 384, heads: int = 12, words: int = 8192, length: int = 128):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        self.classes = nn.Linear(width, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        places = torch.arange(input_ids.shape[1])
        x = self.norm(self.words(input_ids) + self.places(places))
        bias = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        scores: Tensor = self.classes(torch.tanh(self.pooler(x[:, 0])))
        return scores


class EncoderLayer(nn.Module):
    """Attention and a feed-forward part of four times the width, each with its residual and norm behind it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        batch, length, width = x.shape

        def by_head(y: Tensor) -> Tensor:
            return y.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = by_head(self.query(x)), by_head(self.key(x)), by_head(self.value(x))
        weights = torch.softmax(q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5 + bias, dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        x = self.norm_1(x + self.out(mixed))
        answer: Tensor = self.norm_2(x + self.down(nn.functional.gelu(self.up(x))))
        return answer


def bert_small() -> tuple[nn.Module, Example, list[str], list[str]]:
    network = Encoder()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0.0, 0.04)
    example = (torch.randint(0, 8192, (1, 128)), torch.ones(1, 128, dtype=torch.int64))
    return network, example, ["input_ids", "attention_mask"], ["scores"]


def image_classifier(name: str, **options: object) -> tuple[nn.Module, Example, list[str], list[str]]:
    import timm

    network = timm.create_model(name, pretrained=False, **options)
    settle(network, 224)
    return network, (torch.randn(1, 3, 224, 224),), ["image"], ["scores"]


class Flattened(nn.Module):
    """A detector's per-level maps as one tensor each: classes [1, anchors, 90] and boxes [1, anchors, 4]."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        classes, boxes = self.detector(image)
        return _rows(classes, 90), _rows(boxes, 4)


def _rows(levels: list[Tensor], width: int) -> Tensor:
    return torch.cat([level.permute(0, 2, 3, 1).reshape(1, -1, width) for level in levels], dim=1)


def efficientdet_d0() -> tuple[nn.Module, Example, list[str], list[str]]:
    from effdet.config import get_efficientdet_config
    from effdet.efficientdet import EfficientDet

    detector = EfficientDet(get_efficientdet_config("tf_efficientdet_d0"), pretrained_backbone=False)
    settle(detector, 512)
    return Flattened(detector), (torch.randn(1, 3, 512, 512),), ["image"], ["classes", "boxes"]


def settle(network: nn.Module, side: int) -> None:
    """Let batch normalisation take the range of what flows through it."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the plain average
            module.reset_running_stats()
    network.train()
    with torch.no_grad():
        for _ in range(SETTLING_BATCHES):
            network(torch.randn(4, 3, side, side))
    network.eval()


NETWORKS: dict[str, Callable[[], tuple[nn.Module, Example, list[str], list[str]]]] = {
    "mobilenet-v3-large": lambda: image_classifier("mobilenetv3_large_100"),
    "resnet50": lambda: image_classifier("resnet50"),
    "bert-small": bert_small,
    "efficientdet-d0": efficientdet_d0,
}


def main(name: str, out: Path) -> None:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    network, example, inputs, outputs = NETWORKS[name]()
    network.eval()
    torch.onnx.export(
        network, example, str(out), input_names=inputs, output_names=outputs, opset_version=OPSET, dynamo=False
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

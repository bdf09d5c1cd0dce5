"""Train a small CNN on scikit-learn's 8x8 digits and export `digits.onnx`.

Plain torch on purpose: this script only provides the example model of the tutorial and the demo. It needs
`pip install torch scikit-learn onnx onnxscript` and takes about half a minute on a CPU.

    python train.py [--out DIR]

Input `image`: float32 [batch, 1, 8, 8] with values in [0, 1]. Output `logits`: float32 [batch, 10].
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
import torch
from samples import Split, split_digits
from torch import nn

SEED = 20
EPOCHS = 40
BATCH = 64
OPSET = 17
MAX_IR_VERSION = 8  # what opset 17 was released with, so that runtimes from 2022 on load it
MIN_ACCURACY = 0.97
MAX_BYTES = 500_000


def conv_block(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(channels_out),
        nn.ReLU(),
    )


class DigitNet(nn.Module):
    """float32 [batch, 1, 8, 8] in [0, 1] -> logits [batch, 10]; 58,000 weights, 1.8 million multiply-adds."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            conv_block(1, 32),
            conv_block(32, 64),
            nn.MaxPool2d(2),
            conv_block(64, 64),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 2 * 2, 10))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.classifier(self.features(image))
        return logits


def accuracy(model: nn.Module, split: Split) -> float:
    model.eval()
    with torch.no_grad():
        predicted = model(torch.from_numpy(split.image)).argmax(dim=1)
    return float((predicted == torch.from_numpy(split.labels)).float().mean())


def train(model: nn.Module, split: Split, shuffle: torch.Generator) -> None:
    images, labels = torch.from_numpy(split.image), torch.from_numpy(split.labels)
    steps = EPOCHS * -(-len(images) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=5e-3, total_steps=steps)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for chosen in torch.randperm(len(images), generator=shuffle).split(BATCH):
            loss = nn.functional.cross_entropy(model(images[chosen]), labels[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}/{EPOCHS}: loss {total / len(images):.4f}")


def export(model: nn.Module, path: Path) -> None:
    """Write an inference graph with a free batch dimension; batch normalisation is folded into the convolutions."""
    model.eval()
    torch.onnx.export(
        model,
        (torch.zeros(2, 1, 8, 8),),
        str(path),
        dynamo=False,
        opset_version=OPSET,
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
    )
    exported = onnx.load(path)
    exported.ir_version = min(exported.ir_version, MAX_IR_VERSION)
    exported.graph.name = "digits"
    onnx.checker.check_model(exported, full_check=True)
    path.write_bytes(exported.SerializeToString(deterministic=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder for digits.onnx")
    path = parser.parse_args().out / "digits.onnx"

    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # sums over another number of threads round differently: other weights, other bytes
    training, heldout = split_digits()
    model = DigitNet()
    train(model, training, torch.Generator().manual_seed(SEED))
    reached = accuracy(model, heldout)
    export(model, path)
    print(f"{path}: {path.stat().st_size:,} bytes, held-out accuracy {reached:.4f} on {len(heldout.labels)} images")
    if reached < MIN_ACCURACY or path.stat().st_size > MAX_BYTES:
        raise SystemExit(f"not good enough: needs accuracy >= {MIN_ACCURACY} in at most {MAX_BYTES:,} bytes")


if __name__ == "__main__":
    main()

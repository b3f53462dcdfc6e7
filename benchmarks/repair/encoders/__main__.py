"""Trains the encoders and writes them: `.venv-samples/bin/python -m benchmarks.repair.encoders OUT`.

    vit_S.onnx    a ViT on CIFAR-10's images: input `image` float32 [1, 3, 32, 32], output `logits`
    text_S.onnx   an encoder that tells by 64 words of a source which package it is of: input `words` int64
    *.npz         what they have never seen: the input, and `labels`

One of each seed S, on one thread; what is there already is left as it is. `*.json` tells their accuracy.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.repair.encoders import data
from benchmarks.repair.encoders.model import Encoder, Patches

BATCH, RATE, DECAY = 50, 1e-3, 0.05
EPOCHS = {"vit": 40, "text": 8}
WIDTH, DEPTH, HEADS, PATCH = 96, 4, 4, 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=tuple(EPOCHS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for kind in EPOCHS if given.only is None else (given.only,):
        missing = [s for s in range(given.seeds) if not (given.out / f"{kind}_{s}.onnx").is_file()]
        if not missing:
            continue
        found = data.images() if kind == "vit" else data.texts()
        name = "image" if kind == "vit" else "words"
        np.savez_compressed(given.out / f"{kind}.npz", **{name: found.test, "labels": found.test_labels})
        for seed in missing:
            _made(kind, name, found, seed, given.out)


def _made(kind: str, name: str, found: data.Data, seed: int, out: Path) -> None:
    """Trains one and writes it."""
    torch.manual_seed(seed)
    start = time.process_time()
    net = _net(kind, found)
    _trained(net, found, EPOCHS[kind], mirrored=kind == "vit")
    accuracy = {part: _accuracy(net, *of) for part, of in _parts(found).items()}
    seconds = time.process_time() - start
    path = out / f"{kind}_{seed}.onnx"
    sample = (torch.from_numpy(found.test[:1]),)
    torch.onnx.export(net, sample, path, dynamo=True, opset_version=18, input_names=[name],
                      output_names=["logits"], external_data=False, verbose=False)  # fmt: skip
    said = {**accuracy, "train": len(found.train), "test": len(found.test), "cpu_seconds": seconds}
    path.with_suffix(".json").write_text(json.dumps(said))
    print(path.name, said, flush=True)


def _net(kind: str, found: data.Data) -> Encoder:
    classes = int(found.train_labels.max()) + 1
    if kind == "vit":
        length = (found.train.shape[-1] // PATCH) ** 2
        return Encoder(
            Patches(PATCH, WIDTH), length, classes, width=WIDTH, depth=DEPTH, heads=HEADS, first=True
        )
    words = nn.Embedding(data.WORDS, WIDTH)
    return Encoder(words, data.LENGTH, classes, width=WIDTH, depth=DEPTH, heads=HEADS, first=False)


def _trained(net: nn.Module, found: data.Data, epochs: int, *, mirrored: bool) -> None:
    inputs, labels = torch.from_numpy(found.train), torch.from_numpy(found.train_labels)
    optimizer = torch.optim.AdamW(net.parameters(), RATE, weight_decay=DECAY)
    steps = epochs * -(-len(inputs) // BATCH)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, steps, pct_start=0.1)
    loss_of = nn.CrossEntropyLoss(label_smoothing=0.1)
    net.train()
    for _ in range(epochs):
        for chosen in torch.randperm(len(inputs)).split(BATCH):
            batch = _moved(inputs[chosen]) if mirrored else inputs[chosen]
            optimizer.zero_grad()
            loss_of(net(batch), labels[chosen]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            plan.step()
    net.eval()


def _moved(images: Tensor) -> Tensor:
    """Images, half of them mirrored, moved by up to 4 pixels."""
    flipped = torch.where((torch.rand(len(images)) < 0.5)[:, None, None, None], images.flip(3), images)
    padded = nn.functional.pad(flipped, (4, 4, 4, 4), mode="reflect")
    top, left = torch.randint(9, (2,)).tolist()
    return padded[:, :, top : top + images.shape[2], left : left + images.shape[3]]


def _parts(found: data.Data) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        "accuracy_train": (found.train, found.train_labels),
        "accuracy_test": (found.test, found.test_labels),
    }


@torch.no_grad()
def _accuracy(net: nn.Module, inputs: np.ndarray, labels: np.ndarray) -> float:
    given = torch.from_numpy(inputs).split(BATCH)
    predicted = torch.cat([net(batch).argmax(1) for batch in given]).numpy()
    return float((predicted == labels).mean())


if __name__ == "__main__":
    main()

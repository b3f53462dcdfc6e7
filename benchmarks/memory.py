"""Peak memory of `onnxq quantize` with few and with many samples, of each kind of data."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from benchmarks import nets
from benchmarks.common import print_row

FEW, MANY, SIZE = 64, 1024, 96
GOAL = 1.03

_QUANTIZE = """
import sys
from pathlib import Path
from onnxq.pipeline import quantize

quantize(sys.argv[1], sys.argv[2], samples=int(sys.argv[3]), compile=False)
status = Path("/proc/self/status").read_text()  # getrusage counts what the parent had before exec
print(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))
"""


def main() -> None:
    per_sample = 3 * SIZE * SIZE * 4
    print(
        f"memory: ResNet-18 quantized in a fresh process; {MANY} samples of 3 x {SIZE} x {SIZE} "
        f"take {MANY * per_sample / 2**20:.0f} MiB"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        onnx.save(nets.resnet18(size=SIZE), root / "net.onnx")
        for kind, write in (("images", _images), ("one .npy", _npy), ("one .npz", _npz)):
            few, many = (_peak_mib(root / "net.onnx", write(root, count), count) for count in (FEW, MANY))
            detail = f"{many:.0f} / {few:.0f} MiB"
            print_row(f"  {kind}, {MANY} samples / {FEW}", many / few, GOAL, detail)


def _images(root: Path, count: int) -> Path:
    folder = root / f"images{count}"
    folder.mkdir()
    random = np.random.default_rng(0)
    for index in range(count):
        pixels = random.integers(0, 256, (SIZE, SIZE, 3), np.uint8)
        Image.fromarray(pixels).save(folder / f"{index:04}.png", compress_level=0)
    return folder


def _samples(count: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((count, 3, SIZE, SIZE), np.float32)


def _npy(root: Path, count: int) -> Path:
    path = root / f"samples{count}.npy"
    np.save(path, _samples(count))
    return path


def _npz(root: Path, count: int) -> Path:
    path = root / f"samples{count}.npz"
    np.savez(path, x=_samples(count))
    return path


def _peak_mib(model: Path, data: Path, samples: int) -> float:
    """The largest resident size of a process that quantizes, MiB."""
    command = [sys.executable, "-c", _QUANTIZE, str(model), str(data), str(samples)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


if __name__ == "__main__":
    main()

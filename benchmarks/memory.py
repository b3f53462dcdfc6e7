"""Peak memory of `onnxq quantize` with few and with many samples, of each kind of data.

glibc raises the size from which it maps blocks one by one as a process frees such blocks; where the
others lie is chance, and the peak of one and the same run varies by 5 %. Here that size is fixed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from PIL import Image

from benchmarks import nets
from benchmarks.common import print_row

FEW, MANY, SIZE = 64, 1024, 96
GOAL = 1.03

_COMMAND = """
from pathlib import Path
from onnxq.cli.app import main

try:
    main()
finally:
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
            folders = [write(root, count) for count in (FEW, MANY)]
            for method in ("minmax", "auto", "auto exact"):
                few, many = (_quantized(root, data, method.split()) for data in folders)
                detail = f"{many:.0f} / {few:.0f} MiB"
                print_row(f"  {kind}, {method}, {MANY} samples / {FEW}", many / few, GOAL, detail)


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


def _quantized(root: Path, data: Path, method: Sequence[str]) -> float:
    """The peak of `onnxq quantize`, MiB."""
    flags: list[str | Path] = ["-o", root / "int8.onnx", "--samples", str(MANY), "--no-engine"]
    settings = root / "settings.toml"
    settings.write_text(f"[calibration]\nexact = {str('exact' in method).lower()}\n")
    flags += ["--method", method[0], "--config", settings]
    return peak_mib(["quantize", root / "net.onnx", "--calib", data, *flags])


def peak_mib(arguments: Sequence[str | Path]) -> float:
    """The largest resident size of the command `onnxq` with these arguments, MiB."""
    command = [sys.executable, "-c", _COMMAND, "-q", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout) / 1024


if __name__ == "__main__":
    main()

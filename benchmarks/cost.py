"""What a default run costs, beside another checkout and Model-Optimizer: `python -m benchmarks.cost [TREE]`.

CPU seconds and peak memory of two nets, with compilation, in turns. It takes less than five minutes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.common import print_header, print_row, ratio_of
from benchmarks.corpus import write_samples
from benchmarks.repair import nets, tools
from benchmarks.repair.tools import Made

ROUNDS = 2
_NETS = ("digits", "CONV_mobilenetv1_0.25_224_keras")
_SAMPLES = 64
_HERE, _BEFORE, _PEER = "auto", "auto@before", "modelopt-default"


def main() -> None:
    """Prints a row a net and a tool."""
    trees = {_HERE: tools.prepared(tools.ROOT)}
    if sys.argv[1:]:
        trees[_BEFORE] = tools.prepared(Path(sys.argv[1]).resolve())
    others = [_PEER] if _PEER in tools.peers() else []
    print_header()
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        for net in nets.nets(_NETS, [_SAMPLES]):
            folder = Path(name, net.name)
            folder.mkdir()
            model = folder / "float.onnx"  # some tools write into what they read
            shutil.copyfile(net.model(0), model)
            write_samples(folder / "samples", net.split(0).fitting)
            _print(net.name, _measured(folder, model, [*trees, *others], trees))


def _measured(
    folder: Path, model: Path, names: Sequence[str], trees: Mapping[str, Path]
) -> dict[str, list[Made]]:
    found: dict[str, list[Made]] = {name: [] for name in names}
    for _ in range(ROUNDS):
        for name, done in found.items():
            work = Path(tempfile.mkdtemp(dir=folder))
            tree = trees.get(name, tools.ROOT)
            done.append(
                tools.made(name, model, folder / "samples", work / "int8.onnx", tree=tree, compiled=True)
            )
    return found


def _print(net: str, found: Mapping[str, Sequence[Made]]) -> None:
    for name, done in found.items():
        if error := next((one.error for one in done if one.error), ""):
            print(f"{net}, {name}: {error}")
            continue
        if name == _HERE or any(one.error for one in found[_HERE]):
            continue
        other = "the checkout before" if name == _BEFORE else tools.PEERS[name]
        for what, key in (("CPU seconds", "cpu"), ("peak memory", "mib")):
            here, there = ([getattr(one, key) for one in some] for some in (found[_HERE], done))
            ratio, spread = ratio_of(here, there)
            figures = ", ".join(f"{a:.1f} / {b:.1f}" for a, b in zip(here, there, strict=True))
            print_row(f"{net}: {what} / {other}", ratio, None, f"{figures}; {spread}")


if __name__ == "__main__":
    main()

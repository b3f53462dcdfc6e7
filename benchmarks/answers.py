"""Failures that are planted, and whether the first three lines name them: `python -m benchmarks.answers`.

Each case is a folder with a model and samples in which one thing is wrong, and a command line of a user who
does not know it. Needs ONNXQ_CORPUS, and ONNXQ_IMAGENET: a folder of photographs. A case whose command can
mend it runs what is printed, as it stands, and looks at the answer again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.repair.printing import table

MOBILENET, SQUEEZENET = "CONV_mobilenetv1_0.25_224_keras.onnx", "CONV_squeezenet_winml_fp32.onnx"
ULTRAFACE, CIFAR, MNIST = "ultraface_rfb320.onnx", "cifar10_pytorch_winml.onnx", "mnist_cntk_ortie.onnx"
CAFFE = "--scale 1 --color bgr --mean 103.939,116.779,123.68"


@dataclass(frozen=True, slots=True)
class PlantedFailure:
    """Something that is wrong.

    Attributes:
        name: what.
        model: a model of the corpus, "" where `plant` makes `net.onnx`.
        flags: the flags of the command line, behind the model.
        named: a pattern that the first three lines hold.
        plant: makes what the command line reads, in a folder.
        mends: whether the printed command mends it.
    """

    name: str
    model: str
    flags: str
    named: str
    plant: Callable[[Path], object] = lambda folder: None
    mends: bool = False


# -- samples -------------------------------------------------------------------------------------


def _corpus() -> Path:
    return Path(os.environ["ONNXQ_CORPUS"])


def photographs(folder: Path, count: int = 64, *, same: bool = False) -> None:
    """Links to photographs, `photos/`; `same`: to one of them."""
    found = sorted(Path(os.environ["ONNXQ_IMAGENET"]).rglob("*.JPEG"))
    chosen = np.random.default_rng(0).permutation(len(found))[:count]
    (folder / "photos").mkdir()
    for place, index in enumerate(chosen):
        (folder / "photos" / f"{place}.jpg").symlink_to(found[chosen[0] if same else index])


def noise(folder: Path) -> None:
    from PIL import Image

    (folder / "photos").mkdir()
    random = np.random.default_rng(0)
    for place in range(64):
        pixels = random.integers(0, 256, (224, 224, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{place}.png")


def cifar(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Images of CIFAR-10 as arrays, changed: float32 `[N, 3, 32, 32]`, -1 to 1 before."""

    def plant(folder: Path) -> None:
        images = np.load(_corpus() / "data" / "cifar10_2500.npz")["images"][:200]
        values = images.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1
        np.save(folder / "x.npy", change(values).astype(np.float32))

    return plant


def some_twice(values: np.ndarray) -> np.ndarray:
    made = values.copy()
    made[::3] /= 255
    return made


def inverted(folder: Path) -> None:
    """Black digits on white, 0 to 255, where the net takes white ones on black."""
    held = np.load(_corpus() / "data" / "mnist_5000.npz")
    np.save(folder / "x.npy", 255 - held["images"][:128, None].astype(np.float32))


def digits(folder: Path) -> None:
    """Digits from 0 to 1, and a score that feeds 0 to 255."""
    held = np.load(_corpus() / "data" / "mnist_5000.npz")
    images, labels = held["images"].astype(np.float32)[:, None], held["labels"]
    np.save(folder / "x.npy", images[:200] / 255)
    np.savez(folder / "test.npz", images=images[1000:1200], labels=labels[1000:1200])
    (folder / "score.py").write_text(
        "import numpy as np\n"
        "def top1(run):\n"
        "    held = np.load('test.npz')\n"
        "    answers = [next(iter(run({'Input3': one[None]}).values())).argmax() for one in held['images']]\n"
        "    return 100.0 * float(np.mean(np.array(answers) == held['labels']))\n"
    )


# -- models --------------------------------------------------------------------------------------


def chain(folder: Path, *, batch: int | str = 1, widths: Sequence[int] = (64, 64, 64), rows: bool = False,
          op: str = "") -> None:  # fmt: skip
    """A chain of convolutions, or of products of `rows`, and 64 samples for it."""
    random, nodes, weights = np.random.default_rng(0), [], []
    value = "x"
    for place, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        shape = (inputs, outputs) if rows else (outputs, inputs, 3, 3)
        scale = np.sqrt(2 / (inputs * (1 if rows else 9)))
        made = (random.standard_normal(shape) * scale).astype(np.float32)
        weights.append(numpy_helper.from_array(made, f"w{place}"))
        kind, more = ("MatMul", {}) if rows else ("Conv", {"pads": [1, 1, 1, 1]})
        nodes.append(helper.make_node(kind, [value, f"w{place}"], [f"c{place}"], f"layer{place}", **more))
        nodes.append(helper.make_node("Relu", [f"c{place}"], [f"r{place}"], f"relu{place}"))
        value = f"r{place}"
    if op:
        nodes.append(helper.make_node(op, [value], ["special"], "special", domain="vendor"))
        value = "special"
    nodes.append(helper.make_node("Identity", [value], ["y"], "last"))
    tail = [] if rows else [16, 16]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, widths[0], *tail])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, widths[-1], *tail])], weights,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid("vendor", 1)] if op else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "net.onnx")
    np.save(folder / "x.npy", random.standard_normal((64, widths[0], *tail)).astype(np.float32))


def clipped(folder: Path) -> None:
    """One layer whose range somebody set a thousand times too small."""
    photographs(folder)
    (folder / "onnxq.toml").write_text('[[layer]]\nmatch = "*conv_pw_6*"\namax = 1e-3\n')


def untrained(folder: Path) -> None:
    photographs(folder)
    model = onnx.load(_corpus() / "models" / SQUEEZENET)
    random = np.random.default_rng(0)
    for one in model.graph.initializer:
        values = numpy_helper.to_array(one)
        if values.ndim == 4:
            made = (random.standard_normal(values.shape) * 1e-4).astype(np.float32)
            one.CopyFrom(numpy_helper.from_array(made, one.name))
    onnx.save(model, folder / "net.onnx")


CASES = (
    PlantedFailure("wrong mean and std", MOBILENET, "--calib photos --preset imagenet", "127.5",
                   photographs, mends=True),
    PlantedFailure("not scaled", MOBILENET, "--calib photos --preset raw", "127.5", photographs, mends=True),
    PlantedFailure("scale of 0 to 1", MOBILENET, "--calib photos", "127.5", photographs, mends=True),
    PlantedFailure("BGR for RGB", MOBILENET, "--calib photos --preset tensorflow --color bgr",
                   "channels|--color rgb", photographs, mends=True),
    PlantedFailure("Caffe's values missing", SQUEEZENET, "--calib photos --preset imagenet",
                   "0 to 255|Caffe", photographs, mends=True),
    PlantedFailure("normalized twice", CIFAR, "--calib x.npy", "prepared|twice|surer",
                   cifar(lambda values: values / 127.5 - 1)),
    PlantedFailure("divided by 255 once more", CIFAR, "--calib x.npy", "prepared|twice|surer",
                   cifar(lambda values: (values + 1) / 2 / 255)),
    PlantedFailure("0 to 1, and nothing says that the outputs are scores", CIFAR, "--calib x.npy",
                   "surer", cifar(lambda values: (values + 1) / 2)),
    PlantedFailure("BGR for RGB, in arrays", CIFAR, "--calib x.npy", "in the other order|order BGR",
                   cifar(lambda values: values[:, ::-1])),
    PlantedFailure("black digits on white", MNIST, "--calib x.npy", "black and white", inverted),
    PlantedFailure("prepared in two ways", CIFAR, "--calib x.npy", "two ways", cifar(some_twice)),
    PlantedFailure("the score is fed otherwise", MNIST,
                   "--calib x.npy --eval score.py:top1 --max-drop 0.5", "times as large|fed", digits),
    PlantedFailure("five samples", MOBILENET, "--calib photos --preset tensorflow", "samples?",
                   lambda folder: photographs(folder, 5)),
    PlantedFailure("one sample, 64 times", MOBILENET, "--calib photos --preset tensorflow", "equal",
                   lambda folder: photographs(folder, same=True)),
    PlantedFailure("noise for photographs", MOBILENET, "--calib photos --preset tensorflow",
                   "noise|made for|same answer|not what is fed", noise),
    PlantedFailure("weights that are not trained", "", "--calib photos", "trained|vary|same answer|magnif",
                   untrained),
    PlantedFailure("one layer is clipped", MOBILENET, "--calib photos --preset tensorflow", "conv_pw_6",
                   clipped, mends=True),
    PlantedFailure("one row at a time", "", "--calib x.npy", "row|batch|float model",
                   lambda folder: chain(folder, batch="N", widths=(1024, 1024, 1024), rows=True)),
    PlantedFailure("more bytes than float16", MOBILENET, "--calib photos --preset tensorflow --body fp32",
                   r"1\.\d+ times the bytes", photographs, mends=True),
    PlantedFailure("an operator that nobody has", "", "--calib x.npy", "special|Special",
                   lambda folder: chain(folder, op="Special")),
    PlantedFailure("a profile from 1 to 2048", "", "--calib x.npy --batch 1:1:2048", "2048",
                   lambda folder: chain(folder, batch="N")),
    PlantedFailure("nothing compiled it", "", "--calib x.npy --no-engine", "compile", chain, mends=True),
    PlantedFailure("photographs without faces", ULTRAFACE, "--calib photos --mean 127 --std 128 --scale 1",
                   "detections", noise),
)  # fmt: skip

HEALTHY = (
    (SQUEEZENET, f"--calib photos {CAFFE}"), (MOBILENET, "--calib photos --preset tensorflow"),
    (CIFAR, "--calib x.npy"), ("", "--calib x.npy"),
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--lines", action="store_true", help="print the first lines of each")
    given = parser.parse_args()
    rows, named = [], 0
    for case in CASES:
        if given.only in case.name:
            row, lines = run(case)
            rows.append(row)
            named += row[1] == "yes"
            print(*row, sep="  ", file=sys.stderr, flush=True)
            if given.lines:
                print(*lines, sep="\n  ", file=sys.stderr, flush=True)
    table(("planted", "named", "answer", "after the command"), rows)
    print(f"\n{named} of {len(rows)} are named in the first three lines")
    return int(named < len(rows))


def run(case: PlantedFailure) -> tuple[tuple[str, ...], Sequence[str]]:
    """Whether a failure is named, the answer to it, and to what its command makes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        case.plant(folder)
        model = str(_corpus() / "models" / case.model) if case.model else "net.onnx"
        line = ["quantize", model, *shlex.split(case.flags), "-o", "q.onnx"]
        first = _run(folder, line)
        lines = first.splitlines()[:3]
        found = re.search(case.named, "\n".join(lines)) is not None
        before, after = _answer(folder), ""
        if case.mends:
            command = str(before.get("command") or "")
            if command.startswith("onnxq quantize"):
                _run(folder, [*shlex.split(command)[1:], "--force"])
                now = _answer(folder)
                gone = not any(one["said"] == before["because"] for one in now["findings"])
                after = f"{now['answer']}{'' if gone else ', the finding stays'}"
            else:
                after = "no command"
        return (case.name, "yes" if found else "NO", str(before.get("answer", "failed")), after), lines


def _run(folder: Path, line: Sequence[str]) -> str:
    words = [sys.executable, "-m", "onnxq", *line]
    environment = {**os.environ, "COLUMNS": "500"}
    ran = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    return ran.stdout or ran.stderr


def _answer(folder: Path) -> dict[str, Any]:
    path = folder / "q.report.json"
    found: dict[str, Any] = json.loads(path.read_text())["advice"] if path.exists() else {}
    return found


if __name__ == "__main__":
    sys.exit(main())

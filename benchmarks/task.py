"""What is kept in int8, and how near it is: `python -m benchmarks.task [NET ...] [--splits 0 1 2]`.

Each split calibrates on some photographs and judges on others. ONNXQ_CORPUS names the folder of nets, and
ONNXQ_IMAGENET one of photographs; without it, parts of the corpus's photographs of people are taken. A path
is a YOLO of the user's, fed with RGB from 0 to 1. The layout of each net is what its graph says. "kept" is of
the float net's answers, "new" what only int8 has; "worst dB" is the SQNR about the mean of the worst part of
the outputs, "CPU" what quantizing took, in seconds. `--json` keeps the rows, `--against` one that was kept.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import onnxq
from benchmarks import corpus_data
from benchmarks.corpus_data import Pixels
from benchmarks.repair.printing import table
from onnxq.graph.model import Model
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.repair.ledger import RepairStep
from onnxq.run import ort
from onnxq.run.compare import compare_models
from onnxq.run.finding_parts import find_parts
from onnxq.task.known import KnownTask
from onnxq.task.meter import TaskMeter
from onnxq.task.stated import StatedTask

NETS = (
    "ultraface_rfb320", "yunet_120x160", "yunet_s_640", "nanodet_m_416_mot", "ortext_fastestdet",
    "CONV_mobilenetv1_0.25_224_keras", "CONV_squeezenet_winml_fp32", "mobilenetv2_0.35_128_flowers_st",
)  # fmt: skip
YOLO = Pixels("RGB", 0, 255), 320, "detect:boxes=0:4,scores=4:,cxcywh,BCN"
"""How a YOLO that is given by its path is fed, and what its graph may not say where sizes are dynamic."""

Sample = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Row:
    """What a net has of a split in int8.

    Attributes:
        net: its name.
        split: which one.
        worst_db: the SQNR about the mean of the worst part of its outputs.
        kept: how many of the answers of `whole` are kept; None where it is not known what it is for.
        whole: how many answers the float net has.
        what: what these are.
        new: detections that the float net has not.
        cpu: seconds of the processors that quantizing took.
        steps: which steps of repair were kept.
        said: what answers decided, step by step.
    """

    net: str
    split: int
    worst_db: float
    kept: float | None
    whole: float
    what: str
    new: int
    cpu: float
    steps: str
    said: list[str]


def main() -> int:
    given = _arguments()
    folder = os.environ.get("ONNXQ_CORPUS")
    if folder is None:
        print("ONNXQ_CORPUS names no folder of nets")
        return 1
    corpus = Path(folder)
    entries = {entry["name"]: entry for entry in json.loads((corpus / "manifest.json").read_text("utf-8"))}
    before = {(one["net"], one["split"]): one for one in _kept(given.against)}
    rows = []
    names = [name for name in NETS if any(fnmatch.fnmatchcase(name, glob) for glob in given.nets)]
    for name in [*names, *(one for one in given.nets if one.endswith(".onnx"))]:
        path = Path(name) if name.endswith(".onnx") else corpus / "models" / f"{name}.onnx"
        count, sample = _pool(corpus, entries.get(name) or path, given.calibrating + given.judges)
        task = None if name in entries else YOLO[2]
        for split in given.splits:
            order = np.random.default_rng(split).permutation(count)
            judges = order[given.calibrating : given.calibrating + given.judges]
            calibrating = [sample(place) for place in order[: given.calibrating]]
            row = measured(path, split, calibrating, map(sample, judges), given.repair, task)
            rows.append(row)
            print(*_cells(row, before), sep="  ", file=sys.stderr, flush=True)
            if given.json is not None:
                given.json.write_text(json.dumps([asdict(one) for one in rows], indent=1), "utf-8")
    table(("net", "split", "worst dB", "kept", "of", "new", "CPU s", "steps", "by answers"),
          [_cells(row, before) for row in rows])  # fmt: skip
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.task")
    parser.add_argument("nets", nargs="*", default=["*"], metavar="NET", help="by name, or paths")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2], metavar="SEED")
    parser.add_argument("--calibrating", type=int, default=64, help="photographs that calibrate")
    parser.add_argument("--judges", type=int, default=300, help="photographs that judge a split")
    parser.add_argument("--repair", default=None, help="as of onnxq quantize")
    parser.add_argument("--json", type=Path, help="keep the rows there")
    parser.add_argument("--against", type=Path, help="rows of another checkout, shown behind an arrow's tail")
    return parser.parse_args()


def _kept(path: Path | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [] if path is None else json.loads(path.read_text("utf-8"))
    return found


def _pool(corpus: Path, entry: dict[str, Any] | Path, count: int) -> tuple[int, Callable[[int], Sample]]:
    """How many photographs there are, and one of them as a net is fed it."""
    if isinstance(entry, Path):
        pixels, size, _ = YOLO
        taken = Model.open(entry).inputs[0].name, [1, 3, size, size], pixels
        entry = {"name": "ultraface", "inputs": [{"name": taken[0]}], "run_shapes": {taken[0]: taken[1]}}
    else:
        found = corpus_data.photographed(entry)
        assert found is not None
        taken = found
    folder = os.environ.get("ONNXQ_IMAGENET")
    if folder is None:
        drawn = list(corpus_data.drawn(corpus, entry, 0, count))
        return len(drawn), drawn.__getitem__
    files = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in (".jpeg", ".jpg"))
    return len(files), lambda place: corpus_data.fed(Image.open(files[place]), *taken)


def measured(
    path: Path,
    split: int,
    calibrating: Sequence[Sample],
    judging: Iterable[Sample],
    repair: str | None,
    task: str | None,
) -> Row:
    """What a net keeps in int8 that was made with some samples, on others."""
    given = {"seed": split, "repair": repair, "task": task}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    start = sum(os.times()[:4])
    made = onnxq.quantize(path, calibrating, compile=False, body="fp32", layer_samples=0, **options)
    cpu = sum(os.times()[:4]) - start
    floats, int8, model = ort.load(path), ort.load(made.model), Model.open(path)
    stated = None if task is None else StatedTask.of(task)
    layout = KnownTask.of(stated, model, floats.outputs).layout
    parts = find_parts(model, floats, calibrating)
    about, meters = AboutMeanMeter(parts), list[Any]()
    if layout is not None:
        meters = [TaskMeter(floats.outputs, layout)]
    compare_models(floats, int8, judging, meters=[about, *meters])
    worst = about.result().worst_output_db
    repaired = made.report.repair
    steps = () if repaired is None else repaired.steps
    figure = meters[0].figure if meters else None
    return Row(
        path.stem, split, math.nan if worst is None else worst,
        None if figure is None else figure.kept,
        0 if figure is None else figure.whole, "" if figure is None else figure.name,
        0 if figure is None else figure.new, cpu,
        "+".join(one.step for one in steps if one.verdict == "kept"),
        [_said(one) for one in steps if one.answers is not None],
    )  # fmt: skip


def _said(step: RepairStep) -> str:
    answers = step.answers
    assert answers is not None
    shown = f": {step.why}" if answers.shown else ""
    what = f"{answers.kept:+.4g} of {answers.whole:.0f}, {answers.new:+.0f} new"
    return f"{step.step} {step.verdict} {what}{shown}"


def _cells(row: Row, before: Mapping[tuple[str, int], Mapping[str, Any]]) -> tuple[str, ...]:
    was = before.get((row.net, row.split))

    def cell(text: str, name: str, value: Any) -> str:
        new = "" if value is None else format(value, text)
        if was is None or was[name] is None:
            return new
        return f"{was[name]:{text}} -> {new}"

    return (
        row.net, str(row.split), cell(".2f", "worst_db", row.worst_db), cell(".0f", "kept", row.kept),
        f"{row.whole:.0f} {row.what}", cell("d", "new", row.new), cell(".1f", "cpu", row.cpu), row.steps,
        "; ".join(row.said),
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

"""How many detections are kept in int8: `python -m benchmarks.task [NET ...] [--splits 3] [--judges 300]`.

Each split calibrates on 64 photographs and judges on others. ONNXQ_CORPUS names the folder of nets, and
ONNXQ_IMAGENET one of photographs; without it, parts of the corpus's photographs of people are taken. The
layout of each net is what its graph says. "kept" is of the float net's detections, "new" what only int8 has.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

import onnxq
from benchmarks import corpus_data
from benchmarks.repair.printing import table
from onnxq.graph.model import Model
from onnxq.run import ort
from onnxq.run.compare import compare_models
from onnxq.task.known import KnownTask
from onnxq.task.meter import TaskFigure, TaskMeter

NETS = ("ultraface_rfb320", "yunet_s_640", "nanodet_m_416_mot", "ortext_fastestdet")
CALIBRATING = 64

Sample = dict[str, np.ndarray]


def main() -> int:
    given = _arguments()
    folder = os.environ.get("ONNXQ_CORPUS")
    if folder is None:
        print("ONNXQ_CORPUS names no folder of nets")
        return 1
    corpus = Path(folder)
    entries = {entry["name"]: entry for entry in json.loads((corpus / "manifest.json").read_text("utf-8"))}
    rows = []
    for name in [name for name in NETS if any(fnmatch.fnmatchcase(name, glob) for glob in given.nets)]:
        count, sample = _pool(corpus, entries[name], CALIBRATING + given.judges)
        for split in range(given.splits):
            order = np.random.default_rng(split).permutation(count)
            judges = order[CALIBRATING : CALIBRATING + given.judges]
            figures = kept(
                corpus / "models" / f"{name}.onnx",
                [sample(place) for place in order[:CALIBRATING]],
                (sample(place) for place in judges),
                given.repair,
            )
            rows += [(name, str(split), str(len(judges)), *_row(one)) for one in figures]
            print(*rows[-2], sep="  ", file=sys.stderr, flush=True)
    table(("net", "split", "photographs", "detections", "kept", "kept %", "95 %", "new"), rows)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.task")
    parser.add_argument("nets", nargs="*", default=["*"], metavar="NET", help="those whose names match")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--judges", type=int, default=300, help="photographs that judge a split")
    parser.add_argument("--repair", default=None, help="as of onnxq quantize")
    return parser.parse_args()


def _pool(corpus: Path, entry: dict[str, object], count: int) -> tuple[int, Callable[[int], Sample]]:
    """How many photographs there are, and one of them as a net is fed it."""
    taken = corpus_data.photographed(entry)
    assert taken is not None
    folder = os.environ.get("ONNXQ_IMAGENET")
    if folder is None:
        drawn = list(corpus_data.drawn(corpus, entry, 0, count))
        return len(drawn), drawn.__getitem__
    files = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in (".jpeg", ".jpg"))
    return len(files), lambda place: corpus_data.fed(Image.open(files[place]), *taken)


def kept(
    path: Path, calibrating: Sequence[Sample], judging: Iterator[Sample], repair: str | None
) -> tuple[TaskFigure, ...]:
    """What a net keeps in int8 that was made with some samples, on others."""
    options = {} if repair is None else {"repair": repair}
    made = onnxq.quantize(path, calibrating, compile=False, body="fp32", layer_samples=0, **options)
    floats, int8 = ort.load(path), ort.load(made.model)
    layout = KnownTask.of(None, Model.open(path), floats.outputs).layout
    assert layout is not None
    meter = TaskMeter(floats.outputs, layout)
    compare_models(floats, int8, judging, meters=[meter])
    return meter.figures


def _row(one: TaskFigure) -> tuple[str, ...]:
    ends = "" if one.interval is None else f"{one.interval.low:.1f} to {one.interval.high:.1f}"
    share = "" if one.percent is None else f"{one.percent:.1f}"
    return f"{one.whole:.0f} over {one.over:g}", f"{one.kept:.0f}", share, ends, str(one.new)


if __name__ == "__main__":
    sys.exit(main())

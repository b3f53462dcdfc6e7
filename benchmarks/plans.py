"""Plans as files, over a corpus, with a layer that is put into another format by hand.

    python -m benchmarks.plans [--models 'yunet*']

For each model of the folder that `ONNXQ_CORPUS` names:

- `float`: with one layer put into float in the file, the bytes of that run with `--keep-float`.
- `int8`: with one float layer put into int8 in the file, that layer is int8, or the error says why not.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnxq
from benchmarks.corpus_data import samples
from benchmarks.plan_roundtrip import contents
from onnxq.analysis.reports import part_of
from onnxq.base.errors import OnnxqError
from onnxq.documents.plan import PlanPart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default="*")
    parser.add_argument("--skip", nargs="*", default=[], help="globs of models to leave out")
    parser.add_argument("--samples", type=int, default=16)
    arguments = parser.parse_args()
    corpus = Path(os.environ["ONNXQ_CORPUS"])
    found = []
    for entry in json.loads((corpus / "manifest.json").read_text("utf-8")):
        left_out = any(fnmatch.fnmatchcase(entry["name"], glob) for glob in arguments.skip)
        if fnmatch.fnmatchcase(entry["name"], arguments.models) and not left_out:
            start = time.perf_counter()
            found.append(_judge(corpus, entry, arguments.samples))
            print(f"{entry['name']:40} {found[-1]}  {time.perf_counter() - start:.1f} s", flush=True)
    for kind in ("float", "int8"):
        answers = [answer[kind] for answer in found if isinstance(answer, dict) and kind in answer]
        print(f"{kind}: {sum(answer == 'yes' for answer in answers)} of {len(answers)}")
    print(f"not run: {sum(isinstance(answer, str) for answer in found)}")
    sys.exit(any(isinstance(answer, dict) and "NO" in answer.values() for answer in found))


def _judge(corpus: Path, entry: dict[str, Any], count: int) -> dict[str, str] | str:
    path = corpus / "models" / f"{entry['name']}.onnx"
    try:
        calibration = samples(corpus, entry)[1][:count]
        plan = onnxq.plan(path, calibration, method="minmax", repair="none")
    except (OnnxqError, KeyError) as error:
        return f"not run: {str(error)[:90]}"
    answers = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.toml"
        plan.save(file)
        text = file.read_text("utf-8")
        planned = part_of(PlanPart, plan.report.plan)
        int8 = [layer.node for layer in planned.layers if layer.format == "int8"]
        own = {edge.node for site in planned.sites for edge in site.readers}
        taken = [node for node in int8 if node in own]
        if taken:
            node = taken[len(taken) // 2]
            file.write_text(_put(text, node, "float"), "utf-8")
            try:
                flagged = onnxq.quantize(
                    path,
                    calibration,
                    method="minmax",
                    keep_float=[_literal(node)],
                    compile=False,
                    repair="none",
                )
            except OnnxqError as error:
                answers["float"] = f"refused: {str(error)[:60]}"
            else:
                edited = onnxq.quantize(path, plan=file, compile=False)
                answers["float"] = _yes(contents(flagged, file.parent) == contents(edited, file.parent))
        kept = [layer.node for layer in planned.layers if layer.format == "float"]
        if kept:
            file.write_text(_put(text, kept[0], "int8"), "utf-8")
            try:
                result = onnxq.quantize(path, calibration, plan=file, method="minmax", compile=False)
                obeyed = part_of(PlanPart, result.report.plan)
                done = {layer.node for layer in obeyed.layers if layer.format == "int8"}
                answers["int8"] = _yes(kept[0] in done)
            except OnnxqError as error:
                answers["int8"] = f"refused: {str(error).split('cannot be int8')[-1][:70]}"
    return answers


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"


def _literal(name: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", name)


def _put(text: str, node: str, kind: str) -> str:
    """The plan with a node in another format."""
    at = text.index(f"node = {json.dumps(node, ensure_ascii=False)}\n")
    head, tail = text[:at], text[at:]
    return head + re.sub(r'format = "\w+"', f'format = "{kind}"', tail, count=1)


if __name__ == "__main__":
    main()

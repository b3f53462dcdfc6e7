"""What `onnxq pieces split --until-compiles` makes of models that the compiler refuses.

    python -m benchmarks.until_compiles [GLOB ...] [--every N] [--rows FILE]

Of the corpus and the cases (ONNXQ_CORPUS names the corpus, the cases are beside it) and of the constructs
of `tests/constructs`: all that onnxruntime runs and the compiler refuses. The pieces are written, read again,
and run beside the original. Good is: the chain's outputs are the original's, bit for bit or 60 dB near, and
95 % of the multiply-accumulates are in engines.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import onnxq
from onnxq.base.errors import OnnxqError
from tests.constructs import constructs
from tests.constructs.verdicts import stored

TARGET = "tensorrt-rtx"
NEAR, SHARE = 60.0, 0.95

Row = dict[str, Any]


def models() -> Iterator[tuple[str, str, Any, Any]]:
    """Each model that may be refused: what it is of, its name, itself, and its data (None: made up)."""
    corpus = Path(os.environ.get("ONNXQ_CORPUS", ""))
    for entry in json.loads((corpus / "manifest.json").read_text("utf-8")) if corpus.name else ():
        if entry["onnxruntime"] == "ok" and not entry["tensorrt_rtx"]["builds"]:
            yield "corpus", entry["name"], corpus / "models" / f"{entry['name']}.onnx", _fed(entry)
    for path in sorted((corpus.parent / "cases").glob("*.onnx")) if corpus.name else ():
        data = path.with_suffix("")
        yield "cases", path.stem, path, data if data.is_dir() else None
    for key, verdict in stored().items():
        if verdict.verdict == "rejected" and key in constructs():
            yield "constructs", key, constructs()[key].model, constructs()[key].feeds()


def _fed(entry: Mapping[str, Any]) -> list[dict[str, np.ndarray]]:
    """Random samples of the shapes that are known to run."""
    random, feeds = np.random.default_rng(0), {}
    for info in entry["inputs"]:
        shape, kind = entry["run_shapes"][info["name"]], _dtype(info["dtype"])
        value = random.standard_normal(shape) if kind.kind == "f" else random.integers(0, 2, shape)
        feeds[info["name"]] = np.asarray(16000 if info["name"] == "sr" else value).astype(kind)
    return [feeds]


def _dtype(name: str) -> np.dtype[Any]:
    return onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name))


def cut(model: Any, data: Any) -> Row:
    """What comes of one model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        if isinstance(model, onnx.ModelProto):
            onnx.save(model, path)
        else:
            path.symlink_to(model)
        start = time.perf_counter()
        try:
            pieces = onnxq.split(path, data, until_compiles=True, target=TARGET)
            seconds = time.perf_counter() - start
            *_, manifest = pieces.save(Path(folder, "cut"))
            found = None if data is None else onnxq.run_pieces(manifest, data, samples=8).outputs
        except OnnxqError as error:
            return {"verdict": "error", "why": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    until = pieces.manifest.until
    assert until is not None
    outputs = until.outputs if found is None else found
    differ = [one for one in outputs if one.verdict == "differs"]
    near = all(one.sqnr_db is not None and one.sqnr_db >= NEAR for one in differ)
    verdict = "not run" if not outputs else "equal" if not differ else "near" if near else "differs"
    apart = [one for piece in pieces.manifest.pieces for one in piece.refused]
    return {
        "verdict": verdict if until.whole else "taken",
        "db": min((one.sqnr_db or 0.0 for one in differ), default=None),
        "pieces": len(pieces.pieces),
        "engines": sum(not piece.isolated for piece in pieces.pieces),
        "share": until.share,
        "uncounted": list(until.uncounted),
        "apart": [f"{one.op} {one.node}" for one in apart],
        "outside": sorted({one.node for one in apart}.intersection(until.uncounted)),
        "compilations": until.compilations,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Prints a line for each model, and one for each kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.until_compiles")
    parser.add_argument("globs", nargs="*", default=["*"], metavar="GLOB", help="of kind/name")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th construct")
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="write a line for each model; goes on there"
    )
    asked = parser.parse_args()
    rows: list[Row] = []
    if asked.rows and asked.rows.exists():
        rows = [json.loads(line) for line in asked.rows.read_text("utf-8").splitlines()]
    done = {row["name"] for row in rows}
    for number, (kind, name, model, data) in enumerate(models()):
        full = f"{kind}/{name}"
        chosen = any(fnmatch.fnmatchcase(full, glob) for glob in asked.globs)
        if full in done or not chosen or (kind == "constructs" and number % asked.every):
            continue
        row = {"kind": kind, "name": full, **cut(model, data)}
        rows.append(row)
        if row["verdict"] != "taken":
            print(json.dumps({key: value for key, value in row.items() if key != "kind"}), flush=True)
        if asked.rows:
            with asked.rows.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")
    show(rows)


def show(rows: list[Row]) -> None:
    """Prints the totals of each kind."""
    heads = ("refused", "equal", "near", "differs", "no chain", "one engine", "no engine", f">= {SHARE:.0%}")
    print(f"{'':<12}" + "".join(f"{head:>12}" for head in heads))
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind and row["verdict"] != "taken"]
        ran = [row for row in own if "pieces" in row]
        verdicts = [sum(row["verdict"] == verdict for row in own) for verdict in ("equal", "near", "differs")]
        figures = [
            len(own),
            *verdicts,
            len(own) - sum(verdicts),
            sum(row["pieces"] == row["engines"] == 1 for row in ran),
            sum(row["engines"] == 0 for row in ran),
            sum(not row["outside"] and (row["share"] is None or row["share"] >= SHARE) for row in ran),
        ]
        print(f"{kind:<12}" + "".join(f"{figure:>12}" for figure in figures))


if __name__ == "__main__":
    main()

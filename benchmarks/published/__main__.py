"""Compiles the nets of the published pairs in float16 and int8: `python -m benchmarks.published`.

    python -m benchmarks.published [--nets NAME ...] [--batches N ...] [--sm SM] [--out DIR] [--target NAME]
    python -m benchmarks.published --count: multiply-accumulates and parameters, beside what is published

Each engine is a file NET-bBATCH-smSM-fp16.json or -int8.json in DIR, `onnxq.run.trt.Engine.to_dict`; one that
is there is not made again. int8 is `onnxq quantize --repair none --method minmax` on a sample of normal
deviates: of such weights and samples the ranges are of no account.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import onnx

import onnxq
from benchmarks.corpus_score import name_nodes
from benchmarks.published.nets import NETS, Net, counts
from benchmarks.published.pairs import PAIRS
from onnxq.body.convert import to_half
from onnxq.graph.model import Model
from onnxq.run import trt


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.published")
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS), metavar="NAME")
    parser.add_argument("--batches", nargs="+", type=int, metavar="N", help="those of the pairs by default")
    parser.add_argument("--sm", type=int, default=89)
    parser.add_argument("--target", default="tensorrt-11", help="of onnxq")
    parser.add_argument("--out", type=Path, default=Path("published"), metavar="DIR")
    parser.add_argument("--count", action="store_true", help="count instead of compiling")
    arguments = parser.parse_args()
    if arguments.count:
        for name in arguments.nets:
            net, (macs, millions) = NETS[name], counts(NETS[name])
            said = f"(published: {net.gmacs or '-'}, {net.millions or '-'})"
            print(f"{name}: {macs:.2f} GMAC, {millions:.1f} M parameters {said}", flush=True)
        return
    if trt.installed() is None:
        parser.exit(message="published: skipped, NVIDIA's compiler is not installed\n")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.nets:
        batches = arguments.batches or sorted({pair.batch for pair in PAIRS if pair.net == name} or {1})
        _compile(name, NETS[name], batches, arguments.sm, arguments.target, arguments.out)


def _compile(name: str, net: Net, batches: Iterable[int], sm: int, target: str, out: Path) -> None:
    """The engines of a net that are not there."""
    paths = {
        (batch, kind): out / f"{name}-b{batch}-sm{sm}-{kind}.json"
        for batch in batches
        for kind in ("fp16", "int8")
    }
    missing = {key: path for key, path in paths.items() if not path.is_file()}
    if not missing:
        return
    with tempfile.TemporaryDirectory(prefix="onnxq-published-") as folder:
        source = Path(folder, "float.onnx")
        onnx.save(net.make(), source)
        start = time.perf_counter()
        made = {
            "fp16": to_half(Model.open(source), "fp16", {}, io=False).model.to_proto(),
            "int8": onnxq.quantize(
                source, net.samples(1), target=target, compile=False, repair="none", method="minmax"
            ).model,
        }
        print(f"{name}: quantized in {time.perf_counter() - start:.0f} s", flush=True)
        for (batch, kind), path in missing.items():
            engine = _engine(made[kind], (batch, net.size), sm, Path(folder, "model.onnx"))
            if engine.status != "compiled":
                print(f"{path.name}: {engine.status}: {engine.reason}", flush=True)
                continue
            path.write_text(json.dumps(engine.to_dict(), indent=1) + "\n", encoding="utf-8")
            print(f"{path.name}: {len(engine.layers)} layers, {engine.seconds:.0f} s", flush=True)


def _engine(model: onnx.ModelProto, sizes: tuple[int, tuple[int, ...]], sm: int, path: Path) -> trt.Engine:
    """The engine for a batch size and the size of an image or a text."""
    batch, size = sizes
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for info in copy.graph.input:
        shape = info.type.tensor_type.shape.dim
        shape[0].dim_value = batch
        for dim, extent in zip(shape[-len(size) :], size, strict=True):
            dim.dim_value = extent
    name_nodes(copy.graph)
    onnx.save(copy, path)
    return trt.compile_engine(path, sm=sm)


if __name__ == "__main__":
    main()

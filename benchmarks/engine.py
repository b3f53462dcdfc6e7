"""What the engines of int8 models move, beside plain float16 and other tools': `python -m benchmarks.engine`.

    python -m benchmarks.engine [--nets DIR] [--models GLOB ...] [--targets NAME ...] [--set KEY=VALUE ...]

Nets are those of `benchmarks.nets`, or the float models of a folder (--nets, or the one that ONNXQ_NETS
names), fed with normal deviates, or a corpus with its own data where the folder has a manifest.json. Every
tool has the same samples, and every model is compiled by TensorRT-RTX for sm 89, whatever its target is.

onnxq's settings are its own choices, but for --set (`--set io=fp16`: of plain float16 too). Where
Model-Optimizer gives a MatMul float16 scales by channel, the engine writes products of such a layer in
float16 before they are scaled; `safe scales` is its model with float32 scales there.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from rich.console import Console
from rich.table import Table

import onnxq
from benchmarks import corpus_data, nets
from benchmarks.common import peers_python
from benchmarks.corpus import PEERS_SCRIPT, installed_peers, run, write_samples
from benchmarks.corpus_score import compile_for, int8_share, name_nodes
from benchmarks.nets.feeds import feeds as feeds_of
from benchmarks.safe_scales import safe_scales
from onnxq.base.errors import OnnxqError
from onnxq.body.convert import to_half
from onnxq.compiled.traffic import traffic
from onnxq.graph.model import Model
from onnxq.run import trt

TARGETS = ("tensorrt-rtx", "tensorrt-11")
PEERS = {"modelopt-default": "modelopt", "onnxruntime": "onnxruntime"}

Row = dict[str, Any]
"""A model that a tool made: its engine, or `error`."""


@dataclass(frozen=True, slots=True)
class Net:
    """A float model, and what it calibrates on."""

    name: str
    model: onnx.ModelProto
    samples: list[corpus_data.Sample]


def main() -> int:
    arguments = _arguments()
    compiler = trt.installed()
    if compiler is None:
        print("engine: skipped, NVIDIA's compiler is not installed")
        return 0
    peers = {} if arguments.no_peers else installed_peers()
    tools = [f"{tool} {peers.get(tool, 'is not installed')}" for tool in PEERS.values()]
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(f"engines: {compiler}, sm 89; {'; '.join(tools)}", soft_wrap=True)
    console.print(
        "MB that kernels move as built (with what follows a product merged into its kernel) / kernels;\n"
        "int8: share of the eligible MACs that the engine runs in int8; s: the tool, without the compiler",
        soft_wrap=True,
    )
    rows: list[Row] = []
    for net in _nets(arguments.nets, arguments.models):
        print(f"\r\033[K{net.name}", end="", file=sys.stderr, flush=True)
        rows += _bench(net, arguments, [tool for tool, of in PEERS.items() if of in peers])
        if arguments.json:  # after each net: an interrupted run has what it measured
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print("\r\033[K", end="", file=sys.stderr)
    console.print(_table(rows))
    for row in rows:
        if "error" in row:
            console.print(f"{row['model']}, {row['tool']}: {row['error']}", highlight=False, soft_wrap=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine")
    parser.add_argument("--nets", type=Path, default=os.environ.get("ONNXQ_NETS"), metavar="DIR")
    parser.add_argument("--models", nargs="+", default=["*"], metavar="GLOB")
    parser.add_argument("--targets", nargs="+", default=TARGETS, metavar="NAME", help="of onnxq")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="keywords of onnxq.quantize"
    )
    parser.add_argument("--no-peers", action="store_true", help="plain float16 and onnxq only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the models that were made")
    arguments = parser.parse_args()
    arguments.set = dict(text.split("=", 1) for text in arguments.set)
    return arguments


# --- nets -----------------------------------------------------------------------------------------


def _nets(folder: Path | None, globs: Iterable[str]) -> Iterator[Net]:
    def wanted(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, glob) for glob in globs)

    if folder is None:
        for name, make in nets.NETS.items():
            if wanted(name):
                yield Net(name, make(), list(feeds_of(name, 0, corpus_data.CALIBRATION)))
    elif (folder / "manifest.json").is_file():
        for entry in json.loads((folder / "manifest.json").read_text("utf-8")):
            if wanted(entry["name"]):
                model = onnx.load(folder / "models" / f"{entry['name']}.onnx")
                yield Net(entry["name"], model, corpus_data.samples(folder, entry)[1])
    else:
        for path in sorted(Path(folder).glob("*.onnx")):
            if wanted(path.stem):
                model = onnx.load(path)
                yield Net(path.stem, model, list(_deviates(model)))


def _deviates(model: onnx.ModelProto) -> Iterator[corpus_data.Sample]:
    """Normal deviates, 0 or 1 for other types; 1 for each size that is not fixed."""
    random = np.random.default_rng(0)
    held = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in held]
    for _ in range(corpus_data.CALIBRATION):
        sample = {}
        for info in inputs:
            shape = [dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim]
            dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            normal = dtype.kind == "f"
            values = random.standard_normal(shape) if normal else random.integers(0, 2, shape)
            sample[info.name] = values.astype(dtype)
        yield sample


# --- rows -----------------------------------------------------------------------------------------


def _bench(net: Net, arguments: argparse.Namespace, peers: Iterable[str]) -> Iterator[Row]:
    """The engines of a net."""
    with tempfile.TemporaryDirectory(prefix="onnxq-bench-") as name:
        folder = Path(name)
        source = folder / "float.onnx"
        onnx.save(net.model, source)
        write_samples(folder / "calib", net.samples)

        def row(tool: str, path: Path, seconds: float) -> Row:
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                onnx.save(onnx.load(path), arguments.keep / f"{net.name}.{tool.replace(' ', '.')}.onnx")
            return {"model": net.name, "tool": tool, "seconds": seconds, **_engine(net, source, path)}

        made = folder / "made.onnx"
        for tool in ("fp16", *(f"onnxq {target}" for target in arguments.targets)):
            try:
                yield row(tool, made, _ours(tool, net, source, made, arguments.set))
            except OnnxqError as error:
                yield {"model": net.name, "tool": tool, "error": str(error)}
        for tool in peers:
            work = folder / tool
            work.mkdir()
            output = work / "out.onnx"
            code, out, said = run(
                [peers_python(), PEERS_SCRIPT, tool, source, folder / "calib", output], work
            )
            if code != 0 or not output.is_file():
                why = (said.strip().splitlines() or [f"no model, exit code {code}"])[-1]
                yield {"model": net.name, "tool": tool, "error": why}
                continue
            seconds = float(out.split()[-2])
            yield row(tool, output, seconds)
            safe = safe_scales(onnx.load(output))
            if safe is not None:
                onnx.save(safe, made)
                yield row(f"{tool} safe scales", made, seconds)


def _ours(tool: str, net: Net, source: Path, output: Path, options: Mapping[str, str]) -> float:
    """What this package makes of a net, and the seconds that it takes."""
    start = time.perf_counter()
    if tool == "fp16":
        body = to_half(Model.open(source), "fp16", {}, io=options.get("io") == "fp16")
        onnx.save(body.model.to_proto(), output)
    else:
        target: Any = tool.split()[1]
        onnxq.quantize(source, net.samples, target=target, compile=False, **options).save(output, force=True)
    return time.perf_counter() - start


def _engine(net: Net, source: Path, path: Path) -> Row:
    """The engine of a model."""
    model = onnx.load(path)
    name_nodes(model.graph)
    engine = compile_for(model, net.samples[0])
    if engine.status != "compiled" or engine.unread:
        return {"error": (engine.reason or engine.unread).splitlines()[0]}
    fused = sum(layer.name.startswith("_gemm_mha") for layer in engine.layers)
    return {
        **asdict(traffic(engine.layers)),
        "int8": int8_share(source, model, engine, net.samples[0]),
        "attention": attentions(net.model),
        "fused_attention": fused,
    }


def attentions(model: onnx.ModelProto) -> int:
    """The products of a Softmax and another activation."""
    softmax = {node.output[0] for node in model.graph.node if node.op_type == "Softmax"}
    return sum(node.op_type == "MatMul" and node.input[0] in softmax for node in model.graph.node)


def _table(rows: Iterable[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("model", "tool"):
        table.add_column(title, no_wrap=True)
    for title in ("MB (merged) / kernels", "int8 %", "fused attention", "s"):
        table.add_column(title, justify="right", no_wrap=True)
    last = None
    for row in rows:
        table.add_row(row["model"] if row["model"] != last else "", row["tool"], *_cells(row))
        last = row["model"]
    return table


def _cells(row: Row) -> list[str]:
    if "error" in row:
        return ["no engine"]
    share = row["int8"]
    return [
        f"{row['moved_mb']:.1f} ({row['merged_mb']:.1f}) / {row['kernels']}",
        "" if share is None else f"{100 * share:.1f}",
        f"{row['fused_attention']} of {row['attention']}" if row["attention"] else "",
        f"{row['seconds']:.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main())

"""What a GPU says of our files: `python -m benchmarks.on_gpu make DIR`, then `... read DIR`.

    python -m benchmarks.on_gpu make DIR --target tensorrt-8.6 [--only GLOB ...]
    sh DIR/run.sh    # where trtexec of that version is, and nothing else uses the GPU
    python -m benchmarks.on_gpu read DIR

Nets are those of `benchmarks.repair` (ONNXQ_CORPUS, ONNXQ_IMAGENET), each sanitized, and quantized with our
own choices. `run.sh` builds each float file with its own flags and with `--fp16`, and each int8 file by the
line that the screen prints; then it times each engine alone and runs it on 16 samples that calibrated
nothing. `read` prints the medians, and the SQNR of the outputs against the float model in onnxruntime,
beside what onnxruntime says of the same int8 file, and between the two.

docs/verdict.md has what one GPU said; no line here ran as it stands where trtexec is.
"""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

import onnxq
from benchmarks.repair.nets import nets
from onnxq.compiled.exported import read_runs
from onnxq.judge.sqnr import power, sqnr_db
from onnxq.run import ort

SAMPLES = 16
KINDS = ("float", "fp16", "int8")

Feeds = Mapping[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.on_gpu")
    parser.add_argument("step", choices=("make", "read"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", default="tensorrt-11", help="the version that runs them")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="GLOB", help="nets of these names")
    given = parser.parse_args()
    if given.step == "make":
        make(given.folder, given.target, given.only)
    else:
        print("\n".join(read(given.folder)))


# --- on this machine ------------------------------------------------------------------------------


def make(folder: Path, target: str, globs: Sequence[str]) -> None:
    """Writes a folder for each net, and `run.sh`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["#!/bin/sh", 'cd "$(dirname "$0")" || exit']
    for net in nets(globs):
        if net.kind == "planted":
            continue
        split, source = net.split(0), net.model(0)
        assert isinstance(source, Path)
        own = folder / net.name
        own.mkdir(exist_ok=True)
        judging = [split.judging[round(i * len(split.judging) / SAMPLES)] for i in range(SAMPLES)]
        made = {
            "float": onnxq.sanitize(source, target=target),
            "int8": onnxq.quantize(source, list(split.fitting), target=target, compile=False),
        }
        for kind, result in made.items():
            result.save(own / f"{kind}.onnx")
        flags = {kind: _flags(result.report.commands) for kind, result in made.items()}
        lines += _lines(net.name, {**flags, "fp16": f"{flags['float']} --fp16"}, judging)
        for i, feeds in enumerate(judging):
            for name, values in feeds.items():
                np.ascontiguousarray(values).tofile(own / f"{i}.{name.replace('/', '_')}.bin")
        _expect(source, own, judging)
        print(f"{net.name}: made")
    (folder / "run.sh").write_text("\n".join(lines) + "\n", "utf-8")


def _flags(commands: Sequence[str]) -> str:
    """What a command of trtexec says of types and sizes."""
    (line,) = (one for one in commands if one.startswith("trtexec"))
    wanted = ("--int8", "--fp16", "--minShapes", "--optShapes", "--maxShapes")
    return shlex.join(part for part in shlex.split(line) if part.startswith(wanted))


def _lines(name: str, flags: Mapping[str, str], samples: Sequence[Feeds]) -> list[str]:
    """What builds, times and runs the engines of a net."""
    lines = [f"cd {shlex.quote(name)} || exit"]
    for kind in KINDS:
        model = "int8" if kind == "int8" else "float"
        sizes = [
            part.replace("--optShapes", "--shapes")
            for part in shlex.split(flags[kind])
            if part.startswith("--optShapes")
        ]
        run = shlex.join(["trtexec", f"--loadEngine={kind}.engine", *sizes])
        lines += [
            f"trtexec --onnx={model}.onnx --saveEngine={kind}.engine {flags[kind]} --skipInference"
            f" --profilingVerbosity=detailed --exportLayerInfo={kind}.layers.json > {kind}.log 2>&1",
            f"{run} --useCudaGraph --noDataTransfers --exportTimes={kind}.runs.json >> {kind}.log 2>&1",
            f"{run} --dumpProfile --exportProfile={kind}.times.json >> {kind}.log 2>&1",
        ]
        for i, feeds in enumerate(samples):
            files = ",".join(f"{one}:{i}.{one.replace('/', '_')}.bin" for one in feeds)
            once = f"--iterations=1 --duration=0 --warmUp=0 --exportOutput={kind}.{i}.json"
            lines.append(f"{run} {shlex.quote(f'--loadInputs={files}')} {once} >> {kind}.log 2>&1")
    return [*lines, "cd .."]


def _expect(source: Path, own: Path, samples: Sequence[Feeds]) -> None:
    """Writes the outputs of the float model as it was, and of the int8 file, by onnxruntime."""
    for kind, path in (("float", source), ("int8", own / "int8.onnx")):
        session = ort.load(path)
        outputs = [value.name for value in onnx.load(path, load_external_data=False).graph.output]
        rows = [session.run(feeds) for feeds in samples]
        stacked = {name: np.stack(each) for name, each in zip(outputs, zip(*rows, strict=True), strict=True)}
        np.savez(own / f"{kind}.expected.npz", **stacked)  # type: ignore[arg-type]


# --- what came back -------------------------------------------------------------------------------


def read(folder: Path) -> list[str]:
    """A line for each net and kind of engine, and one for each of its outputs."""
    lines = []
    for own in sorted(path for path in folder.iterdir() if path.is_dir()):
        expected = {kind: np.load(own / f"{kind}.expected.npz") for kind in ("float", "int8")}
        for kind in KINDS:
            times = own / f"{kind}.runs.json"
            took = f"{read_runs(times).compute_s * 1e6:.1f} us" if times.is_file() else "no engine"
            lines.append(f"{own.name} {kind}: {took}")
            found = [own / f"{kind}.{i}.json" for i in range(SAMPLES)]
            if not all(path.is_file() for path in found):
                continue
            outputs = [_outputs(path) for path in found]
            for name, wanted in expected["float"].items():
                got = np.stack([each[name] for each in outputs]).ravel()
                line = f"  {name}: {_db(wanted, got):.1f} dB"
                if kind == "int8":
                    said = expected["int8"][name]
                    line += (
                        f"; onnxruntime says {_db(wanted, said):.1f} dB, between them {_db(said, got):.1f} dB"
                    )
                lines.append(line)
    return lines


def _outputs(path: Path) -> dict[str, np.ndarray]:
    """The outputs that `trtexec --exportOutput` wrote, flat."""
    entries = json.loads(path.read_text("utf-8"), strict=False)
    return {entry["name"]: np.array(entry["values"], np.float64) for entry in entries}


def _db(wanted: np.ndarray, got: np.ndarray) -> float:
    """The SQNR of what was got, dB."""
    signal = np.asarray(wanted, np.float64).ravel()
    return float(sqnr_db(power(signal), power(signal - np.asarray(got, np.float64).ravel())))


if __name__ == "__main__":
    main()

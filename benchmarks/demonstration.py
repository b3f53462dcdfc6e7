"""One trained CNN, quantized by seven tools: which files TensorRT-RTX takes, and what onnxq makes of them.

    python -m benchmarks.demonstration --environments .venv-demonstration --install

The CNN is `sample_models/digits`; 128 of its images calibrate every tool, 600 others are scored. Each tool
has its own defaults, and an environment of its own in the folder that `--environments` names, made there
with `--install` where the registry has the tool; a tool without one is left out, and that is said. No GPU is
used: the compiler of TensorRT for RTX works without one. Of the files that it takes, codes of uint8 around 0
are built as int8, which no runtime on a CPU shows: such a file is scored once more with int8 codes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from PIL import Image

import onnxq

ROOT = Path(__file__).resolve().parents[1]
DIGITS = ROOT / "sample_models" / "digits"


@dataclass(frozen=True)
class Tool:
    """A tool that quantizes ONNX files.

    Attributes:
        name: for the table.
        called: what `peers.py` calls it.
        packages: what pip installs; none: it runs in this environment.
        version: the package whose version is shown.
    """

    name: str
    called: str
    packages: tuple[str, ...]
    version: str


TOOLS = {
    "onnxruntime": Tool("onnxruntime", "onnxruntime-default", (), "onnxruntime"),
    "nncf": Tool("NNCF", "nncf", ("nncf==3.4.*", "onnx", "onnxruntime"), "nncf"),
    "aimet": Tool("AIMET", "aimet-default", ("aimet-onnx==2.42.*",), "aimet-onnx"),
    "quark": Tool("Quark", "quark", ("amd-quark==0.13.*", "torch", "onnxruntime"), "amd-quark"),
    "ppq": Tool("esp-ppq", "ppq", ("torch", "esp-ppq==1.3.*", "onnxruntime"), "esp-ppq"),
    "inc": Tool(
        "onnx-neural-compressor", "neural-compressor", ("onnx-neural-compressor==1.0", "prettytable"),
        "onnx-neural-compressor",
    ),
    "modelopt": Tool(
        "Model-Optimizer", "modelopt-default", ("nvidia-modelopt[onnx]==0.47.*", "sympy"), "nvidia-modelopt"
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What came of one tool.

    Attributes:
        tool: with its version.
        codes: types of the codes of its Q/DQ pairs, with how many have a zero point.
        top1: percent of the images whose class is right, of its file in onnxruntime.
        as_built: the same where codes of uint8 are int8, as TensorRT builds them; None without such codes.
        compiles: whether TensorRT-RTX takes the file as it is.
        message: what the compiler says where it does not.
        errors: what `onnxq check` finds, by name.
        sanitized: whether the file compiles after `onnxq sanitize`.
        repaired: whether the file compiles after `onnxq quantize`.
        int8: layers that run in int8 there, of those that are planned.
        repaired_top1: percent of the images whose class is right, of that file.
    """

    tool: str
    codes: str
    top1: float
    as_built: float | None
    compiles: bool
    message: str
    errors: dict[str, int]
    sanitized: bool
    repaired: bool
    int8: str
    repaired_top1: float


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environments", type=Path, default=Path(".venv-demonstration"), metavar="DIR")
    parser.add_argument("--install", action="store_true", help="make the environments that are not there")
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--keep", type=Path, help="where the files stay", metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        _samples(folder / "samples")
        rows = []
        for key in asked.tools:
            python = _python(key, asked.environments, asked.install)
            file = _quantized(TOOLS[key], python, folder) if python else None
            if file is not None:
                rows.append(_judged(f"{TOOLS[key].name} {_version(python, TOOLS[key].version)}", file))
                print(rows[-1], file=sys.stderr, flush=True)
    print(_table(rows))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")
    return 0


def _python(key: str, environments: Path, install: bool) -> str | None:
    """The Python of a tool's environment."""
    tool, folder = TOOLS[key], environments / key
    if not tool.packages:
        return sys.executable
    python = folder / "bin" / "python"
    if not python.exists() and install:
        venv.create(folder, with_pip=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", *tool.packages], check=False)
        if done.returncode:
            print(f"{tool.name}: its packages could not be installed", file=sys.stderr)
            return None
    if not python.exists():
        print(f"{tool.name} is left out: {folder} is no environment (--install makes it)", file=sys.stderr)
        return None
    return str(python.absolute())


def _version(python: str, package: str) -> str:
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.split()[
        -1
    ]


def _samples(folder: Path) -> None:
    """The images that calibrate, as arrays."""
    folder.mkdir(exist_ok=True)
    for path in sorted((DIGITS / "calib").glob("*.png")):
        pixels = np.asarray(Image.open(path).convert("L"), np.float32)[None, None] / 255
        np.savez(folder / path.stem, image=pixels)


def _quantized(tool: Tool, python: str, folder: Path) -> Path | None:
    """The file that a tool writes."""
    output = folder / f"{tool.called}.onnx"
    copy = folder / f"{tool.called}.float.onnx"  # some write over what they are given
    copy.write_bytes((DIGITS / "digits.onnx").read_bytes())
    script = Path(__file__).with_name("peers.py")
    done = subprocess.run(
        [python, str(script), tool.called, str(copy), str(folder / "samples"), str(output)],
        capture_output=True, text=True, check=False, cwd=folder,
    )  # fmt: skip
    if done.returncode or not output.exists():
        print(f"{tool.name} wrote nothing: {(done.stderr or done.stdout).strip()[-300:]}", file=sys.stderr)
        return None
    return output


def _judged(tool: str, file: Path) -> Row:
    with contextlib.chdir(file.parent):  # as a user types it, beside the file and its external data
        return _judged_here(tool, Path(file.name))


def _judged_here(tool: str, file: Path) -> Row:
    found = onnxq.check(file)
    errors: dict[str, int] = {}
    for one in found.findings:
        if one.severity == "error":
            errors[one.check] = errors.get(one.check, 0) + 1
    sanitized = file.with_suffix(".sanitized.onnx")
    onnxq.sanitize(file).save(sanitized, force=True)
    repaired = file.with_suffix(".int8.onnx")
    result = onnxq.quantize(file, DIGITS / "calib")
    result.save(repaired, force=True)
    engine = result.report.engine
    before, after = onnxq.engine(file), onnxq.engine(sanitized)
    built = _as_built(onnx.load(file))
    if built is not None:
        onnx.save(built, file.with_suffix(".built.onnx"))
    return Row(
        tool,
        _codes(onnx.load(file)),
        _top1(file),
        None if built is None else _top1(file.with_suffix(".built.onnx")),
        before.engine.status == "compiled",
        before.engine.reason.strip().partition("\n")[0],
        errors,
        after.engine.status == "compiled",
        engine.status == "compiled",
        f"{engine.int8} of {engine.planned}",
        _top1(repaired),
    )


def _codes(model: onnx.ModelProto) -> str:
    """The types of the codes of the Q/DQ pairs, and whether zero points are 0."""
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = onnx.numpy_helper.to_array(node.attribute[0].t)
    found: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            point = constants.get(node.input[2]) if len(node.input) > 2 else None
            name = "uint8" if point is None else str(point.dtype)
            name += " with zero points" if point is not None and np.any(point != 0) else ""
            found[name] = found.get(name, 0) + 1
    return ", ".join(sorted(found))


def _as_built(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """The model whose codes around 0 of type uint8 saturate at 127; None where there are none."""
    pairs = [node for node in model.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")]
    points = {node.input[2] for node in pairs if len(node.input) > 2}
    constants = [
        node.attribute[0].t
        for node in model.graph.node
        if node.op_type == "Constant" and node.output[0] in points
    ]
    changed = False
    for tensor in [*(one for one in model.graph.initializer if one.name in points), *constants]:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype == np.uint8 and not np.any(values):
            tensor.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.int8), tensor.name))
            changed = True
    del model.graph.value_info[:]  # it states the types as they were
    return model if changed else None


def _top1(model: Path) -> float:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (fed,) = session.get_inputs()
    with np.load(DIGITS / "test.npz") as test:
        right = [
            session.run(None, {fed.name: image[None]})[0].argmax() == label
            for image, label in zip(test["image"], test["labels"], strict=True)
        ]
    return 100 * float(np.mean(right))


def _table(rows: list[Row]) -> str:
    lines = [
        "| tool | codes | top-1 of its file | TensorRT-RTX | `onnxq check`, errors | after `sanitize` "
        "| after `quantize` | layers in int8 | top-1 |",
        "|---|---|---:|---|---|---|---|---:|---:|",
    ]
    for row in rows:
        errors = ", ".join(f"{count} `{name}`" for name, count in row.errors.items()) or "none"
        lines.append(
            f"| {row.tool} | {row.codes} | {row.top1:.2f} %"
            + (f", as built {row.as_built:.2f} %" if row.compiles and row.as_built is not None else "")
            + f" | {'takes it' if row.compiles else 'rejects it'} | {errors} "
            f"| {'compiles' if row.sanitized else 'rejected'} | {'compiles' if row.repaired else 'rejected'} "
            f"| {row.int8} | {row.repaired_top1:.2f} % |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

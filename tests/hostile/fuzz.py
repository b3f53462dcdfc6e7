"""Mutated models, documents and command lines: `python -m tests.hostile.fuzz --seconds 300`; its seed is printed.

    python -m tests.hostile.fuzz --seed 7 --kinds models             ends only with --count or --seconds
    python -m tests.hostile.fuzz --seed 7 --kinds models --only 31   one of them again; its files are kept

No run may end with a fault of onnxq, a signal, a traceback, after `bounded.SECONDS` or over `bounded.MEMORY`, or with exit
code 0 and no word where onnxruntime refuses the model.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from .bounded import Ended, run
from .judge import untold, warm
from .models import FILE
from .mutate import FLOATS, NUMBERS, TEXTS, changed_document, changed_model, spoiled

QUICK = "--no-engine --method minmax --repair none --body fp32"
NET = """<ir_version: 8, opset_import: ["" : 17]> net (float[N, 3, 8, 8] x) => (float[N, 16] y) {
    [first] a = Conv <pads = [1, 1, 1, 1]> (x, w)  [act] b = Relu (a)  [second] e = Conv (b, u)
    [pool] c = GlobalAveragePool (e)
    [flat] d = Flatten (c)  [last] y = Gemm (d, v, bias) }"""
MORE = (
    """(float[N, 16] x) => (float[N, 16] y) { s = Shape (x)  i = Constant <value_int = 0> ()  n = Gather (s, i)  o = Constant <value_ints = [0]> ()
        u = Unsqueeze (n, o)  r = Constant <value_ints = [4, 4]> ()  t = Concat <axis = 0> (u, r)  z = Reshape (x, t)
        p = Transpose <perm = [0, 2, 1]> (z)  q = Softmax <axis = -1> (p)  k = Constant <value_ints = [-1, 16]> ()  y = Reshape (q, k) }""",
    """(float[4] x, bool c) => (float[4] y) { a = If (c) <then_branch = t () => (float[4] u) { u = Neg (x) },
        else_branch = e () => (float[4] v) { v = Relu (x) }>  m = Constant <value_int = 3> ()  y = Loop (m, c, a) <body =
        b (int64 i, bool g, float[4] s) => (bool h, float[4] r) { h = Identity (g)  r = Exp (s) }> }""",
    """(float[2, 6] x, int64[2, 2] i) => (float[2, 2] y, int64[2] z) { g = GatherElements <axis = 1> (x, i)  k = Constant <value_ints = [2]> ()
        v, w = TopK (g, k)  y = Clip (v)  d = Constant <value_ints = [3, 3]> ()  e = Cast <to = 7> (d)  f = Div (e, k)  z = Add (f, e) }""",
    """(float[1, 2, 4, 4] x) => (float[1, 2, 8, 8] y) { s = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()  a = Resize <mode = "linear"> (x, , s)
        p = Constant <value_ints = [0, 0, 0, 0, 0, 0, 0, 0]> ()  b = Pad (a, p)  c = MaxPool <kernel_shape = [1, 1]> (b)  y = Tanh (c) }""",
    """(float[N, 8] x) => (float[N, 8] y) { s = Constant <value_float = 0.1> ()  z = Constant <value = int8 {0}> ()  q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)  m = ReduceMean <axes = [1]> (d)  e = Sub (d, m)  f = Mul (e, e)  y = Sqrt (f) }""",
)  # fmt: skip


@dataclass(frozen=True)
class Pool:
    """What is mutated.

    Attributes:
        models: by name, of a size that runs at once.
        folder: a folder with the good model, its data and every document.
    """

    models: dict[str, onnx.ModelProto]
    folder: Path


DOCUMENTS: dict[str, tuple[str, ...]] = {
    "plan.toml": (f"quantize net.onnx --calib data.npz {QUICK} --plan plan.toml",),
    "net.stats.npz": (f"quantize net.onnx {QUICK} --stats net.stats.npz", "check net.onnx --no-engine --stats net.stats.npz"),
    "q.report.json": ("report q.report.json -o page.html", "report q.report.json good.report.json", "report good.report.json q.report.json"),
    "set.toml": (f"quantize net.onnx --calib data.npz {QUICK} --config set.toml",),
    "layers.json": ("engine net.onnx --layer-info layers.json",),
    "data.npz": (f"quantize net.onnx --calib data.npz {QUICK}", "data net.onnx --calib data.npz"),
    "data.npy": (f"quantize net.onnx --calib data.npy {QUICK}",),
    "list.txt": (f"quantize net.onnx --calib list.txt {QUICK}",),
    "target.toml": ("sanitize net.onnx --target target.toml",),
    "net.cache": (f"quantize net.onnx {QUICK} --stats net.cache",),
}  # fmt: skip
LAYERS = """{"Layers": [{"Name": "first + act", "LayerType": "CaskConvolution", "Inputs": [{"Name": "x", "Location": "Device",
"Dimensions": [1, 3, 8, 8], "Format/Datatype": "Float"}], "Outputs": [{"Name": "b", "Dimensions": [1, 16, 8, 8], "Format/Datatype": "Int8"}],
"ParameterType": "Convolution", "Kernel": [3, 3], "TacticName": "sm80_xmma", "Metadata": "[ONNX Layer: first]\\u001e[ONNX Layer: act]"}],
"Bindings": ["x", "y"]}"""


def net() -> onnx.ModelProto:
    model = onnx.parser.parse_model(NET)
    dice = np.random.default_rng(0)
    for name, shape in (("w", (16, 3, 3, 3)), ("u", (16, 16, 3, 3)), ("v", (16, 16)), ("bias", (16,))):
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(dice.standard_normal(shape).astype(np.float32), name)
        )
    return model


def pool(folder: Path) -> Pool:
    """Makes what is mutated, by the command lines that make it."""
    from importlib.resources import files

    (folder / FILE).write_bytes(net().SerializeToString())
    x = np.random.default_rng(1).standard_normal((12, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=x)
    np.save(folder / "data.npy", x)
    (folder / "list.txt").write_text("data.npy\n")
    (folder / "layers.json").write_text(LAYERS)
    (folder / "net.cache").write_text("TRT-8601-EntropyCalibration2\nx: 3c010a14\nb: 3d010a14\ny: 3d010a14\n")
    (folder / "set.toml").write_text('method = "percentile"\nsamples = 8\nseed = 3\n[layers]\n')
    (folder / "target.toml").write_text(
        files("onnxq.targets").joinpath("tensorrt-10.toml").read_text("utf-8")
    )
    for line in (
        "plan net.onnx --calib data.npz --method minmax -o plan.toml",
        "calibrate net.onnx --calib data.npz -o net.stats.npz",
        f"quantize net.onnx --calib data.npz {QUICK} -o q.onnx",
    ):
        ended = run(folder, *shlex.split(line))
        assert ended.code == 0, f"{line}: {ended.said}"
    shutil.copy(folder / "q.report.json", folder / "good.report.json")
    (folder / "q.report.html").unlink(missing_ok=True)
    models = {"net": net(), "quantized": onnx.load(folder / "q.onnx")}
    head = '<ir_version: 8, opset_import: ["" : 17]> net '
    models |= {f"text{place}": onnx.parser.parse_model(head + body) for place, body in enumerate(MORE)}
    return Pool(models, folder)


def a_model(pool: Pool, folder: Path, dice: random.Random) -> str:
    model = pool.models[dice.choice(list(pool.models))]
    data = model.SerializeToString()
    data = spoiled(data, dice) if dice.random() < 0.3 else changed_model(model, dice).SerializeToString()
    (folder / FILE).write_bytes(data)
    return dice.choice(
        ("sanitize net.onnx", "sanitize net.onnx", "check net.onnx --no-engine", "inspect net.onnx")
    )


def a_document(pool: Pool, folder: Path, dice: random.Random) -> str:
    shutil.copytree(pool.folder, folder, dirs_exist_ok=True)
    name = dice.choice(list(DOCUMENTS))
    (folder / name).write_bytes(changed_document(name, (folder / name).read_bytes(), dice))
    return dice.choice(DOCUMENTS[name])


def a_line(pool: Pool, folder: Path, dice: random.Random) -> str:
    """A verb with flags that it has, of values that they may not have."""
    import typer

    from onnxq.cli.app import app

    shutil.copytree(pool.folder, folder, dirs_exist_ok=True)
    commands = {
        (name, *inner): one
        for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
        for inner, one in ([((), command)] if not hasattr(command, "commands") else
                           [((below,), one) for below, one in command.commands.items()])
        if name not in ("rules", "engine", "sensitivity") and inner != ("run",)
    }  # fmt: skip
    verb = dice.choice(list(commands))
    command = commands[verb]
    words = [*verb]
    good = {
        "model": FILE,
        "a": "q.report.json",
        "b": "good.report.json",
        "report": "q.report.json",
        "reference": FILE,
        "candidate": "q.onnx",
    }
    for one in command.params:
        if one.param_type_name == "argument" and (one.required or dice.random() < 0.3):
            words.append(good.get(str(one.name), "net.onnx") if dice.random() < 0.9 else _value(dice))
    if any("--calib" in one.opts for one in command.params) and dice.random() < 0.8:
        words += ["--calib", "data.npz"]
    flags = [one for one in command.params if one.param_type_name == "option"]
    flags = [
        one
        for one in flags
        if not {"--help", "--help-all", "--workers", "--force", "--verbose"} & set(one.opts)
    ]
    for one in dice.sample(flags, min(len(flags), dice.choice((1, 1, 2, 3)))):
        words.append(one.opts[0])
        if not getattr(one, "is_flag", False):
            words.append(_value(dice))
    if "--no-engine" in {name for one in command.params for name in one.opts} and "--no-engine" not in words:
        words.append("--no-engine")
    return shlex.join(words)


def _value(dice: random.Random) -> str:
    names = ("x", "y", "first", "w", "last:1", "N", "data.npz", "net.onnx", "q.onnx", "q.report.json", "plan.toml", "set.toml", ".", "minmax", "fp16",
             "/dev/null", "/dev/zero", "int8", "auto", "always", "tensorrt-10")  # fmt: skip
    number = dice.choice((str(dice.choice(NUMBERS)), str(dice.choice(FLOATS)), "9" * 400))
    simple = dice.choice((dice.choice(names), number, dice.choice(TEXTS).replace("\0", "")))
    return dice.choice(
        (
            simple,
            simple,
            f"{dice.choice(names)}={simple}",
            f"x={number}x{number}",
            f"{number},{number}",
            f"{simple}:{simple}",
        )
    )


KINDS: dict[str, Callable[[Pool, Path, random.Random], str]] = {
    "models": a_model,
    "documents": a_document,
    "lines": a_line,
}


def fault_of(kind: str, ended: Ended, line: str, folder: Path) -> str:
    """What should not be, or ""."""
    if ended.fault:
        return ended.fault
    return untold(folder, ended) if kind == "models" and not line.startswith("inspect") else ""


def fuzz(
    seed: int, kinds: list[str], count: int, seconds: float, only: int | None = None, keep: Path | None = None
) -> list[str]:
    """Runs mutations until there were so many, or so long; prints what they come to.

    Returns:
        A line for each that did not end as it should.
    """
    found: list[str] = []
    codes: Counter[str] = Counter()
    slowest, most, began, number = 0.0, 0, time.monotonic(), 0
    with tempfile.TemporaryDirectory() as own:
        source = Path(own) / "pool"
        source.mkdir()
        made = pool(source)
        numbers = range(count) if only is None else range(only, only + 1)
        for number in numbers:
            if time.monotonic() - began > seconds:
                break
            kind = kinds[number % len(kinds)]
            dice = random.Random(f"{seed} {kind} {number}")
            folder = Path(own) / "here"
            folder.mkdir()
            line = KINDS[kind](made, folder, dice)
            before = folder / FILE
            given = before.read_bytes() if before.exists() else b""
            ended = run(folder, *shlex.split(line))
            codes[str(ended.code)] += 1
            slowest, most = max(slowest, ended.seconds), max(most, ended.peak)
            wrong = fault_of(kind, ended, line, folder)
            if wrong:
                found.append(
                    f"--seed {seed} --kinds {' '.join(kinds)} --only {number}: onnxq {line[:200]}: {wrong}\n    {ended.said[-300:]}"
                )
                print(found[-1], flush=True)
            if only is not None:
                print(ended.said)
                place = keep or Path("out/fuzz")
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(folder, place, ignore_dangling_symlinks=True)
                if given:
                    (place / FILE).write_bytes(given)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"seed {seed}: {sum(codes.values())} runs of {', '.join(kinds)} in {time.monotonic() - began:.0f} s, exit codes "
          f"{dict(sorted(codes.items()))}, {len(found)} faults, slowest {slowest:.1f} s, most {most >> 20} MiB", flush=True)  # fmt: skip
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--count", type=int, default=1 << 40)
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=Path, help="the folder for the files of --only")
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    warm()
    return 1 if fuzz(asked.seed, asked.kinds, asked.count, asked.seconds, asked.only, asked.keep) else 0


if __name__ == "__main__":
    sys.exit(main())

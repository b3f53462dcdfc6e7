"""A model all of whose names are hostile: markup, quotes, formulas, escapes of terminals, marks that turn text."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NAMES = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><script>alert(1)//", "</style><b>",
    "a'b\"c&amp;", "{{7*7}}{% raw %}", "${7*7}`x`", "=cmd|'/C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1",
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "\u202egnp.exe", "\u2066a\u2069\u200f", "\u2028\u2029\ufeff",
    "a\nb\r\nc", "nul\x00nul", "\x7f\x08\x08", "n" * 2000, "javascript:alert(1)", "<!--<script>", "[red]a[/red]",
    "\\u003cb\\u003e", "../../etc/passwd", "%s%n%x", "\U0001f600é", "a,b;c|d", "\uff1d1",
    "a\n::set-output name=b::c", "::stop-commands::x", "\r##vso[task.setvariable variable=a]b", "d ##[set-env name=e]f",
    "__proto__", "constructor", "toString",
)  # fmt: skip
"""What a name may hold. The last three are names of every object of JavaScript."""

FILE = "=cmd|'<img src=x onerror=alert(1)>\"\x1b[31m\u202e{{7*7}}\n&.onnx".replace("/", "")
"""The file's name: no `/` and no NUL, all else is allowed in it."""


def model() -> onnx.ModelProto:
    """A chain of Convs with BatchNormalizations and Relus: each name is that of a node, or of its tensors and weights.

    The input, the output, their symbolic size, doc strings and metadata have hostile names, too. Each fourth Conv is
    depthwise, which stays in float.
    """
    random = np.random.default_rng(0)
    nodes, weights = [], []

    def constant(name: str, *shape: int, low: float = -1.0) -> str:
        values = random.uniform(low, 1.0, shape).astype(np.float32)
        weights.append(numpy_helper.from_array(values, name))
        return name

    value = f"{NAMES[0]} input"
    for place, (name, other) in enumerate(zip(NAMES[::2], NAMES[1::2], strict=True)):
        depthwise = place % 4 == 3
        given = constant(f"{other} weight", 16, 1 if depthwise else 16, 1, 1)
        options = {"group": 16} if depthwise else {}
        nodes.append(
            helper.make_node("Conv", [value, given], [f"{other} out"], name, doc_string=other, **options)
        )
        value = f"{other} relu"
        if place % 3 == 0:
            kept = [constant(f"{name} {part}", 16, low=0.5) for part in ("s", "b", "m", "v")]
            value = f"{other} bn"
            nodes.append(
                helper.make_node("BatchNormalization", [f"{other} out", *kept], [value], f"{other} bn")
            )
        else:
            nodes.append(helper.make_node("Relu", [f"{other} out"], [value], f"{other} relu"))
    nodes.append(
        helper.make_node("Concat", [value, f"{NAMES[5]} out"], [f"{NAMES[1]} output"], "join", axis=1)
    )
    sizes = ["N<script>alert(1)</script>\x1b[31m", 16, 4, 4]
    graph = helper.make_graph(
        nodes, NAMES[0],
        [helper.make_tensor_value_info(f"{NAMES[0]} input", TensorProto.FLOAT, sizes)],
        [helper.make_tensor_value_info(f"{NAMES[1]} output", TensorProto.FLOAT, [sizes[0], 32, 4, 4])],
        weights, doc_string=NAMES[1],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    made.producer_name, made.producer_version, made.doc_string = NAMES[0], NAMES[12], NAMES[1]
    helper.set_model_props(made, {NAMES[0]: NAMES[1]})
    return made


def write(folder: Path) -> tuple[Path, Path]:
    """Writes the model and a folder of samples whose names are hostile; both paths."""
    path, data = folder / FILE, folder / "data=<script>\x1b[31m"
    onnx.save(model(), path)
    data.mkdir()
    random = np.random.default_rng(1)
    for number in range(12):
        values = random.standard_normal((1, 16, 4, 4)).astype(np.float32)
        np.save(data / f"=<img src=x onerror=alert({number})>\x1b[31m\u202e'\".npy", values)
    return path, data

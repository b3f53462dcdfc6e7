"""Right rewrites of what is steep, softmax, products and normalizations, are kept at any sizes."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq import sanitize
from onnxq.rewrite.oracle import Oracle, Truth


def attention(rng: random.Random) -> str:
    batch, heads, groups = rng.choice([1, 2, 3]), rng.choice([1, 2, 4]), rng.choice([1, 2])
    queries, keys, width = rng.choice([1, 3, 5, 8]), rng.choice([2, 4, 7, 16]), rng.choice([4, 8, 16, 32])
    attributes = [one for one in ("is_causal = 1", "scale = 0.1", "softcap = 30.0") if rng.random() < 0.4]
    given = f" <{', '.join(attributes)}>" if attributes else ""
    opset, more, reads = rng.choice(
        [
            (23, "", ""),
            (23, f", float[{queries}, {keys}] m", ", m"),
            (23, f", bool[{batch}, 1, {queries}, {keys}] m", ", m"),
            (24, f", int64[{batch}] n", ", , , , n"),
        ]
    )
    kept = f"float[{batch}, {heads}, {keys}, {width}]"
    return f"""<ir_version: 11, opset_import: ["" : {opset}]>
        g (float[{batch}, {heads * groups}, {queries}, {width}] q, {kept} k, {kept} v{more}) => (y)
        {{ y = Attention{given} (q, k, v{reads}) }}"""


def cumprod(rng: random.Random) -> str:
    shape = [rng.choice([1, 2, 5, 8, 13, 33]) for _ in range(rng.choice([1, 2, 3]))]
    attributes = [one for one in ("exclusive = 1", "reverse = 1") if rng.random() < 0.5]
    given = f" <{', '.join(attributes)}>" if attributes else ""
    return f"""<ir_version: 11, opset_import: ["" : 26]> g (float{shape} x) => (y)
        <int64 a = {{{rng.randrange(len(shape))}}}> {{ y = CumProd{given} (x, a) }}"""


def softmax(rng: random.Random) -> str:
    shape = [rng.choice([1, 2, 5, 9, 64]) for _ in range(rng.choice([2, 3, 4]))]
    operator, opset = rng.choice(["Softmax", "LogSoftmax", "Hardmax"]), rng.choice([9, 11, 13])
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float{shape} x) => (y)
        {{ y = {operator} <axis = {rng.randrange(len(shape))}> (x) }}"""


def normalization(rng: random.Random) -> str:
    channels, size = rng.choice([4, 6, 12, 32]), rng.choice([1, 3, 9, 17])
    map_, rows = f"float[2, {channels}, {size}, 3] x", f"float[2, {size}, {channels}] x"
    both = f"float[{channels}] s, float[{channels}] b"
    opset, inputs, node = rng.choice(
        [
            (23, f"{rows}, float[{channels}] s", "RMSNormalization (x, s)"),
            (21, f"{map_}, {both}", "GroupNormalization <num_groups = 2> (x, s, b)"),
            (17, f"{rows}, {both}", "LayerNormalization (x, s, b)"),
            (17, f"{map_}, {both}", "InstanceNormalization (x, s, b)"),
            (13, map_, "MeanVarianceNormalization (x)"),
            (17, rows, f"LpNormalization <p = {rng.choice([1, 2])}> (x)"),
            (17, rows, "ReduceLogSumExp <axes = [-1]> (x)"),
        ]
    )
    return f'<ir_version: 10, opset_import: ["" : {opset}]> g ({inputs}) => (y) {{ y = {node} }}'


def transform(rng: random.Random) -> str:
    rows, length, parts = rng.choice([1, 2, 3]), rng.choice([5, 8, 16, 32, 60, 100]), rng.choice([1, 2])
    onesided = parts == 1 and rng.random() < 0.5
    wave = f"float[{rows}, {length}, {parts}] x"
    inputs, node = rng.choice(
        [
            (wave, f"DFT <axis = 1, onesided = {int(onesided)}> (x)"),
            (wave, f"DFT <axis = 1, inverse = {int(not onesided)}> (x)"),
            (f"float[{rows}, {length}] x", f"CumSum <reverse = {int(onesided)}> (x, a)"),
            (f"float[{rows}, {length}, 1] x", "STFT <onesided = 1> (x, f, , n)"),
            (
                f"float[{rows}, 4, {length}] x",
                f'Einsum <equation = "{rng.choice(["abc,abc->ab", "abc,adc->abd"])}"> (x, x)',
            ),
        ]
    )
    return f"""<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (y)
        <int64 a = {{1}}, int64 f = {{2}}, int64 n = {{4}}> {{ y = {node} }}"""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "made", [attention, cumprod, softmax, normalization, transform], ids=lambda one: one.__name__
)
def test_a_right_rewrite_is_kept(made: Callable[[random.Random], str], seed: int) -> None:
    model = onnx.parser.parse_model(made(random.Random(seed)))
    for target in ("tensorrt-10", "tensorrt-8.6"):
        assert not [one.proof.why for one in sanitize(model, target=target).report.rejected]


HARD = {
    "a definition that cancels": """<ir_version: 9, opset_import: ["" : 20]>
        g (float[2, 1000] x) => (y) { y = Gelu (x) }""",
    "another definition that cancels": """<ir_version: 9, opset_import: ["" : 20]>
        g (float[3, 4] x) => (y) { y = Gelu <approximate = "tanh"> (x) }""",
    "many factors": """<ir_version: 11, opset_import: ["" : 26]>
        g (float[2, 64] x) => (y) <int64 a = {1}> { y = CumProd (x, a) }""",
    "means of many numbers": """<ir_version: 10, opset_import: ["" : 21]>
        g (float[1, 32, 24, 24] x, float[32] s, float[32] b) => (y)
        { y = GroupNormalization <num_groups = 8> (x, s, b) }""",
    "sums that overflow in one order": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 2] x) => (y) { y = DFT <axis = 1> (x) }""",
    "sums that cancel in one order": """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 32, 1] x) => (y) { y = DFT <axis = 1, onesided = 1> (x) }""",
    "a mask is added": """<ir_version: 11, opset_import: ["" : 23]>
        g (float[1, 4, 5, 32] q, float[1, 4, 2, 32] k, float[1, 4, 2, 32] v, float[5, 2] m) => (y)
        { y = Attention (q, k, v, m) }""",
    "a scale of its own": """<ir_version: 11, opset_import: ["" : 23]>
        g (float[3, 2, 1, 32] q, float[3, 1, 7, 32] k, float[3, 1, 7, 32] v, float[1, 7] m) => (y)
        { y = Attention <scale = 0.1> (q, k, v, m) }""",
    "some keys are padding": """<ir_version: 11, opset_import: ["" : 24]>
        g (float[1, 1, 5, 32] q, float[1, 1, 7, 32] k, float[1, 1, 7, 32] v, int64[1] n) => (y)
        { y = Attention <softcap = 30.0> (q, k, v, , , , n) }""",
    "a product that overflows in one order": """<ir_version: 11, opset_import: ["" : 26]>
        g (float[1, 3, 8, 8] x) => (y) <int64 a = {-1}>
        { y = CumProd <exclusive = 1, reverse = 1> (x, a) }""",
    "a product that underflows in one order": """<ir_version: 11, opset_import: ["" : 26]>
        g (float[1, 13, 2] x) => (y) <int64 a = {1}> { y = CumProd <reverse = 1> (x, a) }""",
    "a product of the smallest numbers": """<ir_version: 11, opset_import: ["" : 26]>
        g (float[1, 8] x) => (y) <int64 a = {1}> { y = CumProd (x, a) }""",
    "large scores, many keys": """<ir_version: 11, opset_import: ["" : 23]>
        g (float[3, 2, 8, 32] q, float[3, 2, 7, 32] k, float[3, 2, 7, 32] v, float[8, 7] m) => (y)
        { y = Attention (q, k, v, m) }""",
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
def test_what_rounding_decides_for_large_inputs_refuses_nothing(text: str) -> None:
    report = sanitize(onnx.parser.parse_model(text), target="tensorrt-8.6").report
    assert report.changes
    assert not [one.proof.why for one in report.rejected]
    assert report.changes


def test_an_input_for_which_rounding_decides_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx.parser.parse_model(HARD["a product that overflows in one order"])
    (plain,) = sanitize(model, target="tensorrt-10").report.changes
    monkeypatch.setattr(Truth, "is_open", True)
    report = sanitize(model, target="tensorrt-10").report
    (open_,) = (one.proof for one in (*report.changes, *report.rejected))
    assert open_.inputs < plain.proof.inputs  # on these both give the same bits


@pytest.mark.parametrize(
    ("node", "sways"),
    [
        ("BatchNormalization (x, s, s, s, s)", False),  # a product and a sum, whose bound is that of sums
        ("InstanceNormalization (x, s, s)", True),
        ("Softmax (x)", True),
        ("Add (x, s)", False),
    ],
)
def test_only_what_is_steep_is_run_again_with_other_inputs(node: str, sways: bool) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2, 2] x) => (y) <float[2] s = {{1, 2}}>
        {{ y = {node} }}"""
    ((truth,),) = Oracle(onnx.parser.parse_model(text)).run([{"x": np.ones((1, 2, 2), np.float32)}])
    assert truth is not None
    assert (truth.sway is not None) == sways

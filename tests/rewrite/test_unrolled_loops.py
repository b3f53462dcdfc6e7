"""Loops and scans of a known count are unrolled bit for bit, and others say why they are not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import onnxq
from onnxq.run import ort, trt

H = '<ir_version: 8, opset_import: ["" : 17]>\n'
CONSTANTS = "bool on = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64 first = {1}, int64 two = {2}"
OUTER = "float[2, 3] x, float[2, 3] w, float[9, 3] t, bool f"


def opened(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(H + text)


def fed(model: onnx.ModelProto, seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    feeds = {}
    for info in model.graph.input:
        kind = info.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        drawn = generator.standard_normal(shape) if dtype.kind == "f" else generator.integers(0, 9, shape)
        feeds[info.name] = np.asarray(drawn).astype(dtype)
    return feeds


def is_unrolled(text: str, rule: str = "unroll_refused_loop") -> dict[str, int]:
    """Unrolls, compares bit for bit, and counts the operators that are left, those in bodies included."""
    model = opened(text)
    result = onnxq.sanitize(model)
    made = [change for change in result.report.changes if (change.rule, change.node) == (rule, "outer")]
    assert [change.proof.verdict for change in made] == ["exact"]
    for seed in range(2):
        feeds = fed(model, seed)
        runs = [ort.load(one, optimize=False).run(feeds) for one in (model, result.model)]
        for before, after in zip(*runs, strict=True):
            assert (before.dtype, before.shape) == (after.dtype, after.shape)
            assert before.tobytes() == after.tobytes()
    kinds = [node.op_type for node in result.model.graph.node]
    assert "outer" not in {node.name for node in result.model.graph.node}
    return {kind: kinds.count(kind) for kind in kinds}


class Drawn:
    """A Loop or a Scan whose body has random nodes over what is carried, read, and around it."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.count, self.lines = self.draw.randint(1, 8), list[str]()
        self.carried = [f"a{number}" for number in range(self.draw.randint(1, 3))]
        start = self.made("Unsqueeze (i, zero)")
        part = self.made(f"Slice (t, {start}, {self.made(f'Add ({start}, one)')}, zero)")
        values = [
            *self.carried,
            self.made("ReduceSum (t, zero)"),
            self.made(f"ReduceSum ({part}, zero)"),
            "x",
        ]
        for _ in range(self.draw.randint(1, 4)):
            value = self.made(f"Add ({values[0]}, {self.draw.choice(values)})")
            values.insert(0, self.nested(value) if self.draw.random() < 0.4 else self.made(f"Sin ({value})"))
        others = self.draw.sample([*self.carried, "x"], len(self.carried) - 1)
        self.given = [self.made(f"Sub ({values[0]}, {values[-2]})"), *others]  # so that the Slice is read
        self.rows = [self.made(f"Exp ({self.draw.choice(values)})") for _ in range(self.draw.randint(0, 2))]
        self.outputs = ", ".join(f"y{number}" for number in range(len(self.given) + len(self.rows)))
        self.initial = ", ".join(self.draw.choice(["x", "w"]) for _ in self.carried)

    def made(self, call: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {call}")
        return name

    def nested(self, value: str) -> str:
        own = f"_{len(self.lines)}"
        if self.draw.random() < 0.5:
            decided = self.draw.choice(["f", self.made("Equal (i, two)")])
            return self.made(
                f"""If ({decided}) <then_branch = p () => (float[2, 3] p{own}) {{
                    q{own} = Neg ({value})  p{own} = Mul (q{own}, x) }},
                else_branch = e () => (float[2, 3] e{own}) {{ e{own} = Add ({value}, w) }}>"""
            )
        return self.made(
            f"""Loop (two, on, {value}) <body = n (int64 k{own}, bool g{own}, float[2, 3] s{own})
                => (bool h{own}, float[2, 3] r{own}) {{ h{own} = Identity (g{own})  l{own} = Add (k{own}, i)
                m{own} = Cast <to = 1> (l{own})  o{own} = Mul (s{own}, m{own})  r{own} = Tanh (o{own}) }}>"""
        )

    def body(self, given: list[str], returned: list[str], before: str) -> str:
        """The body; what it returns has names of its own, as ONNX asks for."""
        inner = [f"float[2, 3] {name}" for name in self.carried]
        names = [f"r{number}" for number in range(len(self.given) + len(self.rows))]
        last = "  ".join(
            f"{n} = Identity ({one})" for n, one in zip(names, [*self.given, *self.rows], strict=True)
        )
        results = [*returned, *(f"float[2, 3] {name}" for name in names)]
        inputs = [*given[:2], *inner] if returned else [*inner, *given]
        header = f"body = b ({', '.join(inputs)}) => ({', '.join(results)})"
        return f"{header} {{ {before} {'  '.join(self.lines)}  {last} }}"

    def loop(self) -> str:
        condition = self.draw.choice(["d = Identity (c)", "d = Constant <value = bool {1}> ()"])
        trip, before = f", int64 n = {{{self.count}}}", ""
        if self.draw.random() < 0.3:  # as often as a tensor has rows
            trip, before = (
                "",
                self.draw.choice(["n = Slice (s, zero, one)", "m = Slice (s, zero, one) n = Squeeze (m)"]),
            )
            before = f"s = Shape (x) {before}"
        body = self.body(["int64 i", "bool c"], ["bool d"], condition)
        called = f"(n, {self.draw.choice(['on', ''])}, {self.initial})"
        return f"""g ({OUTER}) => ({self.outputs}) <{CONSTANTS}{trip}> {{
            {before} [outer] {self.outputs} = Loop {called} <{body}> }}"""

    def scan(self) -> str:
        sizes, axis = [2, 3], self.draw.randint(-3, 2)
        sizes.insert(axis if axis >= 0 else axis + 3, self.count)
        axes = [self.draw.randint(-3, 2) for _ in self.rows]
        back = [self.draw.randint(0, 1) for _ in range(2 + len(self.rows))]
        more = f", scan_input_axes = {[axis, 0]}, scan_input_directions = {back[:2]}"
        if self.rows:
            more += f", scan_output_axes = {axes}, scan_output_directions = {back[2:]}"
        self.given[0] = self.made(f"Mul ({self.given[0]}, row)")
        body = self.body(["float[2, 3] row", "int64 i"], [], "")
        read = f"float{sizes} rows, int64[{self.count}] numbers"
        called = f"<num_scan_inputs = 2{more}, {body}> ({self.initial}, rows, numbers)"
        return f"""g ({OUTER}, {read}) => ({self.outputs}) <{CONSTANTS}> {{
            [outer] {self.outputs} = Scan {called} }}"""


@pytest.mark.parametrize("seed", range(40))
def test_a_random_loop(seed: int) -> None:
    is_unrolled(Drawn(seed).loop())


@pytest.mark.parametrize("seed", range(40))
def test_a_random_scan(seed: int) -> None:
    is_unrolled(Drawn(seed).scan())


BAGS = """g (int64[9] ids, float[50, 16] table) => (float[3, 16] y) <int64 n = {3}, bool on = {1},
    int64[4] starts = {0, 2, 5, 9}> {
    empty = SequenceEmpty <dtype = 1> ()
    [outer] bags = Loop (n, on, empty) <body = b (int64 i, bool c, seq(float[]) s) => (bool d, seq(float[]) r)
        <int64 one = {1}, int64[1] zero = {0}> { d = Identity (c)
        p = Gather (starts, i)  j = Add (i, one)  q = Gather (starts, j)
        from = Unsqueeze (p, zero)  to = Unsqueeze (q, zero)  part = Slice (ids, from, to, zero)
        rows = Gather (table, part)  m = ReduceSum <keepdims = 0> (rows, zero)  r = SequenceInsert (s, m) }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (bags) }"""

LEVELS = """g (float[1, 21, 32] t, float[32, 16] w) => (float[3, 1, 16] y) <int64 n = {3}, bool on = {1},
    int64[3] starts = {0, 16, 20}, int64[3] ends = {16, 20, 21}> {
    [outer] y = Loop (n, on) <body = b (int64 i, bool c) => (bool d, float[1, 16] r)
        <int64[1] zero = {0}, int64[1] one = {1}> { d = Identity (c)
        p = Gather (starts, i)  q = Gather (ends, i)  from = Unsqueeze (p, zero)  to = Unsqueeze (q, zero)
        part = Slice (t, from, to, one)  m = ReduceMean <axes = [1], keepdims = 0> (part)
        r = MatMul (m, w) }> }"""


@pytest.mark.parametrize("text", [BAGS, LEVELS], ids=["bags", "levels"])
def test_what_did_not_compile_compiles(text: str, tmp_path: Path) -> None:
    """torch's EmbeddingBag, and levels of a pyramid in one tensor."""
    kept = is_unrolled(text)
    assert kept["Slice"] == 3
    assert "SequenceInsert" not in kept
    pytest.importorskip("tensorrt_rtx")
    for number, model in enumerate((opened(text), onnxq.sanitize(opened(text)).model)):
        onnx.save(model, tmp_path / f"{number}.onnx")
        assert trt.compile_engine(tmp_path / f"{number}.onnx").status == ("failed", "compiled")[number]


LAYER = """g (float[16, 16] x, float[2, 3] u, int64 k) => (y) <bool on = {1}, int64 n = {%d}> {
    s = Constant <value_ints = [16, 16]> ()  w = ConstantOfShape <value = float[1] {0.1}> (s)
    [outer] y = Loop (n, on, x) <body = b (int64 i, bool c, float[16, 16] a) => (bool d, float[16, 16] r) {
        %s  v = Transpose (w)  [layer] p = MatMul (a, v)  r = Tanh (p) }> }"""


def test_a_layer_in_a_loop_can_be_quantized() -> None:
    assert is_unrolled(LAYER % (5, "d = Identity (c)"), "unroll_layers")["MatMul"] == 5
    model = opened(LAYER % (2, "d = Identity (c)"))
    quantized = onnxq.quantize(model, data=[fed(model, seed) for seed in range(8)])
    weights = [node for node in quantized.model.graph.node if node.op_type == "DequantizeLinear"]
    assert len(weights) >= 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAYER % (300, "d = Identity (c)"), "300 iterations of"),
        (
            LAYER % (5, "m = ReduceMax <keepdims = 0> (a)  z = Sub (m, m)  d = Less (m, z)"),
            "it may end before",
        ),
        ((LAYER % (5, "d = Identity (c)")).replace("(n, on", "(k, on"), "--freeze k=NUMBER"),
        ((LAYER % (5, "d = Identity (c)")).replace("float[16, 16]", "float[4, 16]"), ""),
    ],
)
def test_others_stay_and_say_why(text: str, why: str) -> None:
    result = onnxq.sanitize(opened(text))
    assert [node.op_type for node in result.model.graph.node if node.name == "outer"] == ["Loop"]
    reasons = [miss.reason for miss in result.report.near_misses if miss.node == "outer"]
    assert bool(reasons) == bool(why)
    assert all("'layer' stays float inside" in reason and why in reason for reason in reasons)


def test_what_no_iteration_changes_is_computed_once() -> None:
    """Here the weights, which a body moves: each iteration would have a copy of them."""
    text = (LAYER % (6, "d = Identity (c)")).replace(
        "w = ConstantOfShape <value = float[1] {0.1}> (s)", "w = Relu (u)"
    )
    text = (
        text.replace("float[2, 3] u", "float[16, 16] u, float[9, 16] t")
        .replace(
            "r = Tanh (p)",
            """f = Unsqueeze (i, s1)
        g = Add (f, f1)  h = Slice (t, f, g, s1)  r = Add (p, h)""",
        )
        .replace("bool on", "int64[1] s1 = {0}, int64[1] f1 = {1}, bool on")
    )
    kept = is_unrolled(text)
    assert (kept["Transpose"], kept["MatMul"]) == (1, 6)


def test_random_numbers_are_drawn_in_each_iteration() -> None:
    """They are not the same ones twice, and nothing says that they are equal: it stays a Loop."""
    text = (LAYER % (3, "d = Identity (c)")).replace(
        "r = Tanh (p)", "e = RandomNormalLike (u)  r = Add (p, e)"
    )
    result = onnxq.sanitize(opened(text.replace("float[2, 3] u", "float[16, 16] u")))
    assert any("at random" in miss.reason for miss in result.report.near_misses)

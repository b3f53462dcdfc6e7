"""The one reader of Q/DQ pairs: what a pair says of itself, and what each question looks through."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

from onnxq.formats import INT8
from onnxq.graph import pairs
from onnxq.graph.model import Model
from onnxq.graph.pairs import Pair, PairIndex, outputs_of, pair_of, pairs_of, readers_of
from onnxq.graph.topology import Topology
from onnxq.graph.view import Node, Tensor

_CONSTANTS = """<float s = {0.5}, float t = {0.25}, int8 z = {0}, float one = {1}, float zero = {0},
    int64[2] pads = {0, 0}, int64[1] first = {0}, int64[1] four = {4}, int64[1] flat = {4}>"""
_BOTH = "qx = QuantizeLinear (x, s, z)  [d] d = DequantizeLinear (qx, s, z)"


def opened(nodes: str, *, outputs: str = "float[M] y", constants: str = _CONSTANTS) -> Model:
    text = f"""<ir_version: 10, opset_import: ["" : 21, "other" : 1]>
        g (float[4] x, float[4] f) => ({outputs}) {constants} {{ {nodes} }}"""
    return Model.open(onnx.parser.parse_model(text))


def tensor(model: Model, name: str) -> Tensor:
    return Tensor(model, model.graph.tensors()[name])


def node(model: Model, name: str) -> Node:
    return next(Node(model, raw) for raw in model.graph.nodes if raw.name == name)


# -- what stands between ---------------------------------------------------------------------------

SETS = ("NOTHING", "PLACED", "MOVED", "PICKED", "ALONE", "CARRIED", "IN_SIGHT", "BUILT")
THROUGH = {
    "Identity (d)": ("PLACED", "MOVED", "PICKED", "ALONE", "CARRIED", "IN_SIGHT", "BUILT"),
    "Cast <to = 1> (d)": ("PLACED", "MOVED", "ALONE", "CARRIED", "IN_SIGHT", "BUILT"),
    "Reshape (d, flat)": ("MOVED", "PICKED", "ALONE", "CARRIED", "IN_SIGHT", "BUILT"),
    "Slice (d, first, four)": ("PICKED", "ALONE", "CARRIED", "IN_SIGHT"),
    "Pad (d, pads)": ("CARRIED", "IN_SIGHT"),
    "Pad (d, pads, zero)": ("CARRIED", "IN_SIGHT"),
    "Pad <mode = \"edge\"> (d, pads)": ("CARRIED", "IN_SIGHT"),
    "Pad (d, pads, one)": ("IN_SIGHT",),
    "Concat <axis = 0> (d, d)": ("CARRIED",),
    "Concat <axis = 0> (d, f)": (),
    "Relu (d)": (),
    "other.Identity (d)": (),
}  # fmt: skip


@pytest.mark.parametrize("between", THROUGH)
def test_each_question_looks_through_what_it_says(between: str) -> None:
    model = opened(f"{_BOTH}  m = {between}  y = Relu (m)")
    moved = tensor(model, "m")
    found = {name for name in SETS if pair_of(moved, getattr(pairs, name)) is not None}
    assert found == set(THROUGH[between])
    assert bool(pairs_of(moved)) == ("CARRIED" in found)
    assert pairs.is_dequantized(moved) == ("MOVED" in found)


@pytest.mark.parametrize("between", THROUGH)
def test_who_reads_a_pair_is_found_from_both_sides(between: str) -> None:
    """A pair's readers are those behind the operators through which the pair is found from them."""
    model = opened(f"{_BOTH}  [m] m = {between}  [r] y = Relu (m)")
    readers = [reader.name for reader, _ in Pair(node(model, "d")).readers]
    part = between == "Concat <axis = 0> (d, f)"  # int8 goes on, though not all of what is read is int8
    assert readers == (["r"] if "CARRIED" in THROUGH[between] or part else ["m"])


def test_a_joined_tensor_comes_from_all_pairs_or_from_none() -> None:
    more = "qf = QuantizeLinear (f, t, z)  [e] e = DequantizeLinear (qf, t, z)"
    model = opened(f"{_BOTH}  {more}  c = Concat <axis = 0> (d, e)  y = Relu (c)")
    assert {pair.node.name for pair in pairs_of(tensor(model, "c"))} == {"d", "e"}
    half = opened(f"{_BOTH}  c = Concat <axis = 0> (d, f)  y = Relu (c)")
    assert pairs_of(tensor(half, "c")) == ()


def test_outputs_are_moved_and_not_joined() -> None:
    model = opened(
        f"{_BOTH}  y = Reshape (d, flat)  w = Concat <axis = 0> (d, d)", outputs="float[M] y, float[N] w"
    )
    assert [one.name for one in outputs_of(tensor(model, "d"))] == ["y"]
    assert [(user.op, one.name) for user, one in readers_of(tensor(model, "x"))] == [("QuantizeLinear", "x")]


def test_nvidias_operator_is_a_pair_of_a_built_file_only() -> None:
    model = opened("m = other.TRT_MXFP8DequantizeLinear (x, s)  y = Relu (m)")
    assert pair_of(tensor(model, "m"), pairs.BUILT) is not None
    assert pair_of(tensor(model, "m")) is None


# -- what a pair says ------------------------------------------------------------------------------


def test_a_pair_is_the_same_from_both_nodes() -> None:
    model = opened(_BOTH.replace("qx =", "[q] qx =") + "  y = Relu (d)")
    for pair in (Pair(node(model, "q")), Pair(node(model, "d"))):
        assert pair.source == tensor(model, "x")
        assert pair.codes == tensor(model, "qx")
        assert pair.quantizer == node(model, "q")
        assert (pair.axis, pair.block, pair.format, pair.ends) == (1, 0, INT8, (-128, 127))
        assert pair.scales is not None
        assert pair.scales.tolist() == 0.5
        assert pair.is_int8
        assert not pair.is_per_channel
        assert not pair.is_constant


@pytest.mark.parametrize(
    ("nodes", "form", "ends"),
    [
        ("q = QuantizeLinear (x, s)", "uint8", (0, 255)),
        ("q = QuantizeLinear <output_dtype = 22> (x, s)", "int4", (-8, 7)),
        ("q = QuantizeLinear <output_dtype = 17> (x, s)", "fp8", None),
        ("q = QuantizeLinear (x, s, z)", "int8", (-128, 127)),
    ],
)
@pytest.mark.parametrize("typed", [True, False])
def test_the_format_is_known_with_types_and_without(
    nodes: str, form: str, ends: tuple[int, int] | None, typed: bool
) -> None:
    """A `Topology` knows no types but those that the file states."""
    model = opened(f"{nodes}  y = DequantizeLinear (q, s)")
    held = model if typed else Topology(model.to_proto(), None, None)
    (pair,) = PairIndex.of(held).quantizing
    assert pair.format is not None
    assert (pair.format.name, pair.ends) == (form, ends)


def test_constants_of_codes_and_of_floats_that_are_quantized() -> None:
    held = "<int8[4] w = {1, 2, 3, 4}, float[4] v = {1, 2, 3, 4}, float s = {0.5}, int8 z = {0}>"
    model = opened(
        """[a] a = DequantizeLinear (w, s, z)
        vq = QuantizeLinear (v, s, z)  [b] b = DequantizeLinear (vq, s, z)
        xq = QuantizeLinear (x, s, z)  [c] c = DequantizeLinear (xq, s, z)
        y = Sum (a, b, c)""",
        constants=held,
    )
    assert [Pair(node(model, name)).is_constant for name in "abc"] == [True, True, False]
    assert [pairs.is_quantized_constant(tensor(model, name)) for name in "abc"] == [True, True, False]


def test_numbers_are_spread_over_channels_and_blocks() -> None:
    held = """<int8[2, 4] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] c = {1, 2}, float[2, 2] k = {1, 2, 3, 4}>"""
    nodes = """[c] a = DequantizeLinear <axis = -2> (w, c)  z = Relu (a)
        [k] y = DequantizeLinear <axis = 1, block_size = 2> (w, k)"""
    model = opened(nodes, outputs="float[2, 4] y, float[2, 4] z", constants=held)
    channels, blocks = Pair(node(model, "c")), Pair(node(model, "k"))
    for pair in (channels, blocks):
        assert pair.scale is not None
        assert pair.scale.constant is not None
        spread = pair.spread(pair.scale.constant, (2, 4))
        expected = [[1, 1, 1, 1], [2, 2, 2, 2]] if pair == channels else [[1, 1, 2, 2], [3, 3, 4, 4]]
        assert spread is not None
        assert spread.tolist() == expected
        assert pair.spread(np.ones(3), (2, 4)) is None
    assert channels.is_per_channel
    assert not blocks.is_per_channel
    assert pairs.other_codes(tensor(model, "y")) == "int8 in blocks of 2"


def test_an_index_has_the_pairs_of_bodies_where_it_is_asked_for_them() -> None:
    body = "then () => (float[4] a) { q = QuantizeLinear (x, s, z)  a = DequantizeLinear (q, s, z) }"
    other = "else () => (float[4] b) { b = Identity (x) }"
    model = opened(
        f"i = Cast <to = 9> (one)  {_BOTH}  h = If (i) <then_branch = {body}, else_branch = {other}>"
        "  y = Add (h, d)"
    )
    assert len(PairIndex.of(model)) == 4
    main = PairIndex.of(model, bodies=False)
    assert [pair.dequantizes for pair in main] == [False, True]
    assert main.behind("y") is None
    assert main.behind("nowhere") is None
    found = main.behind("d")
    assert found is not None
    assert found.node.name == "d"


def test_blocks_of_one_axis_are_no_channels() -> None:
    held = "<int8[4] w = {1, 2, 3, 4}, float[2] k = {1, 2}>"
    model = opened("[k] y = DequantizeLinear <axis = 0, block_size = 2> (w, k)", constants=held)
    pair = Pair(node(model, "k"))
    assert not pair.is_per_channel
    spread = pair.spread(np.array([1, 2]), (4,))
    assert spread is not None
    assert spread.tolist() == [1, 1, 2, 2]


def test_codes_that_nobody_knows_may_be_int8() -> None:
    """Nobody is told that codes are no int8 whose type an operator of another domain hides."""
    model = opened("q = other.Codes (x)  [d] d = DequantizeLinear (q, s)  y = Relu (d)")
    pair = Pair(node(model, "d"))
    assert (pair.format, pair.ends, pair.quantizer, pair.source) == (None, None, None, None)
    assert pair.is_int8
    assert pairs.other_codes(tensor(model, "d")) == ""


@pytest.mark.parametrize(
    ("back", "serves"),
    [
        ("<axis = 0> (q, c, b)", True),
        ("<axis = 1> (q, c, b)", False),
        ("<axis = 0> (q, e, b)", False),
        ("<axis = 0> (q, c)", False),
    ],
)
def test_a_pair_serves_others_where_its_nodes_undo_each_other(back: str, serves: bool) -> None:
    held = "<float[2] c = {1, 2}, float[2] e = {1, 3}, int8[2] b = {0, 0}, int64[2] square = {2, 2}>"
    model = opened(
        f"m = Reshape (x, square)  q = QuantizeLinear <axis = 0> (m, c, b)  d = DequantizeLinear {back}"
        "  y = Relu (d)",
        outputs="float[2, 2] y",
        constants=held,
    )
    nodes = {Node(model, raw) for raw in model.graph.nodes}
    own = pairs.own_pair(tensor(model, "m"), nodes)
    assert own == (tensor(model, "d") if serves else None)

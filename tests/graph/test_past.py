"""Caches of keys and values are known by what becomes of them, not by their names."""

from __future__ import annotations

import onnx
import pytest

from benchmarks.nets.transformer import decoder, renamed
from onnxq.graph.model import Model
from onnxq.graph.past import KeyValueCache, Lengths, caches, lengths


def opened(body: str, inputs: str, outputs: str, opset: int = 17) -> Model:
    text = f"""<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]>
        g ({inputs}) => ({outputs}) <int64 zero = {{0}}, int64 one = {{1}}, int64[1] first = {{0}},
            float scale = {{0.1}}, int8 point = {{0}}> {{ {body} }}"""
    return Model.open(onnx.parser.parse_model(text))


GROWN = {
    "concat": "p = Concat <axis = 2> (a, k)",
    "negative axis": "p = Concat <axis = -2> (a, k)",
    "cast": """b = Cast <to = 10> (a)  l = Cast <to = 10> (k)
        c = Concat <axis = 2> (b, l)  p = Cast <to = 1> (c)""",
    "int8": """b = QuantizeLinear (a, scale, point)  l = QuantizeLinear (k, scale, point)
        c = Concat <axis = 2> (b, l)  p = DequantizeLinear (c, scale, point)""",
    "turned": """b = Transpose <perm = [0, 2, 1, 3]> (a)  l = Transpose <perm = [0, 2, 1, 3]> (k)
        c = Concat <axis = 1> (b, l)  p = Transpose <perm = [0, 2, 1, 3]> (c)""",
    "more axes": """b = Unsqueeze (a, first)  l = Unsqueeze (k, first)  c = Concat <axis = 3> (b, l)
        p = Squeeze (c, first)""",
}


@pytest.mark.parametrize("body", GROWN.values(), ids=list(GROWN))
def test_what_is_lengthened_and_given_back_is_a_cache(body: str) -> None:
    model = opened(body, "float[N, 2, P, 4] a, float[N, 2, S, 4] k", "float[N, 2, T, 4] p")
    found = caches(model)
    assert found == (KeyValueCache("a", "p", 2, "P", ("N",)),)
    known = lengths(model, found)
    assert known is not None
    assert (known.past, known.new, known.batch) == (("P",), ("S",), ("N",))


ATTENTION = {
    "Attention": ("y, p, q = Attention (x, k, v, , a, b)", 23),
    "MultiHeadAttention":
        ("y, p, q = com.microsoft.MultiHeadAttention <num_heads = 2> (x, k, v, , , , a, b)", 17),
    "GroupQueryAttention": (
        "y, p, q = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 2> (x, k, v, a, b, n, t)",
        17,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("body", "opset"), ATTENTION.values(), ids=list(ATTENTION))
def test_an_attention_operator_lengthens_too(body: str, opset: int) -> None:
    rows = "[N, 2, S, 4]" if opset == 23 else "[N, S, 8]"
    caching = "float[N, 2, P, 4] a, float[N, 2, P, 4] b, int32[N] n, int32 t"
    model = opened(
        body, f"float{rows} x, float{rows} k, float{rows} v, {caching}",
        f"float{rows} y, float[N, 2, T, 4] p, float[N, 2, T, 4] q", opset,
    )  # fmt: skip
    assert [(one.past, one.present, one.axis) for one in caches(model)] == [("a", "p", 2), ("b", "q", 2)]
    assert lengths(model, caches(model)) == Lengths(("P",), ("S",), (), ("N",))


def test_keys_and_values_in_one_tensor() -> None:
    """As exporters write GPT-2: both are cut out, and put together again."""
    model = opened(
        """b = Gather <axis = 0> (a, zero)  c = Gather <axis = 0> (a, one)
        d = Concat <axis = 2> (b, k)  e = Concat <axis = 2> (c, v)
        f = Unsqueeze (d, first)  g = Unsqueeze (e, first)  p = Concat <axis = 0> (f, g)""",
        "float[2, N, 2, P, 4] a, float[N, 2, S, 4] k, float[N, 2, S, 4] v", "float[2, N, 2, T, 4] p",
    )  # fmt: skip
    assert caches(model) == (KeyValueCache("a", "p", 3, "P", ("N",)),)


NONE = {
    "given back as it is": ("p = Identity (a)", "P"),
    "not given back": ("c = Concat <axis = 2> (a, k)  p = Relu (c)", "P"),
    "twice the same": ("p = Concat <axis = 2> (a, a)", "P"),
    "longer in another direction": ("p = Concat <axis = 1> (a, k)", "P"),
    "of a fixed length": ("p = Concat <axis = 2> (a, k)", "8"),
    "cut": ("s, r = Split <axis = 2> (a)  p = Concat <axis = 2> (s, k)", "P"),
    "computed": ("b = Relu (a)  p = Concat <axis = 2> (b, k)", "P"),
}


@pytest.mark.parametrize(("body", "length"), NONE.values(), ids=list(NONE))
def test_others_are_none(body: str, length: str) -> None:
    model = opened(body, f"float[1, 2, {length}, 4] a, float[1, 2, S, 4] k", "float[1, a1, b1, 4] p")
    assert caches(model) == ()
    assert lengths(model, ()) is None


@pytest.mark.parametrize("declares", [True, False])
def test_lengths_of_a_decoder_whatever_its_inputs_are_called(declares: bool) -> None:
    """The mask's is known as the sum even where the outputs do not declare that they have it."""
    proto = decoder()
    letters = {info.name: letter for info, letter in zip(proto.graph.input, "abcdef", strict=True)}
    model = renamed(proto, letters)
    for info in () if declares else model.graph.output:
        info.type.tensor_type.ClearField("shape")
    graph = Model.open(model)
    found = caches(graph)
    assert [one.past for one in found] == ["c", "d", "e", "f"]
    assert lengths(graph, found) == Lengths(("P",), ("S",), ("T",), ("N",))


def test_a_length_of_which_nothing_is_known_is_said() -> None:
    model = opened(
        "p = Concat <axis = 2> (a, k)  y = Relu (z)",
        "float[N, 2, P, 4] a, float[N, 2, S, 4] k, float[Z] z", "float[N, 2, T, 4] p, float[Z] y",
    )  # fmt: skip
    assert lengths(model, caches(model)) == Lengths(("P",), ("S",), (), ("N",), ("Z",))

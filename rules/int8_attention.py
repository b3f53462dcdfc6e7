"""Run both products of attention in int8, or none.

    s = MatMul(q, k); p = Softmax(s / 8 + mask); y = MatMul(p, v)

With pairs on q, k, p and v, and on y for an int8 layer behind it, TensorRT-RTX 1.7.1 compiles one kernel that
reads and writes int8, whatever float type is around it (MB moved with a float16 body: ViT 18.2 to 16.4, BERT
42.5 to 37.8). With a part of these pairs, or beyond the limits of that kernel, it compiles three, slower than
the one for half precision. NVIDIA's documentation of TensorRT 10 says the same. The limits:

- 16, 32 or 64 channels a head, as many of the values as of the keys; more than one head or sample
- at least 2 queries, and no more keys and queries than the target's table says
- an int8 layer reads the output, moved at most; nobody else reads the scores or their Softmax

In FP8 it is one kernel for heads of 4 to 256 channels, from 32 keys and queries on, measured up to 4,096.

In int8 it stays while the outputs are good: all weights have one scale, in which the many small ones of one
head may be lost beside the great one of another. FP8 has as many bits for small ones.

A scale, a mask or a bias on the way to the Softmax does no harm, nor does how q, k and v come about. A length
that is not known may be too great.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from onnxq.rule import (
    REARRANGES,
    Fires,
    Node,
    Quantize,
    Skip,
    Skips,
    Tensor,
    Together,
    is_float,
    layer_of,
    place,
)

_HEADS = {"int8": (16, 32, 64), "fp8": range(4, 257)}  # channels, by the format
_LEAST = {"fp8": 32}  # keys and queries
_SCORED = ("Add", "Sum", "Sub", "Mul", "Div", "Where", "Max", "Min", "Neg")
_SHAPED = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze")
_TAKEN = (*REARRANGES, "Slice", "Split", "Gather")


@dataclass(frozen=True)
class _Attention:
    """Attention: its two products, and the tensors from the one to the other."""

    first: Node
    last: Node
    between: Sequence[Tensor]


@place("MatMul")
def int8_attention(node: Node) -> list[Quantize | Together] | None:
    if not _multiplies_activations(node):
        return None
    found = _attention(node) or next(filter(None, map(_attention, _ahead(node))), None)
    if found is None or node not in (found.first, found.last):
        return None
    _check_sizes(found)
    if found.first.format != found.last.format:
        names = f"{found.first.format.name} and {found.last.format.name}"
        raise Skip(f"attention in {names}: it is one kernel, in one format")
    for tensor in found.between:
        if len(tensor.users) > 1 or tensor.is_output:
            raise Skip(f"attention whose {tensor.name!r} others read too: no kernel computes it as one")
    layer, name = _reader(found.last), node.format.name
    if layer is None:
        raise Skip(f"attention whose output no {name} layer reads: the {name} kernel has no other output")
    if node == found.first:
        return None
    asked = [
        Quantize(one, index, because=f"attention in {name}", beside=layer)
        for one in (found.first, found.last)
        for index in (0, 1)
    ]
    return [
        *asked,
        Together(
            [found.first, found.last],
            f"attention is one kernel, in {name} or in float",
            tried=node.format.even,
        ),
    ]


def _multiplies_activations(node: Node) -> bool:
    return node.op == "MatMul" and not node.domain and layer_of(node, quantized=True) is None


def _attention(last: Node) -> _Attention | None:
    """The attention that a product of two activations is the last one of."""
    between = []
    value = last.inputs[0]
    while value is not None and (maker := value.producer) is not None and not maker.domain:
        between.append(value)
        value = maker.inputs[0]
        if maker.op == "Softmax":
            return _with_scores(maker, last, between)
        if maker.op not in _SHAPED:
            return None
    return None


def _with_scores(softmax: Node, last: Node, behind: Sequence[Tensor]) -> _Attention | None:
    scores = softmax.inputs[0]
    if scores is None or softmax.attr("axis") not in (-1, (scores.rank or 0) - 1):
        return None
    found = []
    seen: set[Tensor] = set()
    ways: list[tuple[Tensor, ...]] = [(scores,)]
    while ways:
        way = ways.pop()
        maker = way[-1].producer
        if maker is None or maker.domain or way[-1] in seen:
            continue
        seen.add(way[-1])
        if _multiplies_activations(maker):
            found.append(_Attention(maker, last, (*way, *behind)))
        elif maker.op in _SCORED:
            ways += [(*way, given) for given in maker.inputs if given is not None]
        elif maker.op in _SHAPED and maker.inputs[0] is not None:
            ways.append((*way, maker.inputs[0]))
    if len(found) > 1:
        raise Skip("attention whose scores are the sum of several products")
    return found[0] if found else None


def _ahead(node: Node) -> list[Node]:
    """The products of two activations that follow, where a product may be the first one of attention."""
    found, todo, seen = [], [node], {node}
    while todo:
        for user in (user for out in todo.pop().outputs for user in out.users if user not in seen):
            seen.add(user)
            if _multiplies_activations(user):
                found.append(user)
            elif not user.domain and user.op in (*_SCORED, *_SHAPED, "Softmax"):
                todo.append(user)
    return found


def _check_sizes(found: _Attention) -> None:
    """Raises `Skip` where the int8 kernel does not take the sizes."""
    query, key, value = *found.first.operands(2), found.last.operands(2)[1]
    shapes = [tensor.shape for tensor in (query, key, value) if tensor is not None and is_float(tensor.dtype)]
    sizes = [shape for shape in shapes if shape is not None and len(shape) > 1]
    if len(sizes) < 3:
        raise Skip("attention of tensors whose shapes or types are not known")
    (*_, queries, channels), (*_, keys), (*_, width) = sizes
    format = found.last.format.name
    if channels not in _HEADS[format] or width != channels:
        some = "16, 32 or 64" if format == "int8" else "4 to 256"
        raise Skip(
            f"attention of {channels} channels a head, {width} of the values: {format} kernels have {some}"
        )
    most = found.last.kernel_limit("attention-keys")
    if not most:
        raise Skip(f"attention: of this target no {format} kernel is known")
    for name, size, limit in (
        ("keys", keys, most),
        ("queries", queries, found.last.kernel_limit("attention-queries")),
    ):
        if not isinstance(size, int):
            raise Skip(f"attention of {size or 'an unknown number of'} {name}: give the size with --shape")
        if limit is not None and size > limit:
            raise Skip(f"attention of {size} {name}: the {format} kernel takes up to {limit}")
        if size < _LEAST.get(format, 0):
            raise Skip(f"attention of {size} {name}: the {format} kernel takes {_LEAST[format]} and more")
    if queries == 1:
        raise Skip("attention of one query: no kernel computes it as one")
    if not any(isinstance(dim, int) and dim > 1 for shape in sizes for dim in shape[:-2]):
        raise Skip("attention of one head, or of a number that is not known: no kernel computes it as one")


def _reader(last: Node) -> Node | None:
    """A layer that reads the output, moved at most, and gains from int8."""
    todo = [*last.outputs]
    while todo:
        tensor = todo.pop()
        for user in tensor.users:
            layer = layer_of(user, quantized=True)
            if layer is not None and layer.ineligible is None and is_float(layer.weight.dtype):
                return user
            if not user.domain and user.op in _TAKEN and user.inputs[0] == tensor:
                todo += user.outputs
    return None


def _net(
    scores: str = "p = Softmax (s)",
    output: str = "[l] z = MatMul (y, w)",
    q: str = "2, 8, 16",
    k: str = "2, 16, 8",
    v: str = "2, 8, 16",
    results: str = "z",
) -> Any:
    """Attention with an int8 layer behind it, which gives `z`."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{q}] q, float[{k}] k, float[{v}] v, float[2, 1, 8] m, bool[8, 8] b) => ({results})
        <float c = {{8}}, float low = {{-10000}}, int64[4] apart = {{1, 2, 8, 8}}, int64[3] back = {{2, 8, 8}},
         int64[2] flat = {{-1, 16}}, int64[1] n0 = {{0}}, int64[1] n8 = {{8}}, int64[1] n1 = {{1}}> {{
            [one] s = MatMul (q, k)  {scores}  [two] y = MatMul (p, v)  {output} }}"""
    )
    weights = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def _fires(plan: str = "y -> l:0", **changed: str) -> Fires:
    pairs = "q -> one:0; k -> one:1; p -> two:0; v -> two:1; w axis 1 -> l:1; together: one, two"
    return Fires(partial(_net, **changed), after=("quantize_weighted",), plan=f"{pairs}; {plan}")


def _skips(because: str = "", limits: Mapping[str, int] | None = None, **changed: str) -> Skips:
    both = ("one", "two") if because else ()
    return Skips(partial(_net, **changed), because=because, limits=limits or {}, nodes=both)


EXAMPLES = [
    _fires(),
    # what is done to the scores
    _fires(scores="d = Div (s, c)  a = Sum (m, d)  e = Add (a, m)  p = Softmax <axis = 2> (e)"),
    _fires(scores="d = Mul (c, s)  e = Sub (d, m)  a = Where (b, low, e)  p = Softmax (a)"),
    _fires(scores="d = Neg (s)  e = Max (d, low)  a = Min (e, c)  p = Softmax (a)"),
    _fires(scores="d = Reshape (s, apart)  e = Softmax (d)  f = Identity (e)  p = Reshape (f, back)"),
    _fires(
        scores="d = Unsqueeze (s, n0)  e = Cast <to = 11> (d)  f = Softmax (e)  h = Cast <to = 1> (f)"
        "  p = Squeeze (h, n0)"
    ),
    # how the output comes to the layer, and who reads it beside
    _fires("f -> l:0", output="f = Reshape (y, flat)  [l] z = MatMul (f, w)  o = Tanh (y)", results="z, o"),
    _fires("f -> l:0", output="f = Slice (y, n0, n8, n1)  [l] z = MatMul (f, w)"),
    # sizes
    _fires(k="2, 16, 512", v="2, 512, 16"),
    _fires(q="N, 2, 8, 16", k="N, 2, 16, 8", v="N, 2, 8, 16"),
    _fires(q="1, 2, 8, 16", k="1, 1, 16, 8", v="1, 1, 8, 16"),
    _skips("513 keys", k="2, 16, 513", v="2, 513, 16"),
    _skips("of S keys", k="2, 16, S", v="2, S, 16"),
    _skips("of S queries", q="2, S, 16"),
    _skips("513 queries", q="2, 513, 16"),
    _skips("one query", q="32, 1, 16", k="32, 16, 8", v="32, 8, 16"),
    _skips("one head", q="1, 16, 16", k="1, 16, 8", v="1, 8, 16"),
    _skips("one head", q="N, 16, 16", k="N, 16, 8", v="N, 8, 16"),
    _skips("one head", q="16, 16", k="16, 8", v="8, 16"),
    _skips("24 channels a head", q="2, 8, 24", k="2, 24, 8"),
    _skips("32 channels a head, 16 of the values", q="2, 8, 32", k="2, 32, 8"),
    _skips("no int8 kernel is known", limits={"int8-attention-keys": 0}),
    # no int8 layer behind it
    _skips("no int8 layer reads", output="z = Tanh (y)"),
    _skips("no int8 layer reads", output="o = Tanh (y)  [l] z = MatMul (o, w)"),
    _skips("no int8 layer reads", output="[l] z = MatMul (y, w)", limits={"int8-rows": 17}),
    # others read what is between
    _skips("'s' others read", results="z, s"),
    _skips("'p' others read", results="z, p"),
    _skips("'p' others read", output="o = Tanh (p)  [l] z = MatMul (y, w)", results="z, o"),
    _skips("several products", scores="t = MatMul (q, k)  d = Add (s, t)  p = Softmax (d)"),
    # no attention
    _skips(scores="p = Tanh (s)"),
    _skips(scores="p = Softmax <axis = 1> (s)"),
    _skips(scores="d = Tanh (s)  p = Softmax (d)"),
    _skips(scores="d = Softmax (s)  p = Mul (d, c)"),
    _skips(scores="t = Tanh (s)  d = Softmax (m)  p = Add (d, t)"),
    Skips("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 8, 8] s, float[2, 8, 16] v) => (y) { p = Softmax (s)  y = MatMul (p, v) }"""),
]

"""Quantize the residual input of an Add, or of a Sum of two tensors, that a convolution feeds.

TensorRT fuses `relu(conv(y) + x)` into the convolution, whose output has the precision of the
residual input `x`. So `x` is quantized, with the pair that the block's first convolution reads, and
the branch that ends in the convolution is not: a pair there would only split the fusion.

- One branch ends in a convolution: the other is quantized.
- Both do (a downsampling shortcut): the shorter branch is quantized.
- Otherwise the Add reads what is quantized for others anyway.
"""

from typing import Any

from onnxq.rule import Fires, Node, Quantize, Read, Skips, Tensor, layer_of, place


@place("Add", "Sum")
def residual_add(node: Node) -> list[Quantize | Read]:
    if len(node.inputs) != 2:
        return []
    one, other = node.inputs
    if one is None or other is None or one.is_constant or other.is_constant:
        return []
    if one == other or one.shape is None or one.shape != other.shape:
        return []
    ends = [_fused(one, node), _fused(other, node)]
    if ends[0] is not None and ends[1] is not None:
        index = 0 if _length(ends[0]) <= _length(ends[1]) else 1
        beside = ends[1 - index]
        return [Quantize(node, index, because="shortcut of a residual Add", beside=beside)]
    for index in (0, 1):
        if ends[1 - index] is not None:
            beside = ends[1 - index]
            return [Quantize(node, index, because="residual input of an Add", beside=beside)]
    return [Read(node, index, "an Add reads what is quantized already") for index in (0, 1)]


def _fused(value: Tensor, add: Node) -> Node | None:
    """The convolution into which the Add is fused on this side."""
    producer = value.producer
    if producer is None or producer.op != "Conv" or len(value.users) != 1 or value.is_output:
        return None
    layer = layer_of(producer)
    return producer if layer is not None and layer.ineligible is None else None


def _length(node: Node) -> int:
    """The number of nodes back to a tensor that several read, or that has no producer."""
    count, value = 0, node.inputs[0]
    while value is not None and len(value.users) == 1 and value.producer is not None:
        count += 1
        value = next(iter(value.producer.inputs), None)
    return count


def _net(body: str, outputs: str = "y") -> Any:
    """A model that adds up to the tensor `s`."""
    import numpy as np
    import onnx.parser

    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 16, 16, 16] x, float[1, 16, 16, 16] i, int64[R] r2) => ({outputs}) <int64[4] to = {{256, 16, 1, 1}}> {{
            {body}  y = Relu (s) }}"""
    )
    shapes = {"w": (16, 16, 1, 1), "v": (16, 1, 1, 1), "m": (16, 16), "k": (1, 16, 16, 16)}
    for name, shape in shapes.items():
        values = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    return model


def _fires(body: str, plan: str, outputs: str = "y") -> Fires:
    return Fires(lambda: _net(body, outputs), after=("quantize_weighted",), plan=plan)


_MAIN = "[a] a = Conv (x, w)  r = Relu (a)  [c] c = Conv (r, w)  "
_OTHER = "  o = Add (a, z)  [s] s = Add (x, o)"
_PLAN = "r -> c:0; w axis 0 -> a:1, c:1; "
_BOTH = "[d] d = Conv (x, w)  "

EXAMPLES = [
    _fires(_MAIN + "z = Relu (x)  [s] s = Add (c, z)", _PLAN + "x -> a:0; z -> s:1"),
    _fires(_MAIN + "z = Relu (x)  [s] s = Add (z, c)", _PLAN + "x -> a:0; z -> s:0"),
    _fires(_MAIN + "[s] s = Add (c, r)", "x -> a:0; r -> c:0, s:1; w axis 0 -> a:1, c:1"),
    _fires(_MAIN + "[s] s = Sum (r, c)", "x -> a:0; r -> c:0, s:0; w axis 0 -> a:1, c:1"),
    # both end in a convolution: the shorter branch, on either side
    _fires(
        _MAIN + _BOTH + "[s] s = Add (c, d)",
        "x -> a:0, d:0; r -> c:0; d -> s:1; w axis 0 -> a:1, c:1, d:1",
    ),
    _fires(
        _MAIN + _BOTH + "[s] s = Add (d, c)",
        "x -> a:0, d:0; r -> c:0; d -> s:0; w axis 0 -> a:1, c:1, d:1",
    ),
    _fires(
        "t = Tanh (x)  [a] a = Conv (t, w)  [d] d = Conv (x, w)  [s] s = Add (a, d)",
        "t -> a:0; x -> d:0; d -> s:1; w axis 0 -> a:1, d:1",
    ),
    _fires(
        "[a] a = Conv (x, w)  [d] d = Conv (x, w)  [s] s = Add (a, d)",
        "x -> a:0, d:0; a -> s:0; w axis 0 -> a:1, d:1",
    ),
    # no convolution is fused there: what is quantized anyway
    _fires(
        "z = Tanh (x)  [s] s = Add (x, z)  [a] u = Conv (x, w)  [c] v2 = Conv (z, w)",
        "x -> a:0, s:0; z -> c:0, s:1; w axis 0 -> a:1, c:1",
    ),
    # not fused: somebody else reads the convolution's output, it is one of the model's, it stays in float
    _fires("[a] a = Conv (x, w)  z = Tanh (i)  t = Tanh (a)" + _OTHER, "x -> a:0, s:0; w axis 0 -> a:1"),
    _fires("[a] a = Conv (x, w)  z = Tanh (i)" + _OTHER, "x -> a:0, s:0; w axis 0 -> a:1", "y, a"),
    _fires(
        "[f] f = Conv (x, w)  a = Conv <group = 16> (x, v)  z = Tanh (i)" + _OTHER,
        "x -> f:0, s:0; w axis 0 -> f:1",
    ),
    # nor into a product, or a convolution of two activations
    _fires("[a] a = MatMul (x, m)  z = Tanh (i)" + _OTHER, "x -> a:0, s:0; m axis 1 -> a:1"),
    _fires(
        "[f] f = Conv (x, w)  u = Reshape (i, to)  a = Conv (x, u)  z = Tanh (a)  e = Add (a, a)"
        "  d = Conv (x, u)  h = Conv (x, u)  g = Add (d, h)  [s] s = Add (x, f)",
        "x -> f:0, s:0; w axis 0 -> f:1",
    ),
    # beside a convolution that has to stay in float: what it reads depends on no input
    _fires(
        "c = Neg (k)  a = Conv (c, w)  z = Tanh (i)  [f] f = Conv (x, w)" + _OTHER,
        "x -> f:0, s:0; w axis 0 -> f:1",
    ),
    _fires(
        "c = Neg (k)  h = Relu (c)  a = Conv (h, w)  [f] z = Conv (x, w)" + _OTHER,
        "x -> f:0, s:0; w axis 0 -> f:1",
    ),
    _fires(  # of two convolutions one stays in float
        "[a] a = Conv (x, w)  d = Conv <group = 16> (i, v)  [s] s = Add (a, d)",
        "x -> a:0; d -> s:1; w axis 0 -> a:1",
    ),
    _fires(  # a branch that begins with no input at all
        "n = RandomNormal <shape = [1, 16, 16, 16]> ()  [a] a = Conv (n, w)  [d] d = Conv (i, w)"
        "  [s] s = Add (a, d)",
        "n -> a:0; i -> d:0; d -> s:1; w axis 0 -> a:1, d:1",
    ),
    # the shorter of two branches: from where they part, or from an input
    _fires(
        "t = Tanh (x)  h = Relu (t)  [a] a = Conv (h, w)  n = Neg (h)  e = Relu (i)  [d] d = Conv (e, w)  [s] s = Add (d, a)",
        "h -> a:0; e -> d:0; a -> s:1; w axis 0 -> a:1, d:1",
    ),
    Skips(lambda: _net("a = Conv (x, w)  s = Sum (a, x, i)")),
    Skips(lambda: _net("a = Conv (x, w)  s = Sum (a)")),
    Skips(lambda: _net("s = Add (x, x)")),
    Skips(lambda: _net("s = Add (x, k)")),
    Skips(lambda: _net("s = Add (k, x)")),
    Skips(lambda: _net("a = Reshape (x, r2)  z = Reshape (i, r2)  s = Add (a, z)")),
    Skips(lambda: _net("g = GlobalAveragePool (x)  s = Add (x, g)")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 8] x, float[8] z) => (float[1, 8] y) { y = Add (x, z) }"""
    ),
]

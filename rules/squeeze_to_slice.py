"""Turn the If of `torch.squeeze(x, d)` into the slice `x[:, 0]`.

With a dynamic dimension `torch.squeeze(x, 1)` exports as an If whose branches have different ranks.
TensorRT rejects it:

    IIfConditionalOutputLayer inputs must have the same shape
    Must have inputs with equal ranks when condition is not build-time constant

    before    y = If(Shape(x)[1] == 1) { then: Squeeze(x, 1)  else: Identity(x) }      x: [B, N, 8]
    after     y = Gather(x, 0, axis=1)                                                   where N = 1

That is right only where the dimension is 1. So it fires only where a consumer's rank proves it (a
convolution of rank 3 cannot read what has 4 dimensions) or the user states it: `--assume N=1`.
Otherwise it would drop data. The size is written into the model's inputs, so that another one is
refused there; where the dimension is of no input, the branch's own Squeeze takes the place of the If,
and refuses another size itself.
"""

from typing import Any

from onnxq.rule import (
    STATED,
    Assuming,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    constant,
    known_elements,
    made_by,
    op,
    required,
    rule,
)

# Operators of one input that keep the rank.
ELEMENTWISE = {
    "Abs", "Cast", "Clip", "Dropout", "Elu", "Erf", "Exp", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Neg",
    "Relu", "Sigmoid", "Softmax", "Softplus", "Sqrt", "Tanh",
}  # fmt: skip


@rule("If", stage="compat", lacks="if-branches-of-different-rank")
def squeeze_to_slice(node: Node) -> Assuming | None:
    found = _squeezed(node)
    if found is None:
        return None
    source, axis = found
    assert source.shape is not None
    dim = source.shape[axis]
    if not isinstance(dim, str):
        raise Skip(f"dimension {axis} of {source.name!r} is dynamic and has no name to state a size of")
    stated = node.assumed(dim)
    proof = STATED if stated is not None else _proved(node.outputs[0], len(source.shape) - 1)
    if proof is None:
        raise Skip(f"dimension {axis} of {source.name!r} is dynamic ({dim}): state it with --assume {dim}=1")
    if stated not in (None, 1):
        return None
    first = op.Gather(source, 0, axis=axis)
    return Assuming(first if node.is_input_dim(dim) else node.body("then_branch")[0], dim, 1, proof)


def _squeezed(node: Node) -> tuple[Tensor, int] | None:
    """The tensor and the axis, where the node is `squeeze if that dimension is 1`."""
    squeeze = made_by(node.body("then_branch")[0], "Squeeze")
    kept = made_by(node.body("else_branch")[0], "Identity")
    if len(node.outputs) != 1 or squeeze is None or kept is None:
        return None
    (source,) = required(squeeze, 1)
    axes = squeeze.attr("axes") if squeeze.opset < 13 else constant(squeeze.operands(2)[1])
    if source.shape is None or source != kept.inputs[0] or axes is None or len(list(axes)) != 1:
        return None
    axis = int(next(iter(axes))) % len(source.shape)
    (test,) = required(node, 1)
    while (passed := made_by(test, "Cast", "Identity")) is not None:
        (test,) = required(passed, 1)
    equal = made_by(test, "Equal")
    if equal is None:
        return None
    sides = [known_elements(side) for side in required(equal, 2)]
    found = [side.item() for side in sides if side is not None and side.size == 1]
    return (source, axis) if 1 in found and source.shape[axis] in found else None


def _proved(value: Tensor, rank: int) -> Any:
    """Who proves that the dimension is 1: a reader of the value that needs it to have this rank; else None."""
    todo = [value]
    while todo:
        for user in todo.pop().users:
            if user.op in ELEMENTWISE and not user.domain:
                todo += user.outputs[:1]
            elif _needed_rank(user, value) == rank:
                return f"{user.op} {user.name!r} needs an input of rank {rank}"
    return None


def _needed_rank(user: Node, value: Tensor) -> int | None:
    if user.op in ("Conv", "ConvTranspose"):
        return user.inputs[1].rank if user.inputs[1] is not None else None
    if user.op in ("MaxPool", "AveragePool", "LpPool"):
        return len(user.attr("kernel_shape")) + 2
    if user.op == "Gemm":
        return 2
    if user.op in ("LSTM", "GRU", "RNN"):
        return 3
    if user.op == "Transpose" and user.attr("perm") is not None:
        return len(user.attr("perm"))
    return None


_HEAD = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[B, N, 8] x) => (y) <int64 one = {1}, int64[1] axis = {1}, float[8, 2] w = {%s}> {
        s = Shape (x)  d = Gather (s, one)  c = Equal (d, one)
        t = If (c) <then_branch = b1 () => (a) { a = Squeeze (x, axis) },
                    else_branch = b2 () => (b) { b = Identity (x) }>
        r = Relu (t)  y = %s }"""
_INNER = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[B, 8, N] x) => (y) <int64 one = {1}, int64[1] axis = {2}, float[8, 2] w = {%s}> {
        p = MaxPool <kernel_shape = [2], strides = [2], ceil_mode = 1> (x)
        s = Shape (p)  d = Gather (s, axis)  c = Equal (d, one)
        t = If (c) <then_branch = b1 () => (a) { a = Squeeze (p, axis) },
                    else_branch = b2 () => (b) { b = Identity (p) }>
        y = Gemm (t, w) }"""
_READ = """<ir_version: 8, opset_import: ["" : %s]>
    g (float[B, N, 8%s] x, float[B, N, 8] z) => (y) <int64 one = {1}, int64[1] axis = {1}, int64[2] both = {1, 2}> {
        s = Shape (x)  d = Gather (s, one)  k = Equal (d, one)  i = Identity (k)  c = Cast <to = 9> (i)
        t = If (c) <then_branch = b1 () => (a) { %s }, else_branch = b2 () => (b) { %s }>  %s }"""
_WEIGHTS = ", ".join(str(i / 8) for i in range(16))


def _read(
    reader: str,
    more: str = "",
    then: str = "a = Squeeze (x, axis)",
    other: str = "b = Identity (x)",
    opset: int = 17,
) -> str:
    return _READ % (opset, more, then, other, reader)


EXAMPLES = [
    Fires(
        _HEAD % (_WEIGHTS, "Gemm (r, w)"),
        gone="If",
        becomes="""y: float32[B, 2]; t = Gather <axis = 1> (x, 0); r = Relu (t)
        y = Gemm (r, [8, 2] {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875})""",
    ),
    Fires(
        _HEAD % (_WEIGHTS, "MatMul (r, w)"),
        gone="If",
        assume={"N": 1},
        becomes="""y: float32[B, 2]; t = Gather <axis = 1> (x, 0); r = Relu (t)
        y = MatMul (r, [8, 2] {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875})""",
    ),
    Fires(
        _INNER % _WEIGHTS,
        gone="If",
        becomes="""y: float32[B, 2]; p = MaxPool <ceil_mode = 1, kernel_shape = [2], strides = [2]> (x)
        a = Squeeze (p, {2})
        y = Gemm (a, [8, 2] {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875})""",
    ),
    Fires(
        _read(
            "p = Abs (t)  e = Cast <to = 1> (p)  f = Clip (e)  g = Dropout (f)  h = Elu (g)  j = Erf (h)  l = Exp (j)"
            "  m = HardSigmoid (l)  n = HardSwish (m)  o = Identity (n)  q = LeakyRelu (o)  r = Neg (q)  u = Sigmoid (r)"
            "  v = Softmax (u)  w = Softplus (v)  w2 = Sqrt (w)  w3 = Tanh (w2)  y = Transpose <perm = [1, 0]> (w3)"
        ),
        gone="If",
    ),
    *(
        Fires(_read(reader, ", 5").replace("float[B, N, 8] z", weights), gone="If")
        for reader, weights in (
            ("y = Conv (t, w)", "float[4, 8, 1] w"),
            ("y = ConvTranspose (t, w)", "float[8, 4, 1] w"),
            ("y = MaxPool <kernel_shape = [2]> (t)", "float w"),
            ("y = AveragePool <kernel_shape = [2]> (t)", "float w"),
            ("y = LpPool <kernel_shape = [2]> (t)", "float w"),
            ("y = LSTM <hidden_size = 2> (t, w, r)", "float[1, 8, 5] w, float[1, 8, 2] r"),
            ("y = GRU <hidden_size = 2> (t, w, r)", "float[1, 6, 5] w, float[1, 6, 2] r"),
            ("y = RNN <hidden_size = 2> (t, w, r)", "float[1, 2, 5] w, float[1, 2, 2] r"),
        )
    ),
    Fires(
        _read("y = Transpose <perm = [1, 0]> (t)", then="a = Squeeze <axes = [1]> (x)", opset=12),
        becomes="y: float32[8, B]; t = Gather <axis = 1> (x, 0); y = Transpose <perm = [1, 0]> (t)",
    ),
    Skips(_read("y = Transpose (t)"), because="--assume N=1"),
    Skips(_read("y = Transpose <perm = [1, 0]> (t)", then="a = Gather <axis = 1> (x, one)")),
    Skips(_read("y = Transpose <perm = [1, 0]> (t)", other="b = Neg (x)")),
    Skips(_read("y = Transpose <perm = [1, 0]> (t)", other="b = Identity (z)")),
    Skips(_read("y = Transpose <perm = [1, 0]> (t)", then="a = Squeeze (x)")),
    Skips(_read("y = Transpose <perm = [1, 0]> (t)").replace("k = Equal", "k = Less")),
    Skips(_read("y = Transpose <perm = [1, 0]> (t)").replace("int64 one = {1}", "int64 one = {2}")),
    Skips(_HEAD % (_WEIGHTS, "MatMul (r, w)"), because="--assume N=1"),
    Skips(_HEAD.replace("one = {1}, int64[1] axis", "one = {0}, int64[1] axis") % (_WEIGHTS, "Gemm (r, w)")),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (bool c, float[B, 1, 8] x) => (y) <int64[1] axis = {1}> {
            y = If (c) <then_branch = b1 () => (a) { a = Squeeze (x, axis) },
                        else_branch = b2 () => (b) { b = Identity (x) }> }"""
    ),
    Fires(_HEAD.replace('"" : 17', '"" : 13') % (_WEIGHTS, "Gemm (r, w)"), gone="If"),
    Fires(
        _HEAD.replace("int64[1] axis = {1}", "int64[1] axis = {-2}") % (_WEIGHTS, "Gemm (r, w)"), gone="If"
    ),
    Skips(_HEAD.replace("int64[1] axis = {1}", "int64[1] axis = {0}") % (_WEIGHTS, "Gemm (r, w)")),
    Skips(_HEAD.replace("int64 one = {1}", "int64[2] one = {1, 1}") % (_WEIGHTS, "Gemm (r, w)")),
    Skips(_HEAD.replace("[B, N, 8] x", "[] x") % (_WEIGHTS, "Gemm (r, w)")),
    Skips(_HEAD.replace("8] x)", "8] x, int64 k)").replace("(d, one)", "(d, k)") % (_WEIGHTS, "Gemm (r, w)")),
    Skips(_HEAD.replace("[B, N, 8] x", "[B, 1, 8] x") % (_WEIGHTS, "Gemm (r, w)"), because="has no name"),
    Skips(
        _read("y = Transpose <perm = [1, 0]> (t)", then="a = Squeeze (x, none)").replace(
            "one = {1}, ", "one = {1}, int64[0] none = {}, "
        )
    ),
]

"""Write an Einsum with constant weights as a MatMul.

It is a linear layer whose heads, groups or positions have axes of their own; as a product it can be quantized, and
take up the bias behind it:

    before    y = Einsum<"bqhd,hdo->bqo">(x, w)                            x: [B, Q, H, D], w: [H, D, O]
    after     y = MatMul(Reshape(x, [0, 0, H * D]), w')                    w': [H * D, O]

Axes are exchanged in front of it or behind it where the equation's order asks for that. The sums may be taken in
another order.
"""

import math

import numpy as np
from _einsum import labels_of

from onnxq.rule import Close, Fires, Node, Skip, Skips, Value, constant, op, required, rule


@rule("Einsum", stage="fuse")
def einsum_to_matmul(node: Node) -> Close | None:
    if len(node.inputs) != 2:
        return None
    operands = required(node, 2)
    fixed = [one.is_constant for one in operands]
    ranks = [one.rank for one in operands]
    if fixed[0] == fixed[1] or None in ranks:
        return None
    terms, output = labels_of(node.attr("equation"), [rank or 0 for rank in ranks])
    x, weight = operands[:: -1 if fixed[0] else 1]
    ours, theirs = terms[:: -1 if fixed[0] else 1]
    summed = [label for label in ours if label in theirs and label not in output]
    rest = [label for label in ours if label not in summed]
    own = [label for label in output if label not in ours]
    if (
        not summed
        or not own
        or sorted(theirs) != sorted([*summed, *own])
        or sorted(output) != sorted([*rest, *own])
    ):
        return None  # a label of both that is kept, one that is repeated, or one that is summed alone
    values = constant(weight)
    if values is None or x.shape is None or values.dtype.kind != "f":
        return None
    sizes = dict(zip(theirs, values.shape, strict=True))
    if any(x.shape[ours.index(label)] != sizes[label] for label in summed):
        raise Skip(
            f"a size of {x.name!r} that is summed is not known"
        )  # it may be 1, which Einsum broadcasts
    matrix = values.transpose([theirs.index(label) for label in (*summed, *own)])
    inner = math.prod(sizes[label] for label in summed)
    product = op.MatMul(_joined(_ordered(x, ours, [*rest, *summed]), len(rest), len(summed), [inner]),
                        np.ascontiguousarray(matrix).reshape(inner, -1))  # fmt: skip
    parts = _joined(product, len(rest), 1, [sizes[label] for label in own])
    return Close(_ordered(parts, [*rest, *own], output))


def _ordered(value: Value, labels: list[str], wanted: list[str]) -> Value:
    return value if labels == wanted else op.Transpose(value, perm=[labels.index(label) for label in wanted])


def _joined(value: Value, kept: int, last: int, sizes: list[int]) -> Value:
    """A value whose last axes, `last` of them, have other sizes; those in front stay as they are."""
    return value if len(sizes) == last else op.Reshape(value, np.array([0] * kept + sizes))


def _net(equation: str, x: str, w: str, *, first: bool = False) -> str:
    operands = "w, x" if first else "x, w"
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{x}] x, float[4, 2] v) => (y) <float[{w}] w = {{{", ".join(map(str, range(math.prod(map(int, w.split(","))))))}}}> {{
        y = Einsum <equation = "{equation}"> ({operands}) }}"""


EXAMPLES = [
    Fires(
        _net("bqhd,hdo->bqo", "B, Q, 2, 3", "2, 3, 4"),
        becomes="_1 = Reshape (x, {0, 0, 6}); y = MatMul (_1, float32 [6, 4])",
    ),
    Fires(
        _net("btc,chd->bhtd", "B, T, 3", "3, 2, 2"),
        becomes="""_1 = MatMul (x, [3, 4] {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0})
        _2 = Reshape (_1, {0, 0, 2, 2}); y = Transpose <perm = [0, 2, 1, 3]> (_2)""",
    ),
    Fires(
        _net("oc,bcn->bon", "B, 3, N", "2, 3", first=True),
        becomes="""_1 = Transpose <perm = [0, 2, 1]> (x); _2 = MatMul (_1, [3, 2] {0.0, 3.0, 1.0, 4.0, 2.0, 5.0})
        y = Transpose <perm = [0, 2, 1]> (_2)""",
    ),
    Fires(
        _net("...i,ij", "B, T, 3", "3, 2"), becomes="y = MatMul (x, [3, 2] {0.0, 1.0, 2.0, 3.0, 4.0, 5.0})"
    ),
    Fires(_net("k,km->m", "3", "3, 2")),
    Skips(_net("bk,km->bm", "B, K", "3, 2"), because="is not known"),
    Skips(_net("gbk,gkm->gbm", "2, B, 3", "2, 3, 2")),  # a product for each g
    Skips(_net("bk,km->b", "B, 3", "3, 2")),
    Skips(_net("bkk,km->bm", "B, 3, 3", "3, 2")),
    Skips(_net("b,m->bm", "B", "3")),
    Skips(_net("bk,km->bm", "B, 4", "4, 2").replace("(x, w)", "(x, v)")),
]

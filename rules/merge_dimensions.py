"""Merge the dimensions of a tensor that has more than eight.

TensorRT's tensors have eight at most:

    Number of dimensions (9) is not in the valid range [-1, Dims::MAX_DIMS].

Between two Reshapes (or the like) they are only permuted, or computed with one by one. Those of size 1 are left
out, and those that stay side by side become one:

    before    y = Reshape(Transpose<[0, 2, 1, 3, ...]>(Reshape(x, [n, a, b, c, d, ...])), ...)
    after     y = Reshape(Transpose<[0, 2, 1, 3]>(Reshape(x, [n, a, b, c * d * ...])), ...)
"""

import math
from collections.abc import Sequence

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, op, remake, required, rule

_MOST = 8
_STARTS = ("Reshape", "Unsqueeze", "Squeeze", "Flatten")
_BY_ELEMENT = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp", "Cast", "Identity", "LeakyRelu", "Erf", "Sqrt",
               "Add", "Sub", "Mul", "Div", "Clip", "Not", "Floor", "Ceil", "Round", "HardSigmoid", "HardSwish")  # fmt: skip


@rule("Reshape", "Squeeze", "Flatten", stage="compat", lacks="nine-dimensions")
def merge_dimensions(node: Node) -> Value | None:
    (data,) = required(node, 1)
    if data.rank is None or data.rank <= _MOST or (node.outputs[0].rank or 0) > _MOST:
        return None
    steps: list[Node] = []  # from the end to the start
    at = data
    while at.rank is not None and at.rank > _MOST:
        made = at.producer
        if made is None or (made.op not in (*_STARTS, "Transpose") and not _is_by_element(made)):
            what = "an input of the model" if made is None else f"a {made.op}"
            raise Skip(
                f"{at.name!r}, of {at.rank} dimensions, is {what}: reshape it to {_MOST} dimensions before the export"
            )
        steps.append(made)
        at = required(made, 1)[0]
    sizes = _sizes(steps[-1].outputs[0], "onnxq sanitize --shape")
    core: Value = at
    order = list(range(len(sizes)))
    for step in reversed(steps[:-1]):
        if step.op == "Transpose":
            order = [order[axis] for axis in step.attr("perm", list(reversed(range(len(order)))))]
        elif step.op in _STARTS:
            raise Skip(
                f"{step.op} {step.name!r} makes {len(sizes)} dimensions another {step.outputs[0].rank}"
            )
        else:
            core = remake(step, core, *step.inputs[1:])
    target = np.array(_sizes(node.outputs[0], "onnxq sanitize --shape"))
    groups = _groups(order, sizes)
    if len(groups) > _MOST:
        raise Skip(f"{len(groups)} of its {len(sizes)} dimensions are neither of size 1 nor side by side")
    ascending = sorted(groups)
    parted = op.Reshape(
        core, np.array([_merged([sizes[axis] for axis in group]) for group in ascending] or [1])
    )
    perm = [ascending.index(group) for group in groups]
    moved = parted if perm == sorted(perm) else op.Transpose(parted, perm=perm)
    return op.Reshape(moved, target)


def _is_by_element(node: Node) -> bool:
    """Whether an operator computes each element by itself, with constants of one element at most."""
    others = [tensor for tensor in node.inputs[1:] if tensor is not None]
    return not node.domain and node.op in _BY_ELEMENT and all(tensor.rank == 0 for tensor in others)


def _sizes(tensor: Tensor, hint: str) -> list[int]:
    """The sizes of a tensor, -1 for the one that may be dynamic."""
    shape = tensor.shape or ()
    dynamic = [str(size) for size in shape if not isinstance(size, int)]
    if tensor.shape is None or len(dynamic) > 1:
        raise Skip(f"the sizes {', '.join(dynamic) or 'of'} {tensor.name!r} are not known ({hint})")
    return [size if isinstance(size, int) else -1 for size in shape]


def _groups(order: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The dimensions in their new order, those that follow each other before and after in one group."""
    groups: list[tuple[int, ...]] = []
    kept = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    for axis in order:
        if sizes[axis] == 1:
            continue
        before = kept[kept.index(axis) - 1] if kept.index(axis) else None
        if groups and groups[-1][-1] == before:
            groups[-1] = (*groups[-1], axis)
        else:
            groups.append((axis,))
    return groups


def _merged(sizes: Sequence[int]) -> int:
    return -1 if -1 in sizes else math.prod(sizes)


def _net(perm: str, body: str = "", shape: str = "N, 8, 4, 4", opset: int = 17) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[{shape}] x) => (float[N, M, K] y) <int64[9] s = {{-1, 1, 2, 2, 2, 2, 2, 2, 2}}, int64[3] u = {{0, 4, -1}},
        int64[3] v = {{-1, 4, 32}}, float half = {{0.5}}> {{
        r = Reshape (x, s)  t = Transpose <perm = {perm}> (r) {body or "y = Reshape (t, v)"} }}"""


EXAMPLES = [
    Fires(
        _net("[0, 1, 6, 2, 7, 3, 8, 4, 5]"),
        becomes="""_1 = Reshape (x, {-1, 2, 2, 4, 2, 2, 2}); _2 = Transpose <perm = [0, 4, 1, 5, 2, 6, 3]> (_1)
        y = Reshape (_2, {-1, 4, 32})""",
    ),
    Fires(_net("[0, 6, 2, 1, 7, 3, 8, 4, 5]", "m = Mul (t, half)  c = Relu (m)  y = Reshape (c, v)")),
    Fires(
        _net(
            "[0, 1, 6, 2, 7, 3, 8, 4, 5]",
            """a = Sigmoid (t)  b = Tanh (a)  c = Neg (b)  d = Abs (c)  e = Exp (d)  f = Identity (e)
            h = LeakyRelu (f)  i = Erf (h)  j = Sqrt (i)  k = Add (j, half)  l = Sub (k, half)  m = Div (l, half)
            n = Clip (m, half)  o = HardSigmoid (n)  p = HardSwish (o)  q = Floor (p)  z = Ceil (q)  w = Round (z)
            ca = Cast <to = 9> (w)  cb = Not (ca)  cc = Cast <to = 1> (cb)  y = Reshape (cc, v)""",
        ),
    ),
    Skips(
        _net("[8, 7, 6, 5, 4, 3, 2, 1, 0]", shape="N, 8, 8, 4").replace("{-1, 1, 2", "{-1, 2, 2"),
        because="9 of its 9",
    ),
    Skips(_net("[0, 1, 6, 2, 7, 3, 8, 4, 5]", "y = Reshape (t, s)").replace("[N, M, K] y", "[] y")),
    Skips(_net("[0, 1, 6, 2, 7, 3, 8, 4, 5]", "m = Mul (t, t)  y = Reshape (m, v)"), because="a Mul"),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2, 3, 1, 1, 1, 1, 1, 2] x) => (y) <int64[1] s = {-1}> { y = Reshape (x, s) }""",
        because="an input",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 2, 3, 2] x) => (y) <int64[1] s = {-1}> { y = Reshape (x, s) }"""
    ),
]

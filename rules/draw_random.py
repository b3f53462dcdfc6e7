"""Write `Bernoulli`, `Multinomial` and a Dropout that trains with uniform random numbers.

TensorRT has no importer for the first two, and of the third it says

    TensorRT does not support the Dropout operator in training mode.

    before    y = Bernoulli(p)                      y = Multinomial(x)                    y = Dropout(x, r, true)
    after     y = Cast(RandomUniformLike(p) < p)    y = ArgMax(x - Log(-Log(uniform)))    y = x * (uniform >= r) / (1 - r)

The numbers are others in each run, as before; they have the same distribution (a largest of logits with Gumbel noise
is a draw from their Softmax). TensorRT ignores seeds. A Dropout whose ratio is 0 is the tensor itself. Where training
was not meant, export the model after `model.eval()`.
"""

import numpy as np
from _opsets import unsqueezed

from onnxq.rule import (
    Except,
    Fires,
    Node,
    Skip,
    Skips,
    Tensor,
    Value,
    float32_only,
    op,
    operands,
    required,
    rule,
)

_FLOAT, _BOOL = 1, 9  # onnx.TensorProto.DataType
_WHY = "its values are other ones in each run"


@rule("Bernoulli", "Multinomial", "Dropout", stage="compat", lacks="training-mode")
def draw_random(node: Node) -> Except | dict[int, Value | np.ndarray] | None:
    (x,) = required(node, 1)
    if node.op == "Dropout":
        return _dropout(node, x)
    if node.op == "Multinomial" and x.dtype != np.float32:
        raise Skip(f"the type of {x.name!r} is {x.dtype}")
    wide = x if x.dtype == np.float32 else op.Cast(x, to=_FLOAT)
    if node.op == "Bernoulli":
        below = op.Less(_uniform(node, wide), wide)
        to = node.attr("dtype", 0)
        return Except(
            below if to == _BOOL else op.Cast(below, to=to) if to else op.CastLike(below, x), "random", _WHY
        )
    rows = unsqueezed(node, wide, [1])
    count = node.attr("sample_size", 1)
    if count > 1:
        sizes = op.Concat(op.Slice(op.Shape(x), np.array([0]), np.array([1])), np.array([count, 1]), axis=0)
        rows = op.Expand(rows, sizes)
    noise = op.Log(op.Neg(op.Log(_uniform(node, rows))))
    largest = op.ArgMax(op.Sub(rows, noise), axis=2, keepdims=0)
    return Except(op.Cast(largest, to=node.attr("dtype", 6)), "random", _WHY)


def _uniform(node: Node, like: Value) -> Value:
    return float32_only(op.RandomUniformLike(like, dtype=_FLOAT, seed=node.attr("seed")))


def _dropout(node: Node, x: Tensor) -> Except | dict[int, Value | np.ndarray] | None:
    ratio, training = operands(node, 3)[1:]
    if training is None or (training.is_constant and not training.scalar):
        return None
    if not training.is_constant:
        raise Skip(
            f"whether it trains is known only when the model runs: {training.name!r} (--freeze {training.name}=0)"
        )
    share = 0.5 if ratio is None else ratio.scalar
    if share is None or x.dtype is None:
        raise Skip("it trains, and its ratio is not known before the model runs")
    if not share:
        kept = op.Expand(np.array(True), op.Shape(x))
        return {
            index: value for index, value in ((0, op.Identity(x)), (1, kept)) if index < len(node.outputs)
        }
    stays = op.GreaterOrEqual(_uniform(node, x), np.float32(share))
    scale = x.dtype.type(1 / (1 - share)) if share < 1 else x.dtype.type(0)
    y = op.Where(stays, op.Mul(x, scale), x.dtype.type(0))
    return Except({0: y, 1: stays} if len(node.outputs) > 1 else {0: y}, "random", _WHY)


_NET = """<ir_version: 8, opset_import: ["" : %d, "com.microsoft" : 1]>
    g (%s x, bool t) => (%s) <float zero = {0}, float half = {0.5}, float one = {1}, bool yes = {1}, bool no = {0}> { %s %s = %s }"""


def _net(call: str, outputs: str = "y", x: str = "float[N, 4]", before: str = "") -> str:
    return _NET % (15, x, outputs, before, outputs, call)


EXAMPLES = [
    Fires(
        _net("Bernoulli <dtype = 6, seed = 2.0> (x)"),
        becomes="_1 = RandomUniformLike <dtype = 1, seed = 2.0> (x); _2 = Less (_1, x); y = Cast <to = 6> (_2)",
    ),
    Fires(
        _net("Bernoulli (x)", x="double[N, 4]"),
        becomes="""_1 = Cast <to = 1> (x); _2 = RandomUniformLike <dtype = 1> (_1); _3 = Less (_2, _1)
        y = CastLike (_3, x)""",
    ),
    Fires(
        _net("Bernoulli <dtype = 9> (x)"),
        becomes="_1 = RandomUniformLike <dtype = 1> (x); y = Less (_1, x)",
    ),
    Fires(
        _net("Multinomial (x)"),
        becomes="""_1 = Unsqueeze (x, {1}); _2 = RandomUniformLike <dtype = 1> (_1); _3 = Log (_2); _4 = Neg (_3)
        _5 = Log (_4); _6 = Sub (_1, _5); _7 = ArgMax <axis = 2, keepdims = 0> (_6); y = Cast <to = 6> (_7)""",
    ),
    Fires(
        _net("Multinomial <sample_size = 3, dtype = 7> (x)"),
        becomes="""_1 = Unsqueeze (x, {1}); _2 = Shape (x); _3 = Slice (_2, {0}, {1})
        _4 = Concat <axis = 0> (_3, {3, 1}); _5 = Expand (_1, _4); _6 = RandomUniformLike <dtype = 1> (_5)
        _7 = Log (_6); _8 = Neg (_7); _9 = Log (_8); _10 = Sub (_5, _9)
        _11 = ArgMax <axis = 2, keepdims = 0> (_10); y = Cast <to = 7> (_11)""",
    ),
    Fires(
        _net("Dropout (x, , yes)", "y, m"),
        becomes="""_1 = RandomUniformLike <dtype = 1> (x); m = GreaterOrEqual (_1, 0.5); _2 = Mul (x, 2.0)
        y = Where (m, _2, 0.0)""",
    ),
    Fires(_net("Dropout (x, zero, yes)"), becomes="y = Identity (x)"),
    Fires(
        _net("Dropout (x, zero, yes)", "y, m"),
        becomes="y = Identity (x); _1 = Shape (x); m = Expand (bool True, _1)",
    ),
    Fires(
        _net("Dropout (x, one, yes)"),
        becomes="""_1 = RandomUniformLike <dtype = 1> (x); _2 = GreaterOrEqual (_1, 1.0); _3 = Mul (x, 0.0)
        y = Where (_2, _3, 0.0)""",
    ),
    Skips(_net("Dropout (x, half, t)"), because="--freeze t=0"),
    Skips(_net("Dropout (x, r, yes)", before="r = Cast <to = 1> (t)"), because="its ratio"),
    Skips(_net("Dropout (r, half, yes)", before="r = com.microsoft.QuickGelu (x)"), because="its ratio"),
    Skips(_net("Dropout (x, half, no)")),
    Skips(_net("Dropout (x, half)")),
    Skips(_net("Multinomial (r)", before="r = com.microsoft.QuickGelu (x)"), because="the type"),
]

"""Give a single number a dimension where it is reduced.

TensorRT reduces one dimension at least:

    at least 1 dimensions are required for input

    before    y = ReduceSum(x)                              x: []
    after     y = ReduceSum<keepdims=0>(Unsqueeze(x, 0))
"""

from _dimensions import unsqueezed

from onnxq.rule import Except, Fires, Node, Skips, remake, required, rule

_KINDS = ("Sum", "Max", "Min", "Prod", "Mean", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")


@rule(*(f"Reduce{kind}" for kind in _KINDS), stage="compat", lacks="scalar-reductions")
def reduce_scalar(node: Node) -> Except | None:
    (source,) = required(node, 1)
    if source.rank != 0 or node.attr("noop_with_empty_axes"):
        return None
    result = remake(node, unsqueezed(node, source, 0), keepdims=0, axes=None)
    return Except(result, "zero-sign", "onnxruntime sums a single -0 to 0, in a vector to -0")


def _net(call: str, opset: int = 17, shape: str = "", kind: str = "float") -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g ({kind}{shape} x) => ({kind} y) {{ y = {call} (x) }}"""


EXAMPLES = [
    Fires(_net("ReduceSum"), becomes="_1 = Unsqueeze (x, {0}); y = ReduceSum <keepdims = 0> (_1)"),
    Fires(
        _net("ReduceMax", kind="int32", opset=11),
        becomes="_1 = Unsqueeze <axes = [0]> (x); y = ReduceMax <keepdims = 0> (_1)",
    ),
    Fires(_net("ReduceLogSumExp", 18)),
    Skips(_net("ReduceSum <noop_with_empty_axes = 1>")),
    Skips(_net("ReduceSum <keepdims = 0>", shape="[N]")),
]

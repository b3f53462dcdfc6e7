"""Give a vector a second dimension where TensorRT's layer wants two.

They run over one of several dimensions:

    at least 2 dimensions are required for input

    before    y = Softmax(x)                                        x: [N]
    after     y = Squeeze(Softmax<axis=-1>(Unsqueeze(x, 0)), 0)
"""

from _dimensions import squeezed, unsqueezed

from onnxq.rule import Except, Fires, Node, Skips, Value, remake, required, rule


@rule("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", stage="compat", lacks="vectors")
def lift_rank_one(node: Node) -> Value | Except | None:
    (source,) = required(node, 1)
    if source.rank != 1:
        return None
    lifted = squeezed(node, remake(node, unsqueezed(node, source, 0), axis=-1), 0)
    if not node.op.startswith("Arg"):
        return lifted
    return Except(lifted, "nan-input", "no order of a NaN is defined")


def _net(call: str, out: str = "float[N]", opset: int = 17, shape: str = "N") -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]> g (float[{shape}] x) => ({out} y) {{ y = {call} (x) }}"""


EXAMPLES = [
    Fires(
        _net("Softmax"),
        becomes="_1 = Unsqueeze (x, {0}); _2 = Softmax <axis = -1> (_1); y = Squeeze (_2, {0})",
    ),
    Fires(
        _net("Hardmax <axis = 0>", opset=11),
        becomes="""_1 = Unsqueeze <axes = [0]> (x); _2 = Hardmax <axis = -1> (_1)
        y = Squeeze <axes = [0]> (_2)""",
    ),
    Fires(_net("ArgMax <keepdims = 0>", "int64")),
    Fires(_net("ArgMin <axis = -1>", "int64[1]")),
    Skips(_net("Softmax", "float[N, 3]", shape="N, 3")),
]

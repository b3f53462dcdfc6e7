"""Dequantize a quantized table before its rows are gathered.

onnxruntime's quantizer writes an embedding as a Gather of int8 rows. TensorRT takes int8 constants
only where a DequantizeLinear reads them:

    Quantized constant (table) is only allowed before DQ or PLUGIN_V2 or kPLUGIN_V3 node.

    before    y = DequantizeLinear(Gather(table, i), scale, zero)
    after     y = Gather(DequantizeLinear(table, scale, zero), i)
"""

from onnxq.rule import Fires, Node, Skip, Skips, Value, made_by, remake, required, rule


@rule("DequantizeLinear", stage="compat", lacks="quantized-gather")
def dq_before_gather(node: Node) -> Value | None:
    codes, scale = required(node, 2)
    gather = made_by(codes, "Gather")
    if gather is None:
        return None
    table, index = required(gather, 2)
    if not table.is_constant:
        return None
    if scale.shape != ():
        raise Skip("the gathered table has more than one scale")
    return remake(gather, remake(node, table, *node.inputs[1:]), index)


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64[N] i, int8[4, 2] v) => (y) <int8[4, 2] t = {1, 127, -128, 0, 5, 6, 7, 8}, float s = {0.1}, int8 z = {3},
        float[2] c = {0.1, 0.2}> { g = %s  y = DequantizeLinear (g, %s) }"""

EXAMPLES = [
    Fires(
        _NET % ("Gather (t, i)", "s, z"),
        becomes="""_1 = DequantizeLinear (int8 [4, 2] {1, 127, -128, 0, 5, 6, 7, 8}, 0.1, int8 3); y = Gather (_1, i)""",
    ),
    Fires(
        _NET % ("Gather <axis = 1> (t, i)", "s"),
        becomes="""_1 = DequantizeLinear (int8 [4, 2] {1, 127, -128, 0, 5, 6, 7, 8}, 0.1); y = Gather <axis = 1> (_1, i)""",
    ),
    Skips(_NET % ("Gather (t, i)", "c"), because="more than one scale"),
    Skips(_NET % ("Gather (v, i)", "s, z")),
    Skips(_NET % ("Identity (v)", "s, z")),
]

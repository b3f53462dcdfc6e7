"""Write `DynamicQuantizeLinear` as the float arithmetic that it is defined by.

Its scale is that of the values at hand; TensorRT takes static scales only:

    In node 0 with name: and operator: DynamicQuantizeLinear (parseNode): UNSUPPORTED_NODE: false

    before    q, s, z = DynamicQuantizeLinear(x)
    after     low, high = Min(ReduceMin(x), 0), Max(ReduceMax(x), 0)
              s = (high - low) / 255
              z = Round(Clip(-low / s, 0, 255))
              q = Clip(Round(x / s) + z, 0, 255)

The numbers are the same; what reads the codes runs in float. Where all values are 0, the scale is 1, as in
onnxruntime. A model with static scales is quicker: `onnxq quantize` of the float model.
"""

from _quantized import TYPES, dynamic_codes

from onnxq.rule import Except, Fires, Node, Skips, op, required, rule

_WHY = "the range of values with a NaN or an infinity is not defined"


@rule("DynamicQuantizeLinear", stage="compat", lacks="DynamicQuantizeLinear")
def expand_dynamic_quantize_linear(node: Node) -> Except:
    codes, scale, zero = dynamic_codes(required(node, 1)[0], node.opset)
    narrow = TYPES["uint8"]
    results = {0: op.Cast(codes, to=narrow), 1: scale, 2: op.Cast(zero, to=narrow)}
    return Except({index: results[index] for index in range(len(node.outputs))}, "infinite-input", _WHY)


def _net(outputs: str, body: str, opset: int = 13) -> str:
    return f"""<ir_version: 8, opset_import: ["" : {opset}]>
    g (float[N, 3] x) => ({outputs}) {{ {body} }}"""


EXAMPLES = [
    Fires(
        _net("q, s, z", "q, s, z = DynamicQuantizeLinear (x)"),
        gone="DynamicQuantizeLinear",
        becomes="""_1 = ReduceMax <keepdims = 0> (x); _2 = Max (_1, 0.0); _3 = ReduceMin <keepdims = 0> (x)
        _4 = Min (_3, 0.0); _5 = Sub (_2, _4); _6 = Greater (_5, 0.0); _7 = Div (_5, 255.0)
        s = Where (_6, _7, 1.0); _8 = Div (x, s); _9 = Round (_8); _10 = Div (_4, s)
        _11 = Sub (0.0, _10); _12 = Clip (_11, 0.0, 255.0); _13 = Round (_12); _14 = Add (_9, _13)
        _15 = Clip (_14, 0.0, 255.0); q = Cast <to = 2> (_15); z = Cast <to = 2> (_13)""",
    ),
    Fires(_net("s", "q, s, z = DynamicQuantizeLinear (x)", 18), gone="DynamicQuantizeLinear"),
    Skips(_net("q", "q = Relu (x)")),
]

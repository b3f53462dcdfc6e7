"""Write `ConvTransposeWithDynamicPads` of constant pads as a ConvTranspose.

onnxruntime's operator has its pads as an input; TensorRT has no importer for it:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = com.microsoft.ConvTransposeWithDynamicPads(x, w, pads, bias)
    after     y = ConvTranspose<pads=pads>(x, w, bias)

Bit-equal. Pads that are computed stay: `--freeze` names them.
"""

import numpy as np

from onnxq.rule import Fires, Node, Skip, Skips, Value, constant, op, operands, required, rule


@rule("com.microsoft.ConvTransposeWithDynamicPads", stage="compat", lacks="onnxruntime-fusions")
def unfuse_conv_transpose_pads(node: Node) -> Value:
    x, w = required(node, 2)
    pads, bias = operands(node, 4)[2:]
    known = constant(pads)
    if pads is not None and known is None:
        how = f": --freeze '{pads.name}=[...]'" if pads.is_input else ""
        raise Skip(f"its pads {pads.name!r} are computed{how}")
    attributes = dict(node.attrs)
    if known is not None:
        attributes["pads"] = [int(pad) for pad in np.asarray(known).reshape(-1)]
    y: Value = op.ConvTranspose(x, w, *([] if bias is None else [bias]), **attributes)
    return y


_NET = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[N, 2, 3, 3] x, float[2, 2, 2, 2] w, int64[4] q, float[2] b) => (y) <int64[4] p = {1, 0, 1, 1}> {
        y = com.microsoft.ConvTransposeWithDynamicPads <strides = [2, 2]> (%s) }"""

EXAMPLES = [
    Fires(_NET % "x, w, p", becomes="y = ConvTranspose <pads = [1, 0, 1, 1], strides = [2, 2]> (x, w)"),
    Fires(_NET % "x, w, p, b", becomes="y = ConvTranspose <pads = [1, 0, 1, 1], strides = [2, 2]> (x, w, b)"),
    Skips(_NET % "x, w, q", because="--freeze 'q="),
]

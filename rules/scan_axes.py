"""Count the axes of a Scan from the front.

TensorRT takes negative ones for large ones:

    ILoopOutputLayer has illegal `axis` of value 7 when input at index 0 has only 1 dimensions

    before    y, z = Scan<scan_input_axes=[-1], scan_output_axes=[-1]>(h, x)
    after     y, z = Scan<scan_input_axes=[1], scan_output_axes=[1]>(h, x)

Equal bit for bit.
"""

from onnxq.rule import Fires, Node, Skip, Skips, Tensor, Value, remake, rule


@rule("Scan", stage="compat", lacks="scan-negative-axes")
def scan_axes(node: Node) -> dict[int, Value] | None:
    count = node.attr("num_scan_inputs", 0)
    given, found = node.attr("scan_input_axes", []), node.attr("scan_output_axes", [])
    is_counted = any(axis < 0 for axis in [*given, *found])
    return _counted(node, count, given, found) if is_counted and node.opset >= 9 else None


def _counted(node: Node, count: int, given: list[int], found: list[int]) -> dict[int, Value]:
    inputs = _positive(given, node.inputs[len(node.inputs) - count :])
    outputs = _positive(found, node.outputs[len(node.inputs) - count :])
    results = remake(
        node,
        *node.inputs,
        outputs=len(node.outputs),
        scan_input_axes=inputs or None,
        scan_output_axes=outputs or None,
    )
    return dict(enumerate(results if isinstance(results, tuple) else (results,)))


def _positive(axes: list[int], tensors: tuple[Tensor | None, ...]) -> list[int]:
    counted = []
    for axis, tensor in zip(axes, tensors, strict=False):
        if axis < 0:
            if tensor is None or tensor.rank is None:
                raise Skip(f"the rank of {tensor.name if tensor else ''!r} is not known")
            axis += tensor.rank
        counted.append(axis)
    return counted


_NET = """<ir_version: 8, opset_import: ["" : 13]>
    g (float[3] h, float[3, T] x) => (float[3] y, float[3, T] z) {
        y, z = Scan <num_scan_inputs = 1, scan_input_axes = [%d], scan_output_axes = [%d],
            body = b (float[3] s, float[3] a) => (float[3] t, float[3] o) { t = Add (s, a)  o = Exp (t) }> (h, x) }"""

EXAMPLES = [
    Fires(
        _NET % (-1, -1),
        becomes="""y, z = Scan <body = (_1, _2) => (_3, _4) { _3 = Add (_1, _2)
        _4 = Exp (_3) }, num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1]> (h, x)""",
    ),
    Fires(_NET % (1, -1)),
    Fires(
        (_NET % (0, -1)).replace(", scan_input_axes = [0]", "").replace("[3, T] x", "[T, 3] x"),
        becomes="""y, z = Scan <body = (_1, _2) => (_3, _4) { _3 = Add (_1, _2); _4 = Exp (_3) }, num_scan_inputs = 1, scan_output_axes = [1]> (h, x)""",
    ),
    Fires(
        (_NET % (-1, 0)).replace(", scan_output_axes = [0]", "").replace("[3, T] z", "[T, 3] z"),
        becomes="""y, z = Scan <body = (_1, _2) => (_3, _4) { _3 = Add (_1, _2); _4 = Exp (_3) }, num_scan_inputs = 1, scan_input_axes = [1]> (h, x)""",
    ),
    Skips((_NET % (-1, 1)).replace("float[3, T] x", "float[] x"), because="the rank of 'x'"),
    Skips(_NET % (1, 1)),
]

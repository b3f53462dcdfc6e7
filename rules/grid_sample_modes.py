"""Say the mode of a `GridSample` of opset 20 as TensorRT reads it.

Opset 20 names the modes `linear` and `cubic`, which opset 16 named `bilinear` and `bicubic`. TensorRT up to 11.1
knows the names of opset 16 only, and samples the nearest value for all others, without a word. A mode that is left
out is linear in both opsets; onnxruntime's own operator has the names of opset 16:

    before    y = GridSample<mode="linear">(x, grid)
    after     y = GridSample(x, grid)

    before    y = GridSample<mode="cubic">(x, grid)
    after     y = com.microsoft.GridSample<mode="bicubic">(x, grid)

TensorRT imports an operator by its name, whatever its domain. The result is bit-equal. It takes no volumes (5-D).
"""

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, remake, required, rule


@rule("GridSample", stage="compat", lacks="grid-sample-modes")
def grid_sample_modes(node: Node) -> Value | None:
    x, grid = required(node, 2)
    mode = node.attrs.get("mode")
    if mode not in ("linear", "cubic") or x.rank not in (None, 4):
        return None
    if mode == "linear":
        return remake(node, x, grid, mode=None)
    if x.rank is None:
        raise Skip(f"the rank of {x.name!r} is not known")
    y: Value = op["com.microsoft"].GridSample(x, grid, **{**node.attrs, "mode": "bicubic"})
    return y


def _net(attributes: str, sizes: str = "[N, 2, H, W]", grid: str = "[N, P, Q, 2]", opset: int = 20) -> str:
    return f"""<ir_version: 9, opset_import: ["" : {opset}]>
    g (float{sizes} x, float{grid} p) => (y) {{ y = GridSample {attributes} (x, p) }}"""


EXAMPLES = [
    Fires(_net('<mode = "linear">'), becomes="y = GridSample (x, p)"),
    Fires(
        _net('<mode = "linear", align_corners = 1, padding_mode = "border">', opset=22),
        becomes='y = GridSample <align_corners = 1, padding_mode = "border"> (x, p)',
    ),
    Fires(
        _net('<mode = "cubic", padding_mode = "reflection">'),
        becomes='y = com.microsoft.GridSample <mode = "bicubic", padding_mode = "reflection"> (x, p)',
    ),
    Skips(_net('<mode = "nearest">')),
    Skips(_net("")),
    Skips(_net('<mode = "bilinear">', opset=16)),
    Skips(_net('<mode = "linear">', "[1, 2, 3, 4, 5]", "[1, 2, 3, 4, 3]")),
    Skips(
        _net('<mode = "cubic">')
        .replace("y = ", "h = com.microsoft.QuickGelu (x)  y = ")
        .replace("(x, p)", "(h, p)")
        .replace(": 20]", ': 20, "com.microsoft" : 1]'),
        because="rank",
    ),
]

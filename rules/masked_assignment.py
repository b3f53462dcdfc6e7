"""Write an assignment by a mask (`x[x < 0] = 0`) as `Where`.

It is exported as NonZero and ScatterND. TensorRT-RTX has no NonZero, whose size the values decide:

    importNonZero: UNSUPPORTED_NODE: Assertion failed: creator && getPluginCreatorVersion(creator) == CreatorVersion::kV3ONE: NonZero plugin creator version 1 was not found in plugin registry.

and where there is one, each run waits for its count.

    before    y = ScatterND(x, Transpose(NonZero(m)), Expand(v, n))
    after     y = Where(m, v, x)

What is assigned may also be computed element by element of what the same mask selects (`x[m] *= 2`,
`x[m] = z[m]`). The mask must have the leading dimensions of x. Bit-equal but for the sign of a zero,
which onnxruntime's Where loses.
"""

from typing import Any

from _selection import among, positions, whole

from onnxq.rule import Except, Fires, Node, Skips, op, required, rule


@rule("ScatterND", stage="compat")
def masked_assignment(node: Node) -> Any:
    data, indices, updates = required(node, 3)
    condition = positions(indices)
    if condition is None or node.attr("reduction", "none") != "none":
        return None
    which = among(data, condition)
    assigned = whole(updates, which)
    if assigned is None:
        return None
    value = op.Where(which.mask(), assigned, data)
    return Except(value, "zero-sign", "onnxruntime's Where loses the sign of a zero")


def _net(
    body: str = "e = Expand (v, s)",
    mask: str = "bool[N, 3]",
    attributes: str = "",
    perm: str = "<perm = [1, 0]>",
) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 18]>
    g (float[N, 3] x, float[N, 3] w, {mask} m, int64[1] s) => (y) <float v = {{2}}, float[3] r = {{1, 2, 3}}> {{
        z = NonZero (m)  i = Transpose {perm} (z)  n = Shape <end = 1> (i)  {body}
        y = ScatterND {attributes} (x, i, e) }}"""


EXAMPLES = [
    Fires(_net("e = Expand (v, n)"), becomes="y = Where (m, 2.0, x)"),
    Fires(_net("e = ConstantOfShape (n)", "int64[N, 3]", perm=""), gone="NonZero"),
    Fires(_net("q = GatherND (w, i)  e = Mul (q, v)"), gone="ScatterND"),
    Fires(
        _net(
            "t = Constant <value_ints = [3]> ()  p = Concat <axis = 0> (n, t)  e = Expand (r, p)", "float[N]"
        ),
        gone="NonZero",
    ),
    Skips(_net("q = NonZero (w)  t = Transpose (q)  e = GatherND (w, t)")),
    Skips(_net("e = Expand (v, n)", mask="int64[N, N]", perm="<perm = [0, 1]>")),
    Skips(_net("e = Expand (v, n)", attributes='<reduction = "add">')),
    Skips(_net("e = Expand (v, n)", mask="bool[M, 3]"), because="of one size"),
]

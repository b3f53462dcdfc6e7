"""Remove operators that return their input.

Identity, Dropout in inference, a Cast to the type that is there already, a Concat or a Sum of one
tensor, a Clip of whole numbers without bounds. Exporters leave thousands of them; each hides a producer from
every other rule. A Clip of floats without bounds brings infinities to the largest numbers: it stays, without the
empty names in their place, which the parser refuses.

    before    y = Relu(Identity(x))
    after     y = Relu(x)
"""

from onnxq.rule import Fires, Node, Skips, Value, op, required, rule


@rule("Identity", "Dropout", "Cast", "CastLike", "Concat", "Sum", "Max", "Min", "Mean", "Clip", stage="clean")
def drop_identity(node: Node) -> Value | None:
    (source,) = required(node, 1)
    if node.op == "Dropout":
        training = node.operands(3)[2]
        if node.opset < 7:  # it may be in training, by an attribute
            return None
        return source if training is None or training.scalar is False else None
    if node.op in ("Cast", "CastLike"):
        return source if source.dtype is not None and source.dtype == node.outputs[0].dtype else None
    if node.op == "Clip":  # its bounds were attributes before opset 11
        if any(node.operands(3)[1:]) or {"min", "max"} & {*node.attrs}:
            return None
        if source.dtype is not None and source.dtype.kind in "iu":
            return source
        return op.Clip(source) if len(node.inputs) > 1 else None
    return source if len(node.inputs) == 1 else None


EXAMPLES = [
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[N] y) { a = Identity (x)  b = Dropout (a)  c = Cast <to = 1> (b)
            d = Concat <axis = 0> (c)  y = Relu (d) }""",
        gone="Concat",
        becomes="y = Relu (x)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[N] y) { a = Relu (x)  y = Identity (a) }""",
        gone="Identity",
        becomes="y = Relu (x)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[N] y) <float r = {0.5}, bool f = {0}> {
            a = Dropout (x, r, f)  b = CastLike (a, r)  c = Sum (b)  y = Relu (c) }""",
        becomes="y = Relu (x)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, bool t) => (float[N] y) <float r = {0.5}> { a = Dropout (x, r, t)  y = Abs (a) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[N] y) { y = Identity (x) }"""
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (float[N] y, bool[N] m) { a, m = Dropout (x)  y = Relu (a) }""",
        becomes="y = Relu (x); a, m = Dropout (x)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, float[N] z) => (float[M] y) { y = Concat <axis = 0> (x, z) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (double[N] y) { a = Cast <to = 11> (x)  y = Exp (a) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[9] x) => (float[9] y) <float r = {0.5}, bool t = {1}> { a = Dropout (x, r, t)  y = Abs (a) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (y) <float r = {0.5}, bool t = {1}> { a = Dropout (x, r, t)  y = Abs (a) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x, double z) => (y) { a = CastLike (x, z)  y = Abs (a) }"""
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N] x) => (y) <float r = {0.5}> { a = Concat <axis = 0> (x, x)  b = Sum (a, r)  y = Abs (b) }"""
    ),
    *(
        Fires(
            f"""<ir_version: 6, opset_import: ["" : {opset}]>
            g ({dtype}[N] x) => ({dtype}[N] y) {{ a = Clip (x, , )  y = Mul (a, a) }}""",
            becomes=becomes,
        )
        for opset, dtype, becomes in (
            (11, "float", "a = Clip (x); y = Mul (a, a)"),
            (13, "float16", "a = Clip (x); y = Mul (a, a)"),
            (13, "int64", "y = Mul (x, x)"),
        )
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (int32[N] x) => (int32[N] y) { a = Clip (x)  y = Mul (a, a) }""",
        becomes="y = Mul (x, x)",
    ),
    *(
        Skips(
            f"""<ir_version: 6, opset_import: ["" : {opset}]>
            g (float[N] x, float low) => (float[N] y) {{ a = Clip {bound}  y = Mul (a, a) }}"""
        )
        for opset, bound in (
            (6, "<min = 0.5> (x)"),
            (13, "(x)"),
            (10, "<max = 6.0> (x)"),
            (11, "(x, low)"),
            (13, "(x, , low)"),
        )
    ),
]

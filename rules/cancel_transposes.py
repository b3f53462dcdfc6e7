"""Turn a Transpose of a Transpose into one, or into none.

Exporters that change between channels-first and channels-last wrap single operators into pairs; what
is between two layers then hides one from the other, and each is a copy of the tensor.

    before    y = Transpose<perm=q>(Transpose<perm=p>(x))
    after     y = Transpose<perm=p[q]>(x), or x where that moves nothing

The inner one stays for its other readers.
"""

from onnxq.rule import Fires, Node, Skip, Skips, Value, made_by, remake, required, rule


@rule("Transpose", stage="fuse")
def cancel_transposes(node: Node) -> Value | None:
    before = made_by(node.inputs[0], "Transpose")
    if before is None:
        return None
    (source,) = required(before, 1)
    first, second = before.attr("perm"), node.attr("perm")
    rank = source.rank if first is None else len(first)
    if rank is None:
        raise Skip(f"the rank of {source.name!r} is not known")
    turned = list(range(rank))[::-1]  # the default
    order = [(first or turned)[axis] for axis in second or turned]
    return source if order == sorted(order) else remake(node, source, perm=order)


_NET = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, N, 3] x) => (y%s) { a = Transpose <perm = [1, 2, 0]> (x)  %s }"""

EXAMPLES = [
    Fires(_NET % ("", "y = Transpose <perm = [2, 0, 1]> (a)"), gone="Transpose", becomes="y = Identity (x)"),
    Fires(
        _NET % ("", "b = Transpose <perm = [1, 2, 0]> (a)  y = Transpose <perm = [1, 0, 2]> (b)"),
        becomes="y = Transpose <perm = [0, 2, 1]> (x)",
    ),
    Fires(_NET % ("", "y = Transpose (a)"), becomes="y = Transpose <perm = [0, 2, 1]> (x)"),
    Fires(
        _NET % (", z", "b = Transpose <perm = [2, 0, 1]> (a)  y = Relu (b)  z = Exp (a)"),
        becomes="y = Relu (x); a = Transpose <perm = [1, 2, 0]> (x); z = Exp (a)",
    ),
    Fires(
        _NET % (", a", "b = Transpose <perm = [2, 0, 1]> (a)  y = Relu (b)"),
        becomes="y = Relu (x); a = Transpose <perm = [1, 2, 0]> (x)",
    ),
    Fires(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, N, 3] x) => (y) { a = Transpose (x)  y = Transpose <perm = [1, 2, 0]> (a) }""",
        becomes="y = Transpose <perm = [1, 0, 2]> (x)",
    ),
    Skips(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[] x) => (y) { a = Transpose (x)  y = Transpose (a) }""",
        because="the rank of 'x'",
    ),
    Skips(_NET % ("", "b = Relu (a)  y = Transpose <perm = [2, 0, 1]> (b)")),
]

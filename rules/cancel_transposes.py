"""Turn a Transpose of a Transpose into one, or into none.

Exporters that change between channels-first and channels-last wrap single operators into pairs; what
is between two layers then hides one from the other, and each is a copy of the tensor.

    before    y = Transpose<perm=q>(Transpose<perm=p>(x))
    after     y = Transpose<perm=p[q]>(x), or x where that moves nothing

The inner one stays for its other readers.
"""

from onnxq.rule import Fires, Node, Skips, Value, remake, rule


@rule("Transpose", stage="fuse")
def cancel_transposes(node: Node) -> Value | None:
    source = node.inputs[0]
    before = source.producer if source is not None else None
    if before is None or before.domain or before.op != "Transpose" or before.inputs[0] is None:
        return None
    first, second = _order(before), _order(node)
    if first is None or second is None or len(first) != len(second):
        return None
    order = [first[axis] for axis in second]
    return before.inputs[0] if order == sorted(order) else remake(node, before.inputs[0], perm=order)


def _order(node: Node) -> list[int] | None:
    """Where each dimension comes from; None where the default depends on an unknown rank."""
    rank = node.inputs[0].rank if node.inputs[0] is not None else None
    return node.attr("perm", None if rank is None else list(reversed(range(rank))))


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
    Skips(_NET % ("", "b = Relu (a)  y = Transpose <perm = [2, 0, 1]> (b)")),
]

"""Write `Attention` as the products that it is made of, for a TensorRT that does not know it.

TensorRT before 10.14 has no importer for it:

    No importer registered for op: Attention

    before    y = Attention(q, k, v, mask)
    after     y = Softmax(scale * q · kᵀ + mask) · v

As in `expand_attention_forms`, which writes the forms that newer ones have no kernel for.
"""

from _attention import products

from onnxq.rule import Except, Fires, Node, Skips, rule


@rule("Attention", stage="compat", lacks="Attention")
def expand_attention(node: Node) -> Except:
    return products(node)


_NET = """<ir_version: 10, opset_import: ["" : 23]>
    g (float[N, S, 8] q, float[N, T, 8] k, bool[S, T] m) => (y) {
        y = Attention <q_num_heads = 2, kv_num_heads = 2> (q, k, k, m) }"""

EXAMPLES = [
    Fires(
        _NET,
        becomes="""_1 = Reshape (q, {0, 0, 2, -1}); _2 = Transpose <perm = [0, 2, 1, 3]> (_1)
                    _3 = Mul (_2, 0.5); _4 = Reshape (k, {0, 0, 2, -1})
                    _5 = Transpose <perm = [0, 2, 1, 3]> (_4)
                    _6 = Transpose <perm = [0, 1, 3, 2]> (_5); _7 = MatMul (_3, _6)
                    _8 = Where (m, _7, -3.4028235e+38); _9 = Softmax <axis = -1> (_8)
                    _10 = Where (m, _9, 0.0); _11 = Reshape (k, {0, 0, 2, -1})
                    _12 = Transpose <perm = [0, 2, 1, 3]> (_11); _13 = MatMul (_10, _12)
                    _14 = Transpose <perm = [0, 2, 1, 3]> (_13); y = Reshape (_14, {0, 0, -1})""",
    ),
    Skips(
        """<ir_version: 10, opset_import: ["" : 23]>
        g (float[N, H, S, 4] q, float[N, H, T, 4] k) => (y) { y = Attention (q, k, k) }""",
        because="numbers of heads are H",
    ),
]

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
        y = Attention <q_num_heads = %d, kv_num_heads = 2> (q, k, k, m) }"""

EXAMPLES = [
    Fires(_NET % 2, gone="Attention"),
    Skips(_NET.replace("float[N, T, 8] k", "float[N, T, K] k") % 0, because="numbers of heads are 0"),
]

"""Write the forms of `Attention` that TensorRT has no kernel for as the products that it is made of.

TensorRT 11 takes some: in half precision with heads of up to 256. Of others it says

    TensorRT only supports Attention nodes with one output.
    Setting softcap is not supported in TensorRT Attention.
    Key and Value must have the same shape
    Attention operation was not supported by a dedicated kernel.

(or ends without a word where queries, keys and values are one tensor).

    before    y, present_key, present_value, qk = Attention(q, k, v, mask, past_key, past_value)
    after     y = Softmax(scale * q · kᵀ + mask) · v, with the past before k and v

Also with softcap, causal, fewer heads for keys than for queries, three dimensions, padded keys and each output. What
a mask closes is the lowest number before the Softmax and zero behind it, so that a query that may read nothing gives
zeros, as the definition says. Half precision is computed in float32. Close: sums in another order.
"""

from _attention import has_kernel, products

from onnxq.rule import Except, Fires, Node, Skips, rule


@rule("Attention", stage="compat", lacks="attention-forms")
def expand_attention_forms(node: Node) -> Except | None:
    return None if has_kernel(node) else products(node)


_NET = """<ir_version: 10, opset_import: ["" : %s]>
    g (%s) => (%s) { %s = Attention %s (%s) }"""


def _net(
    given: str, inputs: str, attributes: str = "", outputs: str = "y", opset: int = 23, kind: str = "float"
) -> str:
    given = ", ".join(
        part if part.startswith(("bool", "int64")) else f"{kind}{part}" for part in given.split("; ")
    )
    read = ", ".join(name for name in outputs.split(", ") if name)
    return _NET % (opset, given, read, outputs, attributes and f"<{attributes}>", inputs)


_FOUR = "[N, 2, S, 4] q; [N, 2, T, 4] k; [N, 2, T, 3] v"
_PAST = "[N, 2, 3, 4] q; [N, 2, 3, 4] k; [N, 2, 3, 4] v; [N, 2, P, 4] a; [N, 2, P, 4] b"

EXAMPLES = [
    Fires(
        _net("[2, 2, 3, 4] q; [2, 2, 5, 4] k; [2, 2, 5, 4] v", "q, k, v", "is_causal = 1"),
        becomes="""_1 = Mul (q, 0.5); _2 = Transpose <perm = [0, 1, 3, 2]> (k); _3 = MatMul (_1, _2)
        _4 = Where (bool [3, 5] {True, False, False, False, False, True, True, False, False, False, True, True, True, False, False}, _3, -3.4028235e+38)
        _5 = Softmax <axis = -1> (_4)
        _6 = Where (bool [3, 5] {True, False, False, False, False, True, True, False, False, False, True, True, True, False, False}, _5, 0.0)
        y = MatMul (_6, v)""",
    ),
    Fires(_net(f"{_FOUR}; [S, T] m", "q, k, v, m", "scale = 0.3")),
    Fires(
        _net(
            f"{_FOUR}; bool[N, 1, S, T] m",
            "q, k, v, m",
            "softcap = 2.0, qk_matmul_output_mode = 2",
            "y, , , z",
        )
    ),
    Fires(_net(_PAST, "q, k, v, , a, b", "is_causal = 1", "y, c, d")),
    Fires(
        _net(
            "[N, S, 12] q; [N, S, 4] k; [N, S, 4] v; bool[S, S] m",
            "q, k, v, m",
            "q_num_heads = 6, kv_num_heads = 2, is_causal = 1",
        ),
    ),
    Fires(
        _net("[2, 4, 3, 8] q; [2, 2, 5, 8] k; [2, 2, 5, 8] v", "q, k, v", kind="float16"), gone="Attention"
    ),
    Fires(_net("[2, 2, 3, 4] q; [2, 2, 5, 4] k; [2, 2, 5, 4] v; int64[2] n", "q, k, v, , , , n", opset=24)),
    Skips(
        _net("[2, 4, 3, 16] q; [2, 2, 5, 16] k; [2, 2, 5, 16] v", "q, k, v", "is_causal = 1", kind="float16")
    ),
    Skips(_net("[2, 3, 8] q; [2, 5, 8] k; [2, 5, 8] v", "q, k, v", "q_num_heads = 2, kv_num_heads = 2")),
    Skips(
        _net("[N, H, S, 4] q; [N, H, T, 4] k; [N, H, T, 4] v", "q, k, v"), because="numbers of heads are H"
    ),
]

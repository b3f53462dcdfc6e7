"""Write scikit-learn's `LinearClassifier` as a Gemm, an ArgMax and a look-up of labels.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    label, scores = ai.onnx.ml.LinearClassifier<coefficients=w, intercepts=b, classlabels_ints=l>(x)
    after     s = Gemm(x, w, b);  label = Gather(l, ArgMax(s, axis=1));  scores = Softmax(s)

Labels that are texts stay: TensorRT knows none. Scores may be summed in another order; where two are equal but
for that, the label may be the other's.
"""

from typing import Any

import numpy as np
from _classical import in_float, of_texts, transformed
from _opsets import squeezed

from onnxq.rule import Close, Except, Fires, Node, Skip, Skips, Value, op, required, rule


@rule("ai.onnx.ml.LinearClassifier", stage="compat", lacks="classical-operators")
def ml_linear_classifier(node: Node) -> Any:
    (x,) = required(node, 1)
    read = [bool(one.name and (one.users or one.is_output)) for one in (*node.outputs, *node.outputs)][:2]
    if read[0]:
        of_texts(node, "classlabels_strings")
    weights = np.array(node.attr("coefficients", []), np.float32)
    labels = np.array(
        node.attr("classlabels_ints") or range(len(node.attr("classlabels_strings", []))), np.int64
    )
    bias = np.array(node.attr("intercepts") or np.zeros(len(labels)), np.float32)
    if x.rank != 2:
        raise Skip(f"{x.name!r} has {'an unknown number of' if x.rank is None else x.rank} dimensions")
    if len(labels) == 2 and len(bias) == 1:
        return _of_one_score(node, in_float(x), weights, bias, labels, read)
    if len(labels) != len(bias) or not len(labels) or weights.size % len(labels):
        raise Skip(f"it has {len(labels)} labels, {len(bias)} intercepts and {weights.size} coefficients")
    matrix = np.ascontiguousarray(weights.reshape(len(labels), -1).T)
    scores = op.Gemm(in_float(x), matrix, bias)
    answer: dict[int, Value] = {}
    if read[0]:
        best = op.ArgMax(scores, axis=1, keepdims=0)
        plain = (labels == np.arange(len(labels))).all()
        answer[0] = best if plain else op.Gather(labels, best)
    if read[1] and len(node.outputs) > 1:
        answer[1] = transformed(node, scores)
    return Except(Close(answer), "infinite-input", "infinities cancel in any order of a sum")


def _of_one_score(
    node: Node, x: Value, weights: np.ndarray, bias: np.ndarray, labels: np.ndarray, read: list[bool]
) -> Any:
    """Two classes with one score, the second's: the first has what it leaves of 1."""
    how = node.attr("post_transform", "NONE")
    if how not in ("NONE", "LOGISTIC"):
        raise Skip(f"its post_transform is {how}, of one score for two classes")
    score = op.Gemm(x, weights.reshape(-1, 1), bias)
    answer: dict[int, Value] = {}
    if read[0]:
        answer[0] = op.Where(op.Greater(squeezed(node, score, [1]), np.float32(0)), labels[1], labels[0])
    if read[1] and len(node.outputs) > 1:
        second = op.Sigmoid(score) if how == "LOGISTIC" else score
        answer[1] = op.Concat(op.Sub(np.float32(1), second), second, axis=1)
    return Except(Close(answer), "infinite-input", "infinities cancel in any order of a sum")


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (float[N, 2] x) => (%s) { l, s = ai.onnx.ml.LinearClassifier <coefficients = [0.5, -1.0, 2.0, 0.25, 3.0, -0.7],
        intercepts = [0.5, -2.0, 0.25], %s> (x) }"""

EXAMPLES = [
    Fires(
        _NET % ("int64[N] l, float[N, 3] s", 'classlabels_ints = [4, 7, 9], post_transform = "SOFTMAX"'),
        becomes="""_1 = Gemm (x, [2, 3] {0.5, 2.0, 3.0, -1.0, 0.25, -0.7}, {0.5, -2.0, 0.25})
        _2 = ArgMax <axis = 1, keepdims = 0> (_1); l = Gather ({4, 7, 9}, _2)
        s = Softmax <axis = -1> (_1)""",
    ),
    Fires(_NET % ("float[N, 3] s", 'classlabels_strings = ["a", "b", "c"], post_transform = "LOGISTIC"')),
    Fires(_NET % ("int64[N] l, float[N, 3] s", "classlabels_ints = [0, 1, 2]")),
    Fires(
        (_NET % ("int64[N] l, float[N, 2] s", "classlabels_ints = [3, 5]"))
        .replace("0.5, -1.0, 2.0, 0.25, 3.0, -0.7", "0.5, -1.0")
        .replace("0.5, -2.0, 0.25", "-2.0"),
        becomes="""_1 = Gemm (x, [2, 1] {0.5, -1.0}, {-2.0}); _2 = Squeeze (_1, {1})
        _3 = Greater (_2, 0.0); l = Where (_3, 5, 3); _4 = Sub (1.0, _1)
        s = Concat <axis = 1> (_4, _1)""",
    ),
    Skips(_NET % ("string[N] l, float[N, 3] s", 'classlabels_strings = ["a", "b", "c"]'), because="texts"),
]

"""Write scikit-learn's `FeatureVectorizer` as a Concat of columns.

TensorRT has no operators of ai.onnx.ml:

    Plugin not found, are the plugin name, version, and namespace correct?

    before    y = ai.onnx.ml.FeatureVectorizer<inputdimensions=[2, 3]>(a, b)        a: [N, 2], b: [N, 3]
    after     y = Concat(Cast(a), Cast(b), axis=1)

Bit-equal. An input of fewer columns than are stated is filled up with zeros by onnxruntime, and of more cut off;
those stay.
"""

from _classical import in_float

from onnxq.rule import Fires, Node, Skip, Skips, Value, op, required, rule


@rule("ai.onnx.ml.FeatureVectorizer", stage="compat", lacks="classical-operators")
def ml_feature_vectorizer(node: Node) -> Value:
    given = required(node, len(node.inputs))
    shapes = [tensor.shape or () for tensor in given]
    stated = list(node.attr("inputdimensions", []))
    if [shape[1:] for shape in shapes] != [(size,) for size in stated]:
        raise Skip(f"its inputs are {shapes}, {stated} columns are stated")
    rows = shapes[0][0]
    if not isinstance(rows, int) or not rows:
        raise Skip(
            f"how many rows {given[0].name!r} has is not known ({rows}), and of none onnxruntime crashes: give it with --shape"
        )
    return op.Concat(*map(in_float, given), axis=1)


_NET = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>
    g (int64[%s] a, int64[%s] b) => (y) { y = ai.onnx.ml.FeatureVectorizer <inputdimensions = [%s]> (a, b) }"""

EXAMPLES = [
    Fires(
        _NET % ("3, 2", "3, 3", "2, 3"),
        becomes="_1 = Cast <to = 1> (a); _2 = Cast <to = 1> (b); y = Concat <axis = 1> (_1, _2)",
    ),
    Skips(_NET % ("N, 2", "3, 3", "2, 3"), because="--shape"),
    Skips(_NET % ("0, 2", "0, 3", "2, 3"), because="--shape"),
    Skips(_NET % ("3, 2", "3, 3", "2, 4"), because="[2, 4] columns are stated"),
    Skips(_NET % ("3, 2", "", "2, 3"), because="()"),
]

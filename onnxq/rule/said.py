"""What TensorRT says of what no rule repairs, and what the user can state or do."""

_AXES = "the axes are an input: onnxq sanitize --freeze AXES=0, by the input's name, and the axis that it is"
ANY_NODE = (
    "TensorRT's parser does not take a node: onnxq check MODEL names each of them, and what repairs it; the "
    "other lines of the message say more"
)
_BRANCHES = (
    "a size decides which branch runs: state it, onnxq sanitize --assume N=1; onnxq check names the size"
)

SAID = {
    "runtime-axes": ("Axis input must resolve to a build-time constant (an initializer or a ...)!", _AXES),
    "runtime-squeeze-axes": ("squeeze axis is not a constant In makeAxesMask", _AXES),
    "runtime-training-mode": (
        "This Version of TensorRT only supports the training_mode input as an initializer.",
        "onnxq sanitize --freeze TRAINING_MODE=false, by the input's name",
    ),
    "resize-scales-input": (
        "Network input s is a shape tensor and must have type Int32 or Int64. Type is Float.",
        "onnxq sanitize --freeze SCALES=1,1,2,2, by the input's name, and the scales that it is",
    ),
    "resize-scales": (
        "Resize scales must be an initializer!",
        "onnxq sanitize computes scales that follow from sizes; if a scale is an input, give --freeze "
        "SCALES=1,1,2,2",
    ),
    "data-type": (
        "Unsupported ONNX data type: UINT8 (2)",
        "onnxq check MODEL names the tensor, and what repairs it: onnxq sanitize writes many types in wider "
        "ones",
    ),
    "runtime-zero-point": (
        "IQuantizeLayer/IDequantizeLayer has zero_point which is not an initializer.",
        "onnxq sanitize --freeze ZERO_POINT=0, by the input's name",
    ),
    "dynamic-deconv-shape": (
        "TensorRT does not support negative pre-padding in the ConvTranspose operator!",
        "output_shape needs an input of known size: onnxq sanitize --assume H=8 --assume W=8, or "
        "--shape x=1x3x8x8",
    ),
    "unknown-rank": (
        "at least 4 dimensions are required for input. In checkNOrMoreDims",
        "an input has no shape: state it, onnxq sanitize --shape x=NxCxHxW",
    ),
    "profile": (
        "Network has dynamic or shape inputs, but no optimization profile has been defined.",
        "trtexec needs --minShapes, --optShapes and --maxShapes; onnxq quantize and sanitize print them "
        "with --profile x=1x3x8x8:4x3x8x8:8x3x8x8; an integer input that decides sizes needs values: "
        "onnxq sanitize --freeze NAME=4,6",
    ),
    "ranks-of-branches": (
        "IConditionalOutputLayer: Must have inputs with equal ranks when condition is not a build-time ...",
        _BRANCHES,
    ),
    "strings": (
        "does not support the value_string and value_strings attributes",
        "TensorRT has no strings: end the model before them with onnxq extract, and name classes on the host",
    ),
    "no-importer": ("No importer registered for op: ...", ANY_NODE),
    "no-plugin": ("Plugin not found, are the plugin name, version, and namespace correct?", ANY_NODE),
    "unsupported-node": ("UNSUPPORTED_NODE: false", ANY_NODE),
    "parsing": ("While parsing node number 5 [...]:", ANY_NODE),
    "dense_weights": (
        "This version of TensorRT does not support the sparse_value attribute",
        "onnxq sanitize writes sparse weights in full",
    ),
}
"""By a name: the message, and the advice."""

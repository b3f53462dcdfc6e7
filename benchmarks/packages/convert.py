"""Makes ONNX of models of TensorFlow Lite, by tf2onnx in an environment of its own.

ONNXQ_CONVERT names the Python of an environment with `tensorflow-cpu` and `tf2onnx`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import onnx
from onnx import NodeProto, helper, numpy_helper

_DECONVOLUTION = "TFL_Convolution2DTransposeBias"
"""An operator of MediaPipe's own, which tf2onnx leaves as it is; its stride is 2."""


def of_tflite(source: Path) -> Path:
    """The ONNX model of a file, beside it.

    Raises:
        LookupError: it is not made yet, and no environment makes it.
    """
    target = source.with_suffix(".onnx")
    if target.is_file():
        return target
    python = os.environ.get("ONNXQ_CONVERT")
    if python is None:
        raise LookupError("ONNXQ_CONVERT names no Python with tf2onnx")
    raw = source.with_suffix(".raw.onnx")
    command = [python, "-m", "tf2onnx.convert", "--tflite", source, "--output", raw, "--opset", "17"]
    subprocess.run([str(part) for part in command], check=True, capture_output=True, timeout=600)
    model = onnx.load(raw)
    for node in list(model.graph.node):
        if node.op_type == _DECONVOLUTION:
            _replace(model, node)
    onnx.checker.check_model(model)
    onnx.save(model, target)
    return target


def _replace(model: onnx.ModelProto, node: NodeProto) -> None:
    """Makes ONNX's ConvTranspose of a node: its weights are [out, height, width, in], its values NHWC."""
    values, weights, bias = node.input
    tensors = {one.name: one for one in model.graph.initializer}
    turned = numpy_helper.to_array(tensors[weights]).transpose(3, 0, 1, 2)
    name = f"{node.output[0]}_"
    model.graph.initializer.append(numpy_helper.from_array(turned.copy(), name + "weights"))
    made = [
        helper.make_node("Transpose", [values], [name + "planes"], perm=[0, 3, 1, 2]),
        helper.make_node(
            "ConvTranspose", [name + "planes", name + "weights", bias], [name + "larger"],
            kernel_shape=turned.shape[2:], strides=[2, 2],
        ),
        helper.make_node("Transpose", [name + "larger"], [node.output[0]], perm=[0, 2, 3, 1]),
    ]  # fmt: skip
    place = list(model.graph.node).index(node)
    nodes = [*model.graph.node[:place], *made, *model.graph.node[place + 1 :]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)

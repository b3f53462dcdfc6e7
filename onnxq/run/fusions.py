"""Which layers of a quantized model onnxruntime itself makes int8 operators of, on this CPU."""

from __future__ import annotations

from pathlib import Path

import onnx

from onnxq.base import interrupts
from onnxq.run import ort

_INT8 = ("QLinearConv", "QLinearMatMul", "QGemm", "MatMulIntegerToFloat", "MatMulInteger", "ConvInteger")


def int8_operators(model: onnx.ModelProto, data_dir: Path | None = None) -> int:
    """How many int8 products there are in a model as onnxruntime's optimizers leave it.

    It looks for a DequantizeLinear right in front of a layer, and for some layers for a QuantizeLinear right
    behind it; which forms it knows depends on the CPU and on the version.

    Args:
        model: the model; it is not modified.
        data_dir: the folder of its external data.

    Raises:
        RunError: onnxruntime does not take the model.
    """
    with interrupts.Folder() as folder:
        found, _ = ort.optimized(model, (), 1, data_dir, Path(folder))
    return sum(node.op_type in _INT8 for node in found.graph.node)

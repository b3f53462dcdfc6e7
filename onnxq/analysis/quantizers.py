"""The pairs of a stage: what quantizes which tensor, with which steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.analysis.grids import code_ends
from onnxq.analysis.stages import Stage
from onnxq.graph.constants import SourceValues
from onnxq.graph.types import dtype_of


@dataclass(frozen=True, slots=True)
class Quantizer:
    """A QuantizeLinear with constant scales.

    Attributes:
        node: its name.
        tensor: what it quantizes, casts looked through.
        scale: float64, one or one for each channel.
        low: the least value that it holds, of the channel that holds least.
        high: likewise the greatest.
    """

    node: str
    tensor: str
    scale: np.ndarray
    low: float
    high: float

    @property
    def step(self) -> float:
        """The smallest step."""
        return float(self.scale.min())


def quantizers_of(stage: Stage) -> dict[str, list[Quantizer]]:
    """What quantizes each tensor that is computed or fed, by the tensor's name."""
    found: dict[str, list[Quantizer]] = {}
    for node in stage.proto.graph.node:
        if node.op_type != "QuantizeLinear" or node.domain not in ("", "com.microsoft"):
            continue
        if node.input[0] in stage.fixed or node.input[1] not in stage.constants:
            continue
        scale = constant(stage, node.input[1]).astype(np.float64).reshape(-1)
        if not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
            continue
        zero = np.zeros(1)
        name = node.input[2] if len(node.input) > 2 else ""
        if name in stage.constants:
            zero = constant(stage, name).astype(np.float64).reshape(-1)
        ends = _ends(stage, node)
        if ends is not None:
            low, high = ((end - zero) * scale for end in ends)
            tensor = stage.base(node.input[0])
            made = Quantizer(node.name, tensor, scale, float(low.max()), float(high.min()))
            found.setdefault(tensor, []).append(made)
    return found


def constant(stage: Stage, name: str) -> np.ndarray:
    """The values of a constant of the file."""
    return SourceValues(stage.constants[name], stage.data_dir).load()


def _ends(stage: Stage, node: onnx.NodeProto) -> tuple[int, int] | None:
    """The least and the greatest code; None for codes that are no integers."""
    name = node.input[2] if len(node.input) > 2 else ""
    if name in stage.constants:
        kind = int(stage.constants[name].data_type)
    else:
        kind = next((a.i for a in node.attribute if a.name == "output_dtype" and a.i), onnx.TensorProto.UINT8)
    return code_ends(dtype_of(kind))

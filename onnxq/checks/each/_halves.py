"""Layers of which one operand is quantized and the other is not: worse than none."""

from __future__ import annotations

BOTH = "quantize both or neither; onnxq quantize MODEL --calib DATA adds the missing pair"
COMPLETE = "onnxq quantize MODEL DATA"

"""onnxq: makes any exported ONNX model ready for NVIDIA TensorRT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = [
    "AccuracyRepair",
    "Calibration",
    "Compilation",
    "Division",
    "Fault",
    "Feeding",
    "Format",
    "Goal",
    "ImageOptions",
    "Inputs",
    "OnnxqError",
    "Repairs",
    "Runtime",
    "UserError",
    "__version__",
    "analyze",
    "calibrate",
    "extract",
    "merge_stats",
    "plan",
    "quantize",
    "run_pieces",
    "sanitize",
    "sensitivity",
    "split",
]

from onnxq.errors import Fault, OnnxqError, UserError
from onnxq.settings import (
    AccuracyRepair,
    Calibration,
    Compilation,
    Division,
    Feeding,
    Format,
    Goal,
    ImageOptions,
    Inputs,
    Repairs,
    Runtime,
)
from onnxq.version import VERSION as __version__

if TYPE_CHECKING:
    from onnxq.pieces import extract, run_pieces, split
    from onnxq.pipeline import calibrate, merge_stats, plan, quantize, sanitize, sensitivity
    from onnxq.pipeline.analyzing import analyze


def __getattr__(name: str) -> Any:
    # onnx and onnxruntime take most of a second to import: only when they are needed.
    if name in ("calibrate", "merge_stats", "plan", "quantize", "sanitize", "sensitivity"):
        from onnxq import pipeline

        return getattr(pipeline, name)
    if name == "analyze":
        from onnxq.pipeline import analyzing

        return analyzing.analyze
    if name in ("extract", "run_pieces", "split"):
        from onnxq import pieces

        return getattr(pieces, name)
    raise AttributeError(f"module 'onnxq' has no attribute {name!r}")

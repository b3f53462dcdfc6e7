"""onnxq: makes any exported ONNX model ready for NVIDIA TensorRT."""

from __future__ import annotations

import importlib
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
    "Margins",
    "OnnxqError",
    "Repairs",
    "Runtime",
    "UserError",
    "__version__",
    "analyze",
    "calibrate",
    "check",
    "diff",
    "draw",
    "engine",
    "extract",
    "inspect",
    "memory",
    "merge_stats",
    "plan",
    "quantize",
    "report",
    "run_pieces",
    "sanitize",
    "sensitivity",
    "split",
    "statistics",
    "weights",
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
    Margins,
    Repairs,
    Runtime,
)
from onnxq.version import VERSION as __version__

if TYPE_CHECKING:
    from onnxq.pieces import extract, run_pieces, split
    from onnxq.pipeline import calibrate, merge_stats, plan, quantize, sanitize, sensitivity
    from onnxq.pipeline.analyzing import analyze
    from onnxq.pipeline.checking import check
    from onnxq.pipeline.diffing import diff
    from onnxq.pipeline.engine_reading import engine
    from onnxq.pipeline.inspecting import draw, inspect
    from onnxq.pipeline.paging import report
    from onnxq.pipeline.remembering import memory
    from onnxq.pipeline.tensor_statistics import statistics
    from onnxq.pipeline.weighing import weights

_FUNCTIONS = {
    "onnxq.pieces": ("extract", "run_pieces", "split"),
    "onnxq.pipeline": ("calibrate", "merge_stats", "plan", "quantize", "sanitize", "sensitivity"),
    "onnxq.pipeline.analyzing": ("analyze",),
    "onnxq.pipeline.checking": ("check",),
    "onnxq.pipeline.diffing": ("diff",),
    "onnxq.pipeline.engine_reading": ("engine",),
    "onnxq.pipeline.inspecting": ("draw", "inspect"),
    "onnxq.pipeline.remembering": ("memory",),
    "onnxq.pipeline.tensor_statistics": ("statistics",),
    "onnxq.pipeline.weighing": ("weights",),
    "onnxq.pipeline.paging": ("report",),
}


def __getattr__(name: str) -> Any:
    # onnx and onnxruntime take most of a second to import: only when they are needed.
    for module, names in _FUNCTIONS.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'onnxq' has no attribute {name!r}")

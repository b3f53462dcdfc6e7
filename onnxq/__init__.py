"""onnxq: makes any exported ONNX model ready for NVIDIA TensorRT.

Each verb of the command line is a function with the same options; what it returns is what the verb prints
with `--json`. Nothing is printed: steps go to `observe=` (see `onnxq.bar`) and to the logger `onnxq`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onnxq.version import VERSION as __version__

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
    "Ranking",
    "Repairs",
    "Runtime",
    "UserError",
    "__version__",
    "analyze",
    "bar",
    "calibrate",
    "check",
    "compare",
    "describe",
    "describe_tensor",
    "diff",
    "draw",
    "engine",
    "explain_message",
    "explain_rule",
    "extract",
    "init",
    "inspect",
    "list_rules",
    "list_schemas",
    "look",
    "memory",
    "merge_stats",
    "plan",
    "quantize",
    "report",
    "rules_page",
    "run_pieces",
    "sanitize",
    "schema",
    "sensitivity",
    "split",
    "statistics",
    "try_rules",
    "weights",
]

if TYPE_CHECKING:
    from onnxq.cli.bar import bar
    from onnxq.errors import Fault, OnnxqError, UserError
    from onnxq.pieces import extract, run_pieces, split
    from onnxq.pipeline import calibrate, merge_stats, plan, quantize, sanitize, sensitivity
    from onnxq.pipeline.analyzing import analyze
    from onnxq.pipeline.checking import check
    from onnxq.pipeline.comparing import compare
    from onnxq.pipeline.describing import describe, describe_tensor
    from onnxq.pipeline.diffing import diff
    from onnxq.pipeline.engine_reading import engine
    from onnxq.pipeline.first_settings import init
    from onnxq.pipeline.inspecting import draw, inspect
    from onnxq.pipeline.looking import look
    from onnxq.pipeline.paging import report
    from onnxq.pipeline.remembering import memory
    from onnxq.pipeline.rule_book import explain_message, explain_rule, list_rules, rules_page, try_rules
    from onnxq.pipeline.tensor_statistics import statistics
    from onnxq.pipeline.weighing import weights
    from onnxq.schemas import list_schemas, schema
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
        Ranking,
        Repairs,
        Runtime,
    )

_PLACES = {
    "onnxq.cli.bar": ("bar",),
    "onnxq.errors": ("Fault", "OnnxqError", "UserError"),
    "onnxq.pieces": ("extract", "run_pieces", "split"),
    "onnxq.pipeline": ("calibrate", "merge_stats", "plan", "quantize", "sanitize", "sensitivity"),
    "onnxq.pipeline.analyzing": ("analyze",),
    "onnxq.pipeline.checking": ("check",),
    "onnxq.pipeline.comparing": ("compare",),
    "onnxq.pipeline.describing": ("describe", "describe_tensor"),
    "onnxq.pipeline.diffing": ("diff",),
    "onnxq.pipeline.engine_reading": ("engine",),
    "onnxq.pipeline.first_settings": ("init",),
    "onnxq.pipeline.inspecting": ("draw", "inspect"),
    "onnxq.pipeline.looking": ("look",),
    "onnxq.pipeline.paging": ("report",),
    "onnxq.pipeline.remembering": ("memory",),
    "onnxq.pipeline.rule_book": (
        "explain_message", "explain_rule", "list_rules", "rules_page", "try_rules",
    ),
    "onnxq.pipeline.tensor_statistics": ("statistics",),
    "onnxq.pipeline.weighing": ("weights",),
    "onnxq.schemas": ("list_schemas", "schema"),
    "onnxq.settings": (
        "AccuracyRepair", "Calibration", "Compilation", "Division", "Feeding", "Format", "Goal",
        "ImageOptions", "Inputs", "Margins", "Ranking", "Repairs", "Runtime",
    ),
}  # fmt: skip
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    # onnx and onnxruntime take most of a second to import, the options 30 ms: when they are needed.
    if name not in _MODULES:
        raise AttributeError(f"module 'onnxq' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

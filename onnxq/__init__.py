"""onnxq: makes any exported ONNX model ready for NVIDIA TensorRT.

Each verb of the command line is a function with the same options; what it returns is what the verb prints
with `--json`. Nothing is printed: steps go to `observe=` (see `onnxq.bar`) and to the logger `onnxq`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from onnxq.base.version import VERSION as __version__

__all__ = [
    "AccuracyRepair",
    "Analysis",
    "Calibration",
    "ChainRun",
    "Checks",
    "Comparison",
    "Compilation",
    "DataSeen",
    "Details",
    "Division",
    "EngineDocument",
    "Extract",
    "Fault",
    "Feeding",
    "FirstSettings",
    "Format",
    "Goal",
    "ImageOptions",
    "Inputs",
    "KnownOfMessage",
    "LayerRule",
    "Margins",
    "ModelMemory",
    "ModelNodes",
    "ModelSummary",
    "Observer",
    "OnnxqError",
    "Pieces",
    "Planned",
    "Ranking",
    "Repairs",
    "Result",
    "RuleList",
    "RuleText",
    "RulesTried",
    "RunDiff",
    "Runtime",
    "SchemaList",
    "Sensitivity",
    "StatsFile",
    "TensorSummary",
    "TensorTable",
    "UserError",
    "WeightTable",
    "WrittenPage",
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
    from onnxq.analysis.diff.rows import RunDiff
    from onnxq.analysis.memory import ModelMemory
    from onnxq.analysis.nodes import ModelNodes
    from onnxq.analysis.rows import Analysis
    from onnxq.analysis.tensors import TensorTable
    from onnxq.analysis.weights import WeightTable
    from onnxq.base.errors import Fault, OnnxqError, UserError
    from onnxq.base.progress import Observer
    from onnxq.calib.stats_file import StatsFile
    from onnxq.cli.bar import bar
    from onnxq.documents.pieces import ChainRun
    from onnxq.emit.schemas import SchemaList, list_schemas, schema
    from onnxq.options.config import LayerRule
    from onnxq.options.settings import (
        AccuracyRepair,
        Calibration,
        Compilation,
        Details,
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
    from onnxq.pipeline import calibrate, merge_stats, plan, quantize, sanitize, sensitivity
    from onnxq.pipeline.analyzing import analyze
    from onnxq.pipeline.checking import Checks, check
    from onnxq.pipeline.comparing import Comparison, compare
    from onnxq.pipeline.data_seen import DataSeen, look
    from onnxq.pipeline.decision_ranking import Sensitivity
    from onnxq.pipeline.description import ModelSummary, TensorSummary, describe, describe_tensor
    from onnxq.pipeline.diffing import diff
    from onnxq.pipeline.engine_reading import EngineDocument, engine
    from onnxq.pipeline.first_settings import FirstSettings, init
    from onnxq.pipeline.inspecting import draw, inspect
    from onnxq.pipeline.model_memory import memory
    from onnxq.pipeline.pieces import Extract, Pieces, extract, run_pieces, split
    from onnxq.pipeline.planning import Planned
    from onnxq.pipeline.result import Result
    from onnxq.pipeline.rule_book import (
        KnownOfMessage,
        RuleList,
        RulesTried,
        RuleText,
        explain_message,
        explain_rule,
        list_rules,
        rules_page,
        try_rules,
    )
    from onnxq.pipeline.tensor_statistics import statistics
    from onnxq.pipeline.weight_table import weights
    from onnxq.pipeline.written_page import WrittenPage, report

_PLACES = {
    "onnxq.analysis.diff.rows": ("RunDiff",),
    "onnxq.analysis.memory": ("ModelMemory",),
    "onnxq.analysis.nodes": ("ModelNodes",),
    "onnxq.analysis.rows": ("Analysis",),
    "onnxq.analysis.tensors": ("TensorTable",),
    "onnxq.analysis.weights": ("WeightTable",),
    "onnxq.calib.stats_file": ("StatsFile",),
    "onnxq.cli.bar": ("bar",),
    "onnxq.options.config": ("LayerRule",),
    "onnxq.documents.pieces": ("ChainRun",),
    "onnxq.base.errors": ("Fault", "OnnxqError", "UserError"),
    "onnxq.pipeline.pieces": ("Extract", "Pieces", "extract", "run_pieces", "split"),
    "onnxq.pipeline": ("calibrate", "merge_stats", "plan", "quantize", "sanitize", "sensitivity"),
    "onnxq.pipeline.analyzing": ("analyze",),
    "onnxq.pipeline.decision_ranking": ("Sensitivity",),
    "onnxq.pipeline.checking": ("Checks", "check"),
    "onnxq.pipeline.comparing": ("Comparison", "compare"),
    "onnxq.pipeline.description": ("ModelSummary", "TensorSummary", "describe", "describe_tensor"),
    "onnxq.pipeline.diffing": ("diff",),
    "onnxq.pipeline.engine_reading": ("EngineDocument", "engine"),
    "onnxq.pipeline.first_settings": ("FirstSettings", "init"),
    "onnxq.pipeline.inspecting": ("draw", "inspect"),
    "onnxq.pipeline.data_seen": ("DataSeen", "look"),
    "onnxq.pipeline.written_page": ("WrittenPage", "report"),
    "onnxq.pipeline.planning": ("Planned",),
    "onnxq.pipeline.model_memory": ("memory",),
    "onnxq.pipeline.result": ("Result",),
    "onnxq.pipeline.rule_book": (
        "KnownOfMessage", "RuleList", "RuleText", "RulesTried", "explain_message", "explain_rule",
        "list_rules", "rules_page", "try_rules",
    ),
    "onnxq.pipeline.tensor_statistics": ("statistics",),
    "onnxq.pipeline.weight_table": ("weights",),
    "onnxq.base.progress": ("Observer",),
    "onnxq.emit.schemas": ("SchemaList", "list_schemas", "schema"),
    "onnxq.options.settings": (
        "AccuracyRepair", "Calibration", "Compilation", "Details", "Division", "Feeding", "Format", "Goal",
        "ImageOptions", "Inputs", "Margins", "Ranking", "Repairs", "Runtime",
    ),
}  # fmt: skip
_MODULES = {name: module for module, names in _PLACES.items() for name in names}


if not TYPE_CHECKING:  # to a type checker it would say that every name is there

    def __getattr__(name: str) -> Any:
        # onnx and onnxruntime take most of a second to import, the options 30 ms: when they are needed.
        if name not in _MODULES:
            raise AttributeError(f"module 'onnxq' has no attribute {name!r}")
        return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

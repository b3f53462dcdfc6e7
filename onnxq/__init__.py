"""onnxq: makes any exported ONNX model ready for NVIDIA TensorRT.

Each verb of the command line is a function with the same options; what it returns is what the verb prints
with `--json`. Nothing is printed: steps go to `observe=` (see `onnxq.bar`) and to the logger `onnxq`.
"""

from __future__ import annotations

import importlib
from typing import Any

from onnxq.base.version import VERSION

__version__ = VERSION

# What there is, and where; `make options` writes it for type checkers, into `__init__.pyi`.
_PLACES = {
    "onnxq.advice.symptoms": ("SymptomTable", "symptoms"),
    "onnxq.analysis.diff.rows": ("RunDiff",),
    "onnxq.analysis.memory": ("ModelMemory",),
    "onnxq.analysis.nodes": ("ModelNodes",),
    "onnxq.documents.analysis": ("Analysis",),
    "onnxq.documents.glossary": ("Glossary", "explain_word"),
    "onnxq.analysis.tensors": ("TensorTable",),
    "onnxq.analysis.weights": ("WeightTable",),
    "onnxq.calib.stats_file": ("StatsFile",),
    "onnxq.cli.bar": ("bar",),
    "onnxq.options.config": ("LayerRule",),
    "onnxq.documents.pieces": ("ChainRun",),
    "onnxq.base.executors": ("RayExecutor",),
    "onnxq.base.stored": ("StoredExecutor",),
    "onnxq.base.errors": ("Fault", "OnnxqError", "UserError"),
    "onnxq.inspection.pieces": ("Extract", "Pieces", "extract", "run_pieces", "split"),
    "onnxq.pipeline.jobs": ("calibrate", "merge_stats", "plan", "quantize", "sensitivity"),
    "onnxq.inspection.analyzing": ("analyze",),
    "onnxq.pipeline.decision_ranking": ("Sensitivity",),
    "onnxq.inspection.bundling": ("Bundle", "bundle"),
    "onnxq.inspection.deciding": ("BundleDecision", "decide"),
    "onnxq.inspection.checking": ("Checks", "check"),
    "onnxq.inspection.comparing": ("Comparison", "compare"),
    "onnxq.inspection.description": ("ModelSummary", "TensorSummary", "describe", "describe_tensor"),
    "onnxq.inspection.diffing": ("diff",),
    "onnxq.inspection.engine_reading": ("EngineDocument", "engine"),
    "onnxq.inspection.first_settings": ("FirstSettings", "init"),
    "onnxq.inspection.inspecting": ("draw", "inspect"),
    "onnxq.inspection.data_seen": ("DataSeen", "look"),
    "onnxq.pipeline.written_page": ("WrittenPage", "report"),
    "onnxq.pipeline.planning": ("Planned",),
    "onnxq.inspection.model_memory": ("memory",),
    "onnxq.pipeline.repairing": ("sanitize",),
    "onnxq.pipeline.result": ("Result",),
    "onnxq.inspection.rule_book": (
        "KnownOfMessage", "RuleList", "RuleText", "RulesTried", "explain_message", "explain_rule",
        "list_rules", "rules_page", "try_rules",
    ),
    "onnxq.inspection.tensor_statistics": ("statistics",),
    "onnxq.inspection.weight_table": ("weights",),
    "onnxq.base.progress": ("Observer",),
    "onnxq.emit.schemas": ("SchemaList", "list_schemas", "schema"),
    "onnxq.options.settings": (
        "AccuracyRepair", "Calibration", "Compilation", "Details", "Division", "Feeding", "Format", "Goal",
        "ImageOptions", "Inputs", "Margins", "Ranking", "Repairs", "Runtime",
    ),
}  # fmt: skip
_MODULES = {name: module for module, names in _PLACES.items() for name in names}
__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    # onnx and onnxruntime take most of a second to import, the options 30 ms: when they are needed.
    if name not in _MODULES:
        raise AttributeError(f"module 'onnxq' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""What onnxq gives. `make options` writes this file."""

from onnxq.advice.symptoms import SymptomTable as SymptomTable
from onnxq.advice.symptoms import symptoms as symptoms
from onnxq.analysis.diff.rows import RunDiff as RunDiff
from onnxq.analysis.memory import ModelMemory as ModelMemory
from onnxq.analysis.nodes import ModelNodes as ModelNodes
from onnxq.analysis.tensors import TensorTable as TensorTable
from onnxq.analysis.weights import WeightTable as WeightTable
from onnxq.base.errors import Fault as Fault
from onnxq.base.errors import OnnxqError as OnnxqError
from onnxq.base.errors import UserError as UserError
from onnxq.base.executors import RayExecutor as RayExecutor
from onnxq.base.progress import Observer as Observer
from onnxq.base.stored import StoredExecutor as StoredExecutor
from onnxq.calib.stats_file import StatsFile as StatsFile
from onnxq.cli.bar import bar as bar
from onnxq.documents.analysis import Analysis as Analysis
from onnxq.documents.glossary import Glossary as Glossary
from onnxq.documents.glossary import explain_word as explain_word
from onnxq.documents.pieces import ChainRun as ChainRun
from onnxq.emit.schemas import SchemaList as SchemaList
from onnxq.emit.schemas import list_schemas as list_schemas
from onnxq.emit.schemas import schema as schema
from onnxq.inspection.analyzing import analyze as analyze
from onnxq.inspection.bundling import Bundle as Bundle
from onnxq.inspection.bundling import bundle as bundle
from onnxq.inspection.checking import Checks as Checks
from onnxq.inspection.checking import check as check
from onnxq.inspection.comparing import Comparison as Comparison
from onnxq.inspection.comparing import compare as compare
from onnxq.inspection.data_seen import DataSeen as DataSeen
from onnxq.inspection.data_seen import look as look
from onnxq.inspection.deciding import BundleDecision as BundleDecision
from onnxq.inspection.deciding import decide as decide
from onnxq.inspection.description import ModelSummary as ModelSummary
from onnxq.inspection.description import TensorSummary as TensorSummary
from onnxq.inspection.description import describe as describe
from onnxq.inspection.description import describe_tensor as describe_tensor
from onnxq.inspection.diffing import diff as diff
from onnxq.inspection.engine_reading import EngineDocument as EngineDocument
from onnxq.inspection.engine_reading import engine as engine
from onnxq.inspection.first_settings import FirstSettings as FirstSettings
from onnxq.inspection.first_settings import init as init
from onnxq.inspection.inspecting import draw as draw
from onnxq.inspection.inspecting import inspect as inspect
from onnxq.inspection.model_memory import memory as memory
from onnxq.inspection.pieces import Extract as Extract
from onnxq.inspection.pieces import Pieces as Pieces
from onnxq.inspection.pieces import extract as extract
from onnxq.inspection.pieces import run_pieces as run_pieces
from onnxq.inspection.pieces import split as split
from onnxq.inspection.rule_book import KnownOfMessage as KnownOfMessage
from onnxq.inspection.rule_book import RuleList as RuleList
from onnxq.inspection.rule_book import RulesTried as RulesTried
from onnxq.inspection.rule_book import RuleText as RuleText
from onnxq.inspection.rule_book import explain_message as explain_message
from onnxq.inspection.rule_book import explain_rule as explain_rule
from onnxq.inspection.rule_book import list_rules as list_rules
from onnxq.inspection.rule_book import rules_page as rules_page
from onnxq.inspection.rule_book import try_rules as try_rules
from onnxq.inspection.tensor_statistics import statistics as statistics
from onnxq.inspection.weight_table import weights as weights
from onnxq.options.config import LayerRule as LayerRule
from onnxq.options.settings import AccuracyRepair as AccuracyRepair
from onnxq.options.settings import Calibration as Calibration
from onnxq.options.settings import Compilation as Compilation
from onnxq.options.settings import Details as Details
from onnxq.options.settings import Division as Division
from onnxq.options.settings import Feeding as Feeding
from onnxq.options.settings import Format as Format
from onnxq.options.settings import Goal as Goal
from onnxq.options.settings import ImageOptions as ImageOptions
from onnxq.options.settings import Inputs as Inputs
from onnxq.options.settings import Margins as Margins
from onnxq.options.settings import Ranking as Ranking
from onnxq.options.settings import Repairs as Repairs
from onnxq.options.settings import Runtime as Runtime
from onnxq.pipeline.decision_ranking import Sensitivity as Sensitivity
from onnxq.pipeline.jobs import calibrate as calibrate
from onnxq.pipeline.jobs import merge_stats as merge_stats
from onnxq.pipeline.jobs import plan as plan
from onnxq.pipeline.jobs import quantize as quantize
from onnxq.pipeline.jobs import sensitivity as sensitivity
from onnxq.pipeline.planning import Planned as Planned
from onnxq.pipeline.repairing import sanitize as sanitize
from onnxq.pipeline.result import Result as Result
from onnxq.pipeline.written_page import WrittenPage as WrittenPage
from onnxq.pipeline.written_page import report as report

__all__ = [
    "AccuracyRepair",
    "Analysis",
    "Bundle",
    "BundleDecision",
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
    "Glossary",
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
    "RayExecutor",
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
    "StoredExecutor",
    "SymptomTable",
    "TensorSummary",
    "TensorTable",
    "UserError",
    "WeightTable",
    "WrittenPage",
    "__version__",
    "analyze",
    "bar",
    "bundle",
    "calibrate",
    "check",
    "compare",
    "decide",
    "describe",
    "describe_tensor",
    "diff",
    "draw",
    "engine",
    "explain_message",
    "explain_rule",
    "explain_word",
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
    "symptoms",
    "try_rules",
    "weights",
]
__version__: str

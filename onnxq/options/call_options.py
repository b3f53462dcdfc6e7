"""The keywords of the functions that take options, for type checkers.

Made of the groups of `onnxq.options.settings` by `make options`: change these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from onnxq.options.settings import Batch, PathLike, Profile, Prove


class _Feeding(TypedDict, total=False):
    skip_bad: bool
    input_names: Mapping[str, str] | None


class _Runtime(TypedDict, total=False):
    ort_ops: Sequence[PathLike]


class _Division(TypedDict, total=False):
    shard: tuple[int, int]
    workers: int


class _RepairsOfCalibrate(TypedDict, total=False):
    target: PathLike
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]


class _Inputs(TypedDict, total=False):
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None
    profiles: Mapping[str, Profile] | None
    batch: Batch | Mapping[str, Batch] | None
    profile_weights: Mapping[str, float] | None


class _CalibrationOfCalibrate(TypedDict, total=False):
    exact: bool
    samples: int
    seed: int


class _RepairsOfCheck(TypedDict, total=False):
    target: PathLike
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]
    prove: Prove


class _InputsOfCheck(TypedDict, total=False):
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None
    profiles: Mapping[str, Profile] | None
    batch: Batch | Mapping[str, Batch] | None


class _CompilationOfCheck(TypedDict, total=False):
    sm: int
    compile: bool


class _Calibration(TypedDict, total=False):
    method: Literal["minmax", "average", "percentile", "entropy", "mse", "auto"]
    percentile: float
    constant: float
    search: bool
    exact: bool
    samples: int
    seed: int
    stats: PathLike | None
    partial: bool


class _GoalOfCompare(TypedDict, total=False):
    min_sqnr: float | None
    min_agreement: float | tuple[str, float] | None
    max_drop: float | None
    eval: PathLike | Callable[..., Any] | None
    weigh: Mapping[str, float] | None


class _Margins(TypedDict, total=False):
    margin_db: float
    margin_points: float
    margin_percent: float


class _InputsOfLook(TypedDict, total=False):
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None


class _FormatOfPlan(TypedDict, total=False):
    keep_float: Sequence[str]
    heads: Literal["int8", "float", "auto"]
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None
    scale_form: Literal["per-channel", "post-scale", "per-tensor"] | None


class _AccuracyRepair(TypedDict, total=False):
    repair: str | Sequence[str] | None
    repair_samples: int


class _Format(TypedDict, total=False):
    keep_float: Sequence[str]
    heads: Literal["int8", "float", "auto"]
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None
    scale_form: Literal["per-channel", "post-scale", "per-tensor"] | None
    cache: bool
    plan: PathLike | None


class _Compilation(TypedDict, total=False):
    sm: int
    compile: bool
    gpu: str | None
    fastest: bool


class _Goal(TypedDict, total=False):
    min_sqnr: float | None
    min_agreement: float | tuple[str, float] | None
    max_drop: float | None
    eval: PathLike | Callable[..., Any] | None
    max_float: float | None
    costs: str | PathLike | Mapping[str, float]
    weigh: Mapping[str, float] | None
    measure: int
    time_limit: float | None


class _DivisionOfQuantize(TypedDict, total=False):
    workers: int


class _Details(TypedDict, total=False):
    layer_samples: int | None
    pictures: bool


class _Repairs(TypedDict, total=False):
    target: PathLike
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]
    prove: Prove
    allow_interface_changes: bool


class _FormatOfSanitize(TypedDict, total=False):
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None


class _CalibrationOfSanitize(TypedDict, total=False):
    stats: PathLike | None


class _FormatOfSensitivity(TypedDict, total=False):
    keep_float: Sequence[str]
    heads: Literal["int8", "float", "auto"]
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None
    scale_form: Literal["per-channel", "post-scale", "per-tensor"] | None
    plan: PathLike | None


class _GoalOfSensitivity(TypedDict, total=False):
    eval: PathLike | Callable[..., Any] | None
    max_float: float | None
    costs: str | PathLike | Mapping[str, float]
    weigh: Mapping[str, float] | None
    measure: int


class _Ranking(TypedDict, total=False):
    top: int


class AnalyzeOptions(_Feeding, _Runtime):
    """Of `onnxq.analyze`."""


class CalibrateOptions(_Division, _RepairsOfCalibrate, _Inputs, _Feeding, _Runtime, _CalibrationOfCalibrate):
    """Of `onnxq.calibrate`."""


class CheckOptions(_RepairsOfCheck, _InputsOfCheck, _CompilationOfCheck, _Calibration, _Feeding, _Runtime):
    """Of `onnxq.check`."""


class CompareOptions(_GoalOfCompare, _Feeding, _Runtime):
    """Of `onnxq.compare`."""


class DiffOptions(_Margins):
    """Of `onnxq.diff`."""


class ExtractOptions(_Runtime):
    """Of `onnxq.extract`."""


class LookOptions(_Feeding, _InputsOfLook):
    """Of `onnxq.look`."""


class PlanOptions(_Calibration, _Feeding, _FormatOfPlan, _RepairsOfCheck, _Inputs, _Runtime, _AccuracyRepair):
    """Of `onnxq.plan`."""


class QuantizeOptions(
    _Calibration,
    _Feeding,
    _Format,
    _RepairsOfCheck,
    _Inputs,
    _Runtime,
    _AccuracyRepair,
    _Compilation,
    _Goal,
    _DivisionOfQuantize,
    _Details,
):
    """Of `onnxq.quantize`."""


class RunPiecesOptions(_Feeding, _Runtime):
    """Of `onnxq.run_pieces`."""


class SanitizeOptions(_Repairs, _InputsOfLook, _Runtime, _Feeding, _FormatOfSanitize, _CalibrationOfSanitize):
    """Of `onnxq.sanitize`."""


class SensitivityOptions(
    _Calibration,
    _Feeding,
    _FormatOfSensitivity,
    _RepairsOfCheck,
    _Inputs,
    _Runtime,
    _AccuracyRepair,
    _GoalOfSensitivity,
    _Ranking,
    _DivisionOfQuantize,
):
    """Of `onnxq.sensitivity`."""


class SplitOptions(_Runtime):
    """Of `onnxq.split`."""


class StatisticsOptions(_Feeding, _Runtime):
    """Of `onnxq.statistics`."""

"""The keywords of the functions that take options. `make options` writes this file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from onnxq.options.profile import Profile
from onnxq.options.settings import (
    AccuracyRepair,
    Batch,
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
    PathLike,
    Prove,
    Ranking,
    Repairs,
    Runtime,
)

class _Feeding(TypedDict, total=False):
    feeding: Feeding | Mapping[str, Any] | None
    skip_bad: bool
    input_names: Mapping[str, str] | None

class _ImageOptions(TypedDict, total=False):
    images: ImageOptions | Mapping[str, Any] | None

class _RuntimeOfAnalyze(TypedDict, total=False):
    runtime: Runtime | Mapping[str, Any] | None
    ort_ops: Sequence[PathLike]
    largest: int | str | None

class _CalibrationOfBundle(TypedDict, total=False):
    calibration: Calibration | Mapping[str, Any] | None
    method: Literal["minmax", "average", "percentile", "entropy", "mse", "auto"]
    percentile: float
    constant: float
    search: bool
    exact: bool
    samples: int
    seed: int

class _AccuracyRepair(TypedDict, total=False):
    accuracy: AccuracyRepair | Mapping[str, Any] | None
    repair: str | Sequence[str] | None
    repair_samples: int

class _FormatOfBundle(TypedDict, total=False):
    format: Format | Mapping[str, Any] | None
    number_format: str | Sequence[str] | None
    keep_float: Sequence[str]
    keep_float_op: Sequence[str]
    keep_fp32: Sequence[str]
    loud: Literal["int8", "float", "auto"] | None
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None
    scale_form: Literal["per-channel", "post-scale", "per-tensor"] | None

class _RepairsOfBundle(TypedDict, total=False):
    repairs: Repairs | Mapping[str, Any] | None
    target: PathLike
    plugin: Sequence[str]
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]
    accept: Sequence[str]
    prove: Prove

class _Inputs(TypedDict, total=False):
    inputs: Inputs | Mapping[str, Any] | None
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None
    profiles: Mapping[str, Profile] | None
    batch: Batch | Mapping[str, Batch] | None
    profile_weights: Mapping[str, float] | None

class _CompilationOfBundle(TypedDict, total=False):
    compilation: Compilation | Mapping[str, Any] | None
    device: str | int | Path | None

class _Runtime(TypedDict, total=False):
    runtime: Runtime | Mapping[str, Any] | None
    ort_ops: Sequence[PathLike]
    ops: Sequence[PathLike]
    largest: int | str | None

class _CalibrationOfCalibrate(TypedDict, total=False):
    calibration: Calibration | Mapping[str, Any] | None
    exact: bool
    samples: int
    seed: int

class _Division(TypedDict, total=False):
    division: Division | Mapping[str, Any] | None
    shard: tuple[int, int]
    workers: int

class _RepairsOfCalibrate(TypedDict, total=False):
    repairs: Repairs | Mapping[str, Any] | None
    target: PathLike
    plugin: Sequence[str]
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]
    accept: Sequence[str]
    pairs: Literal["keep", "adopt", "drop"] | None

class _Calibration(TypedDict, total=False):
    calibration: Calibration | Mapping[str, Any] | None
    method: Literal["minmax", "average", "percentile", "entropy", "mse", "auto"]
    percentile: float
    constant: float
    search: bool
    exact: bool
    samples: int
    seed: int
    stats: PathLike | None
    partial: bool

class _InputsOfCheck(TypedDict, total=False):
    inputs: Inputs | Mapping[str, Any] | None
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None
    profiles: Mapping[str, Profile] | None
    batch: Batch | Mapping[str, Batch] | None

class _Compilation(TypedDict, total=False):
    compilation: Compilation | Mapping[str, Any] | None
    device: str | int | Path | None
    compile: bool
    dla: bool

class _GoalOfCompare(TypedDict, total=False):
    goal: Goal | Mapping[str, Any] | None
    min_sqnr: float | None
    min_agreement: float | tuple[str, float] | None
    task: str | None
    labels: PathLike | None
    ship_from: float | None
    max_drop: float | None
    eval: PathLike | Callable[..., Any] | None
    weigh: Mapping[str, float] | None

class _Margins(TypedDict, total=False):
    margins: Margins | Mapping[str, Any] | None
    margin_db: float
    margin_points: float
    margin_percent: float

class _InputsOfLook(TypedDict, total=False):
    inputs: Inputs | Mapping[str, Any] | None
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None

class _RepairsOfPlan(TypedDict, total=False):
    repairs: Repairs | Mapping[str, Any] | None
    target: PathLike
    plugin: Sequence[str]
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]
    accept: Sequence[str]
    prove: Prove
    pairs: Literal["keep", "adopt", "drop"] | None

class _Format(TypedDict, total=False):
    format: Format | Mapping[str, Any] | None
    number_format: str | Sequence[str] | None
    keep_float: Sequence[str]
    keep_float_op: Sequence[str]
    keep_fp32: Sequence[str]
    loud: Literal["int8", "float", "auto"] | None
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None
    scale_form: Literal["per-channel", "post-scale", "per-tensor"] | None
    cache: bool
    plan: PathLike | None

class _Goal(TypedDict, total=False):
    goal: Goal | Mapping[str, Any] | None
    min_sqnr: float | None
    min_agreement: float | tuple[str, float] | None
    task: str | None
    labels: PathLike | None
    ship_from: float | None
    max_drop: float | None
    eval: PathLike | Callable[..., Any] | None
    max_float: float | None
    costs: str | PathLike | Mapping[str, float]
    weigh: Mapping[str, float] | None
    measure: int
    time_limit: float | None

class _DivisionOfQuantize(TypedDict, total=False):
    division: Division | Mapping[str, Any] | None
    workers: int

class _CompilationOfQuantize(TypedDict, total=False):
    compilation: Compilation | Mapping[str, Any] | None
    device: str | int | Path | None
    compile: bool

class _Details(TypedDict, total=False):
    details: Details | Mapping[str, Any] | None
    layer_samples: int | None
    pictures: bool

class _CalibrationOfSanitize(TypedDict, total=False):
    calibration: Calibration | Mapping[str, Any] | None
    stats: PathLike | None

class _FormatOfSanitize(TypedDict, total=False):
    format: Format | Mapping[str, Any] | None
    keep_fp32: Sequence[str]
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None

class _RepairsOfSanitize(TypedDict, total=False):
    repairs: Repairs | Mapping[str, Any] | None
    target: PathLike
    plugin: Sequence[str]
    rules: Sequence[PathLike]
    enable: Sequence[str]
    skip: Sequence[str]
    accept: Sequence[str]
    prove: Prove
    allow_interface_changes: bool

class _InputsOfSanitize(TypedDict, total=False):
    inputs: Inputs | Mapping[str, Any] | None
    shapes: Mapping[str, Sequence[int | str]] | None
    assume: Mapping[str, int] | None
    freeze: Mapping[str, Any] | None
    batch: Batch | Mapping[str, Batch] | None

class _FormatOfSensitivity(TypedDict, total=False):
    format: Format | Mapping[str, Any] | None
    number_format: str | Sequence[str] | None
    keep_float: Sequence[str]
    keep_float_op: Sequence[str]
    keep_fp32: Sequence[str]
    loud: Literal["int8", "float", "auto"] | None
    body: Literal["fp16", "bf16", "fp32"] | None
    io: Literal["fp16", "bf16", "fp32"] | None
    scale_form: Literal["per-channel", "post-scale", "per-tensor"] | None
    plan: PathLike | None

class _GoalOfSensitivity(TypedDict, total=False):
    goal: Goal | Mapping[str, Any] | None
    eval: PathLike | Callable[..., Any] | None
    max_float: float | None
    costs: str | PathLike | Mapping[str, float]
    weigh: Mapping[str, float] | None
    measure: int

class _Ranking(TypedDict, total=False):
    ranking: Ranking | Mapping[str, Any] | None
    top: int

class _RepairsOfSplit(TypedDict, total=False):
    repairs: Repairs | Mapping[str, Any] | None
    target: PathLike
    plugin: Sequence[str]

class _InputsOfSplit(TypedDict, total=False):
    inputs: Inputs | Mapping[str, Any] | None
    profiles: Mapping[str, Profile] | None

class AnalyzeOptions(_Feeding, _ImageOptions, _RuntimeOfAnalyze): ...
class BundleOptions(
    _Feeding,
    _ImageOptions,
    _CalibrationOfBundle,
    _AccuracyRepair,
    _FormatOfBundle,
    _RepairsOfBundle,
    _Inputs,
    _CompilationOfBundle,
    _Runtime,
): ...
class CalibrateOptions(
    _Feeding, _ImageOptions, _CalibrationOfCalibrate, _Division, _RepairsOfCalibrate, _Inputs, _Runtime
): ...
class CheckOptions(
    _Feeding, _ImageOptions, _Calibration, _RepairsOfBundle, _InputsOfCheck, _Compilation, _Runtime
): ...
class CompareOptions(_Feeding, _ImageOptions, _GoalOfCompare, _Runtime): ...
class DiffOptions(_Margins): ...
class ExtractOptions(_Runtime): ...
class LookOptions(_Feeding, _ImageOptions, _InputsOfLook): ...
class PlanOptions(
    _Feeding,
    _ImageOptions,
    _Calibration,
    _AccuracyRepair,
    _FormatOfBundle,
    _RepairsOfPlan,
    _Inputs,
    _CompilationOfBundle,
    _Runtime,
): ...
class QuantizeOptions(
    _Feeding,
    _ImageOptions,
    _Calibration,
    _AccuracyRepair,
    _Format,
    _Goal,
    _DivisionOfQuantize,
    _RepairsOfPlan,
    _Inputs,
    _CompilationOfQuantize,
    _Details,
    _Runtime,
): ...
class RunPiecesOptions(_Feeding, _ImageOptions, _Runtime): ...
class SanitizeOptions(
    _Feeding,
    _ImageOptions,
    _CalibrationOfSanitize,
    _FormatOfSanitize,
    _RepairsOfSanitize,
    _InputsOfSanitize,
    _Runtime,
): ...
class SensitivityOptions(
    _Feeding,
    _ImageOptions,
    _Calibration,
    _AccuracyRepair,
    _FormatOfSensitivity,
    _GoalOfSensitivity,
    _Ranking,
    _DivisionOfQuantize,
    _RepairsOfPlan,
    _Inputs,
    _Runtime,
): ...
class SplitOptions(
    _Feeding, _ImageOptions, _RepairsOfSplit, _InputsOfSplit, _CompilationOfBundle, _Runtime
): ...
class StatisticsOptions(_Feeding, _ImageOptions, _RuntimeOfAnalyze): ...

"""The documents of a run: `X.report.json`, and those of `onnxq plan` and `onnxq sensitivity`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.compiled.verdict import Verdict
from onnxq.data.pictures import PictureSheet
from onnxq.documents.accuracy import GoalPart, NoiseMeasured, OutputOfRun, ScoresPart
from onnxq.documents.advice import Advice
from onnxq.documents.analysis import LayerErrors
from onnxq.documents.body import BodyPart
from onnxq.documents.calibration import CalibrationPart, NotCalibrated, ScaleProfile
from onnxq.documents.changes import (
    ChangeOfInterface,
    ChangesCounted,
    ExactProduct,
    FileSizes,
    NotTaken,
    TakenByRuntime,
)
from onnxq.documents.deployment import DeploymentPart, NamedDeployment
from onnxq.documents.engine import EnginePart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.formats import INT8
from onnxq.graph.outline import NodeOutline
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.noise.ranking import DecisionRanked
from onnxq.rewrite.changes import Assumption, Change, NearMiss
from onnxq.rewrite.whole import WholeProof
from onnxq.task.meter import TaskPart
from onnxq.task.output_pictures import OutputPictures

REPORT_SCHEMA = 12
"""What is written. A report of schema 1 has no `kind`, and no fields for what was left out."""


@dataclass(frozen=True, slots=True)
class Nothing(DocumentPart):
    """A part of a report that was not made, `{}`."""

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True, slots=True)
class RunHead(DocumentPart):
    """What every document of a run says first.

    Attributes:
        kind: what document it is.
        schema: the version of its form.
        onnxq: the version of onnxq.
        model: the path of the model, None for one in memory.
        output: the path of what was written, None where nothing was.
        target: what it is for.
        opset: the version of ONNX's operators.
        ir_version: that of the file's form.
        nodes: how many nodes there are, subgraphs included.
    """

    kind: str
    schema: int
    onnxq: str
    model: str | None
    output: str | None
    target: str
    opset: int
    ir_version: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocument(RunHead):
    """What every document of a run says of the run itself, behind its head.

    Attributes:
        files: the files that were written, none before they are.
        notes: what was remarked.
        seconds: how long it took.
        phases: seconds by step.
        peak_memory_mb: the greatest resident size of the process so far, MiB; 0 where it is not known.
        config: the settings file that was read, None for none.
    """

    files: tuple[str, ...] = ()
    notes: tuple[str, ...]
    seconds: float
    phases: Mapping[str, float]
    peak_memory_mb: float
    config: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(RunDocument):
    """What `onnxq quantize` and `onnxq sanitize` did and found, `X.report.json`.

    Attributes:
        kind: "report".
        schema: 9.
        nodes_before: how many nodes the original had.
        assumptions: what changes rely on.
        changes: the changes that were kept, in order.
        rejected: changes whose proof failed; the model is as if they had not been tried.
        near_misses: patterns of rules that were left alone.
        whole_model: comparisons of the whole model with the original, one a stage that changed it.
        proved: how many changes are proved how.
        interface_changes: inputs and outputs that are others now.
        float32_only: why the model has to stay float32; empty where it need not.
        exact_products: products of whole numbers that half precision would round.
        unsupported: what the target does not take.
        runtime: whether onnxruntime takes the models.
        dropped_initializers: constants that nobody read, and were left out.
        size: the sizes of the files.
        plan: what is quantized; `{}` of sanitize.
        body: what is not; `{}` where nothing was asked of it.
        calibration: what calibration found; `{}` of sanitize.
        accuracy: each output beside the float model's, on the samples that verify.
        about_mean: how near they are about their means; None where that was not measured.
        task: what is kept of the answers of the model's task; None where outputs were not compared.
        goal: the goal; None where there is none.
        repair: what repair of accuracy did; None where it was not asked for.
        engine: what the compiler made of it.
        verdict: what int8 does to the engine; None where nothing was compared.
        commands: commands that build an engine, for a shell.
        layer_errors: the errors of the layers on a few samples; None of sanitize, and where there are none.
        pictures: small pictures of samples as the model is fed them.
        output_pictures: outputs that are pictures, in the samples in which they are furthest off.
        outline: the nodes of the float model; None of sanitize.
        weight_scales: the scales of the weights, by weight; None of sanitize.
        profiles: the least, the usual and the greatest shape of each dynamic input, by input.
        deployment: the sizes that were decided for; of several deployments those with most of the work.
        deployments: the deployments that have names, in the order of the engine's profiles; else empty.
        device: the GPU that it is made for, as `--device` takes it; "" where none was stated.
        sha256: the hash of the model's file, in hexadecimal; "" before it is saved.
        asked: the command line: its verb, its model, and each flag with its values; empty of calls in Python.
        advice: the answer, and what to do; None before it is saved.
    """

    nodes_before: int
    assumptions: tuple[Assumption, ...]
    changes: tuple[Change, ...]
    rejected: tuple[Change, ...]
    near_misses: tuple[NearMiss, ...]
    whole_model: tuple[WholeProof, ...]
    proved: ChangesCounted
    interface_changes: tuple[ChangeOfInterface, ...]
    float32_only: tuple[str, ...]
    exact_products: tuple[ExactProduct, ...]
    unsupported: tuple[NotTaken, ...]
    runtime: TakenByRuntime
    dropped_initializers: tuple[str, ...]
    size: FileSizes
    plan: PlanPart | Nothing
    body: BodyPart | Nothing
    calibration: CalibrationPart | Nothing
    accuracy: tuple[OutputOfRun, ...]
    about_mean: AboutMeanPart | None
    goal: GoalPart | None
    repair: RepairPart | None
    engine: EnginePart
    verdict: Verdict | None
    commands: tuple[str, ...]
    layer_errors: LayerErrors | None = None
    pictures: tuple[PictureSheet, ...] = ()
    output_pictures: tuple[OutputPictures, ...] = ()
    outline: tuple[NodeOutline, ...] | None = None
    weight_scales: Mapping[str, ScaleProfile] | None = None
    profiles: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    deployment: DeploymentPart = field(default_factory=DeploymentPart)
    deployments: tuple[NamedDeployment, ...] = ()
    device: str = ""
    sha256: str = ""
    asked: tuple[tuple[str, ...], ...] = ()
    task: TaskPart | None = None
    advice: Advice | None = None

    @property
    def number_format(self) -> str:
        """The name of the number format that it quantizes to; int8 where it quantizes nothing."""
        return self.plan.format if isinstance(self.plan, PlanPart) else INT8.name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport(RunDocument):
    """What `onnxq plan` did and found; the plan itself is a TOML file.

    Attributes:
        kind: "plan".
        schema: 9.
        plan: what would be quantized.
        calibration: what calibration found, or that there was none.
        repair: what repair of accuracy did; None where it was not asked for.
        body: what is not quantized.
        deployment: the sizes that were decided for; of several deployments those with most of the work.
        deployments: the deployments that have names; else empty.
    """

    plan: PlanPart
    calibration: CalibrationPart | NotCalibrated
    repair: RepairPart | None
    body: BodyPart
    deployment: DeploymentPart = field(default_factory=DeploymentPart)
    deployments: tuple[NamedDeployment, ...] = ()


@dataclass(frozen=True, slots=True)
class BestFloats(DocumentPart):
    """The best set to leave in float within a share of the multiply-accumulates.

    Attributes:
        float: the nodes, the greatest gain first.
        max_float: the share that may go to float, 0 to 1.
        smallest_share: the share of the smallest decision; None where there is none.
        share_of_int8_macs: the share that it takes.
        cost: what it costs, in the unit of the ranking.
        predicted_sqnr_db: the outputs' signal-to-noise ratio with it, predicted, dB.
        sqnr_about_mean_db: the same, measured on the samples that chose.
        verified_before: how near the outputs are without it, on the samples that verify.
        verified: how near they are with it.
    """

    nodes: tuple[str, ...] = field(metadata={"key": "float"})
    max_float: float
    smallest_share: float | None
    share_of_int8_macs: float
    cost: float
    predicted_sqnr_db: float
    sqnr_about_mean_db: float
    verified_before: AboutMeanPart
    verified: AboutMeanPart


@dataclass(frozen=True, slots=True)
class SensitivityPart(NoiseMeasured):
    """What causes the error.

    Attributes:
        trials: how many sets were measured.
        sqnr_about_mean_db: how near the outputs are with all of the plan in int8, dB.
        decisions: what can be left in float, the greatest gain first.
        best: the best set.
        scores: what the user's function gives; None where there is none.
        calibration: what calibration found.
        repair: what repair of accuracy did; None where it was not asked for.
        format: the number format that layers are quantized to: "int8", "fp8".
    """

    trials: int
    sqnr_about_mean_db: float
    decisions: tuple[DecisionRanked, ...]
    best: BestFloats
    scores: ScoresPart | None
    calibration: CalibrationPart
    repair: RepairPart | None
    format: str = INT8.name


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityReport(RunDocument):
    """What `onnxq sensitivity` found.

    Attributes:
        kind: "sensitivity".
        schema: 9.
        sensitivity: what causes the error.
    """

    sensitivity: SensitivityPart

"""What `check` knows of a model that it is given data for: its plan, and what was measured of its tensors."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from onnxq.analysis.reports import part_of
from onnxq.base.errors import UserError
from onnxq.base.reason import code_of, noted
from onnxq.calib.collect import Counting
from onnxq.calib.stats import Stats, TensorStats
from onnxq.checks.evidence import Evidence, FloatLayer, Scaled, own_scales, planned_scales
from onnxq.checks.subject import subject_of
from onnxq.compiled.reading import EngineReading, read
from onnxq.data.sources import Source
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.emit.recorded import recorded_report
from onnxq.graph.fingerprint import fingerprint
from onnxq.graph.layers import multiplies
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ, is_qdq
from onnxq.graph.types import is_float
from onnxq.graph.view import Tensor
from onnxq.options.settings import Format
from onnxq.pipeline.calibration import Calibrating, Given, Prepared, measure, prepare
from onnxq.pipeline.deploying import Deployed
from onnxq.pipeline.job import Job
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.sampling import Sampling
from onnxq.quant.draft.body import UNCHANGED
from onnxq.quant.plan import QuantPlan
from onnxq.run import trt


def evidence_of(
    job: Job,
    original: Model,
    options: Calibrating,
    source: Source | None,
    given: Given | None,
    engine: trt.Engine | None,
    data: str,
) -> Evidence:
    """Plans and measures.

    Args:
        job: of the sanitized model.
        original: the model as the user gave it.
        options: how ranges are chosen, and on how many samples.
        source: the data, or None.
        given: statistics of the model, or of the float model that the report beside it names; or None.
        engine: what came of compiling the original.
        data: the flags that name the data or statistics, for command lines.

    Returns:
        What is known, and what kept the data from being measured, where something did.

    Raises:
        UserError: statistics are of another model, or there are no samples.
    """
    path = None if job.model.path is None else Path(job.model.path)
    own = any(map(is_qdq, job.model.nodes))
    report = recorded_report(path) if path is not None and own else None
    sampling, deployed = _sampling(job, options, source, given, report)
    prepared = prepare(job, deployed.deployments, Format(), (), UNCHANGED, usual=deployed.usual)
    stats = given.stats.stats if given is not None and given.stats is not None else Stats()
    problem: UserError | None = None
    if source is not None:
        measured, problem = _measured(job, prepared, options, sampling, stats, own=own)
        stats = Stats(
            {**stats.tensors, **measured.tensors}, measured.indices if measured.samples else stats.indices
        )
    scaled = own_scales(job.model) if own else planned_scales(
        prepared.draft.plan, _ranges(job, options, sampling, given, prepared, stats)
    )  # fmt: skip
    doubts = job.doubts(source.count if source is not None else None).doubts
    model = "FLOAT.onnx" if own else str(path or "MODEL.onnx")
    if report is not None and report.model and os.path.isfile(report.model):
        model = report.model
    return Evidence(
        model=job.model,
        original=original,
        command=f"onnxq quantize {shlex.quote(model)} {data}".rstrip(),
        tensors=_through_casts(job.model, stats.tensors, scaled) if own else stats.tensors,
        samples=stats.samples,
        count=_count(source, given),
        plan=prepared.draft.plan,
        own_pairs=own,
        scaled=scaled,
        floats=tuple(_floats(job, prepared.draft.plan, report, own=own)),
        doubts=doubts,
        reading=_reading(engine, original),
        problem=problem,
    )


def _sampling(
    job: Job, options: Calibrating, source: Source | None, given: Given | None, report: Report | None
) -> tuple[Sampling, Deployed]:
    """Who gets which samples, and the sizes: those of the statistics where there are no data."""
    of_float = _is_of_float_model(given, job, report)
    sampling = Sampling(job, options, source, None if of_float else given)
    deployed = sampling.deployed
    if of_float and source is None and given is not None and given.stats is not None:
        sizes = job.deployments(given.stats.origin.seen, every=given.stats.origin.tells_sizes)
        deployed = replace(deployed, deployments=sizes, usual=(sampling.first,) * len(sizes))
    return sampling, deployed


def _reading(engine: trt.Engine | None, model: Model) -> EngineReading | None:
    """What became of a model in its engine; None where there is none."""
    if engine is None or engine.status != "compiled" or not engine.layers:
        return None
    return read(engine.layers, model)


def _through_casts(
    model: Model, tensors: Mapping[str, TensorStats], scaled: Sequence[Scaled]
) -> dict[str, TensorStats]:
    """Statistics, those of quantized tensors that only are casts of measured ones included."""
    stats = dict(tensors)
    cast = [node for node in model.nodes if node.op == "Cast"]
    casts = {node.outputs[0].name: node.inputs[0].name for node in cast if node.inputs[0] is not None}
    for name in (name for one in scaled for name in one.tensors):
        source = name
        while source not in stats and source in casts:
            source = casts[source]
        if source in stats:
            stats[name] = stats[source]
    return stats


def _count(source: Source | None, given: Given | None) -> int | None:
    """How many samples there are to calibrate with; None where that is not known."""
    if source is not None:
        return source.count
    return given.stats.origin.available if given is not None and given.stats is not None else None


def _is_of_float_model(given: Given | None, job: Job, report: Report | None) -> bool:
    """Whether statistics are of the float model that the report beside a quantized model names.

    Raises:
        UserError: they are of neither.
    """
    if given is None or given.stats is None or given.stats.origin.model == job.fingerprint():
        return False
    named = "" if report is None else report.model
    if named and os.path.isfile(Path(named)) and fingerprint(named, [], [], []) == given.stats.origin.model:
        if report is not None and (edits := part_of(RepairPart, report.repair).edits):
            raise UserError(
                f"{str(given.path)!r} holds statistics of {named!r}, and repair edited {len(edits)} of its "
                "tensors: what they hold in the quantized model is not known",
                hint="give data in their place: --calib DATA",
            )
        return True
    given.check_model(job)
    return False


def _measured(
    job: Job, prepared: Prepared, options: Calibrating, sampling: Sampling, before: Stats, *, own: bool
) -> tuple[Stats, UserError | None]:
    """Statistics of what is quantized and of what is added or joined; and why there are none."""
    computed = prepared.floats.computed
    planned = [name for name in (() if own else prepared.draft.plan.measured) if name in computed]
    looked_at = [name for name in dict.fromkeys(_looked_at(job.model)) if name in computed]
    unmeasured = [name for name in dict.fromkeys([*planned, *looked_at]) if name not in before.tensors]
    if not unmeasured or sampling.first is None or sampling.parts is None:
        return Stats(), None
    axes = _channel_axes(job.model)
    counting: Counting = "exact" if options.exact else "sampled"
    problem: UserError | None = None
    for names in (unmeasured, [name for name in unmeasured if name in planned]):
        again = sampling.parts.used is not None
        samples = sampling.parts.calibration() if again else sampling.calibrating()
        channels = {name: axes[name] for name in names if name in axes}
        try:
            return measure(
                job, prepared, names, (), counting, samples, sampling.first, sampling.parts.used,
                sampling.skip if options.skip_bad else None, channels,
            ), None  # fmt: skip
        except UserError as error:
            problem = problem or error
            if not again or not names or names == unmeasured == planned:
                break
    return Stats(), problem


def _looked_at(model: Model) -> Iterator[str]:
    """The float activations that pairs of the model quantize, or that an Add or a Concat reads."""
    for node in model.nodes:
        if node.domain not in ("", "com.microsoft") or node.op not in ("QuantizeLinear", "Add", "Concat"):
            continue
        for source in node.inputs[:1] if node.op == "QuantizeLinear" else node.inputs:
            if source is None or source.is_constant or source.dtype is None or not is_float(source.dtype):
                continue
            maker = source.producer
            if maker is None or maker.op not in QDQ:
                yield source.name


def _channel_axes(model: Model) -> dict[str, int]:
    """The channel axis of each tensor that a product reads first, itself or dequantized."""
    axes: dict[str, int] = {}
    for node in model.nodes:
        if not multiplies(node):
            continue
        source: Tensor | None = node.inputs[0]
        while source is not None and source.producer is not None and is_qdq(source.producer):
            source = source.producer.inputs[0]
        if source is not None and source.rank and not (node.op == "Gemm" and node.attr("transA", 0)):
            axes.setdefault(source.name, -1 if node.op == "MatMul" else 1)
    return axes


def _ranges(
    job: Job, options: Calibrating, sampling: Sampling, given: Given | None, prepared: Prepared, stats: Stats
) -> dict[str, float]:
    """The range that each measured tensor of the plan would have."""
    ranges = Ranging(job, options, sampling, given, prepared).ranges(stats)
    amax = {}
    for name in prepared.draft.plan.measured:
        if name in stats.tensors or name in ranges.stated or name in ranges.fixed:
            amax[name] = ranges.of(name, options.default).amax
    return amax


def _floats(job: Job, plan: QuantPlan, report: Report | None, *, own: bool) -> list[FloatLayer]:
    """The layers that are not quantized, the heaviest first, each with the reason that is known of it."""
    total = sum(layer.macs or 0 for layer in plan.layers)
    reasons = {entry.node: (code_of(entry.because), str(entry.because)) for entry in plan.kept_float}
    quantized = {layer.node for layer in plan.layers if layer.quantized}
    unknown = ("", noted("no-pair.rule"))
    if own:
        products = subject_of(job.model, job.target.name).products
        quantized = {one.node.name for one in products if one.of_data and one.of_weight}
        unknown = ("no-pair", noted("no-pair.file"))
        reasons = {name: why for name, why in reasons.items() if name not in quantized}
    kept = part_of(PlanPart, None if report is None else report.plan).kept_float
    reasons.update({one.node: (one.code, one.because) for one in kept})
    layers = [
        FloatLayer(
            layer.node, layer.op, layer.macs, layer.macs / total, layer.eligible,
            *reasons.get(layer.node, unknown),
        )
        for layer in plan.layers
        if layer.macs and layer.node not in quantized
    ]  # fmt: skip
    return sorted(layers, key=lambda layer: -layer.macs)

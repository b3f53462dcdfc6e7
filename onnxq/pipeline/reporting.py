"""What the report says of a run: the plan, calibration, outputs, the compiler."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from onnxq.analysis.reports import number
from onnxq.base.plain import extended
from onnxq.base.reason import code_of, noted
from onnxq.base.shown import size
from onnxq.calib.histogram import HistogramCounter
from onnxq.calib.stats import Stats, TensorStats
from onnxq.calib.trt_cache import write_cache
from onnxq.compiled.kernels import CODES, Kernel, kernels_of
from onnxq.compiled.reading import operators_of
from onnxq.documents.accuracy import OutputOfRun
from onnxq.documents.analysis import ENDED, LayerErrors
from onnxq.documents.calibration import (
    CalibrationPart,
    DrawnHistogram,
    MethodChosen,
    RowsSampled,
    ScaleProfile,
    TensorMoments,
    Threshold,
)
from onnxq.documents.engine import EnginePart
from onnxq.documents.plan import FormatsTried, Heads, PlanPart
from onnxq.documents.report import Report
from onnxq.formats import INT8
from onnxq.graph.channels import by_channel
from onnxq.graph.outline import outline
from onnxq.graph.pairs import pair_of
from onnxq.graph.spans import spans
from onnxq.graph.view import Node, every_node
from onnxq.judge.output_parts import OutputPart
from onnxq.pipeline.body import body_part
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibration import STATED, activations
from onnxq.pipeline.deploying import deployment_parts
from onnxq.pipeline.engine_part import told_beyond
from onnxq.pipeline.gates import NOTHING, Verified
from onnxq.pipeline.goal_found import GoalFound
from onnxq.pipeline.not_taken import beyond_compiler, refused
from onnxq.pipeline.run import Run, RunRequest
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range
from onnxq.repair.moved import of_report


def plan_part(
    request: RunRequest, plan: QuantPlan, heads: Heads | None, formats: FormatsTried | None = None
) -> PlanPart:
    """The part on what is quantized.

    Args:
        request: what is asked for.
        plan: what is quantized.
        heads: what became of the heads.
        formats: how the number formats were chosen; None where one was asked for.
    """
    return PlanPart(
        sites=tuple(plan.sites),
        own_pairs_read=tuple(plan.own),
        groups=tuple(plan.groups),
        kept_float=tuple(plan.kept_float),
        layers=tuple(plan.layers),
        together=tuple(plan.together),
        int8_share_of_eligible_macs=plan.int8_share,
        int8_share_of_all_macs=plan.int8_share_of_all,
        file=None if request.file is None else str(request.file.path),
        heads=heads,
        format=plan.format_names,
        formats=formats,
    )


def reported(run: Run, report: Report, cache: str | None) -> Report:
    """The report of a compiled run, as far as its outputs were compared; without the errors of layers.

    Args:
        run: it.
        report: what it says of surgery.
        cache: the calibration cache; None: there is none.
    """
    job, built, compiled, accuracy = run.built.job, run.built, run.compiled, run.verified
    assert compiled is not None
    draft, made, target = built.draft, built.written, run.request.job.target
    engine = compiled.part(built)
    beyond = beyond_compiler(made.model, target) if engine.status == "failed" else {}
    ops = {node.name: node.op for node in every_node(made.model)}
    against = refused(engine, report.unsupported, ops, beyond)
    engine = told_beyond(engine, beyond, target)
    job.notes.extend(told_of_sums(built, engine))
    said = replace(
        report,
        plan=plan_part(run.request, draft.plan, run.heads, run.formats),
        repair=run.repair,
        body=body_part(draft.body, made, (), (), () if accuracy is None else accuracy.accuracy),
        outline=tuple(outline(built.floats.model)),
        **deployment_parts(
            run.sampling.deployments, run.worth, compiled.verdicts(built), compiled.activation_bytes
        ),
        weight_scales=weight_scales(made.proto, draft.plan),
        engine=engine,
        verdict=compiled.verdict,
        device=str(run.request.compilation.device or ""),
        unsupported=(*report.unsupported, *against),
        pictures=() if job.glance is None else job.glance.sheets(),
        layer_errors=LayerErrors(ENDED),
        **compared(run, cache),
    )
    said = job.finished(said)
    if accuracy is None and run.references.verifying is not None:
        return replace(said, notes=(*said.notes, noted("not-compared", why=ENDED)))
    return said


def compared(run: Run, cache: str | None) -> dict[str, Any]:
    """The parts of the report that say how near the outputs are, as far as they were compared."""
    pursuit, verified, built = run.request.pursuit, run.verified, run.built
    assert pursuit is not None
    parts: dict[str, Any] = {"calibration": calibration_part(run, built, cache)}
    if verified is None:
        return parts
    parts |= {
        "accuracy": _accuracy(built, verified),
        "output_pictures": () if verified.album is None else verified.album.sheets(),
    }
    if verified.gauge is not NOTHING:
        found, task = run.goal or GoalFound(mismatch=pursuit.mismatch), verified.gauge.task.part
        ship_from = pursuit.goal.ship_from
        parts |= {
            "about_mean": verified.gauge.about_mean,
            "task": task if ship_from is None else replace(task, ship_from=ship_from),
            "goal": found.part(pursuit, verified),
        }
    return parts


def _accuracy(built: Built, verified: Verified) -> tuple[OutputOfRun, ...]:
    """The part on each output, or part of one."""
    model = built.floats.model
    outputs = [tensor.name for tensor in model.outputs]
    wide = spans(model, outputs)
    parts = {part.name: part for part in built.job.parts_of(outputs).parts}
    found = []
    for entry in verified.accuracy:
        part = parts.get(entry.output) or OutputPart(entry.output)  # where not all of the model runs
        whole = None if part.axis is None else part.output
        cosine = number(entry.cosine)  # NaN where values are infinite
        found.append(
            extended(
                OutputOfRun, entry, cosine=cosine, span=wide.get(part.output), part_of=whole, axis=part.axis
            )
        )
    return tuple(found)


def cache_of(run: Run) -> str | None:
    """The calibration cache, of all measured activations; None: nobody asks for one."""
    request, built = run.request, run.built
    if request.cache is None:
        return None
    scales: dict[str, np.float32] = {}
    ranges, choice, draft = run.ranges, run.choice, built.draft
    method = choice.method if choice is not None else request.options.default
    for name in activations(draft.plan, built.floats):
        if name in ranges.tensors or name in ranges.stated:
            scales[name] = np.float32(INT8.scale(ranges.of(name, method).amax))
    scales_of_groups = draft.scales
    for group in draft.plan.groups:
        if group.id in scales_of_groups:
            scales.update(dict.fromkeys(group.tensors, scales_of_groups[group.id]))
    return write_cache(scales, request.cache)


def calibration_part(run: Run, built: Built, cache: str | None = None) -> CalibrationPart:
    """The part on calibration.

    Args:
        run: it.
        built: the model that is spoken of.
        cache: the calibration cache; None: there is none.
    """
    request, choice, draft, given = run.request, run.choice, built.draft, run.request.given
    shown, before = of_report(run.stats, run.measured, draft.edits)
    read = given.stats if given is not None else None
    counting = read.origin.counting if read is not None else request.options.counting
    chosen = None if choice is None else MethodChosen.of(choice)
    notes = () if given is None else given.notes
    stats, verified = _of_plan(request, built, shown), run.verified
    held = run.sampling.held_text(0 if verified is None else verified.gauge.about_mean.samples)
    tensors, ranges, scales, target = stats.tensors, draft.ranges, draft.scales, request.job.target
    return CalibrationPart(
        method=method_named(_method(request, ranges), chosen, ranges),
        choice=chosen,
        samples=stats.samples,
        seed=request.options.seed if read is None else read.origin.seed,
        counting=counting,
        sampling=rows_sampled(stats) if counting == "sampled" else None,
        data=run.sampling.data(),
        notes=(*alike(stats, ranges), *request.job.notes, *notes),
        held_out=held,
        held_out_code=code_of(held),
        scales={
            name: float(scales[group.id])
            for group in draft.plan.groups
            if group.id in scales
            for name in group.tensors
        },
        ranges={name: (entry.min, entry.max) for name, entry in tensors.items()},
        thresholds={
            name: Threshold(one.amax, one.because, code_of(one.because)) for name, one in ranges.items()
        },
        statistics={
            name: TensorMoments(entry.size, entry.mean, entry.variance) for name, entry in tensors.items()
        },
        histograms={
            name: histogram
            for name, entry in tensors.items()
            if name in ranges and (histogram := drawn(entry)) is not None
        },
        not_run=dict(built.floats.not_run),
        stats_file=None if given is None else str(given.path),
        missing=() if given is None else tuple(given.missing),
        cached=None if cache is None else len(cache.splitlines()) - 1,
        not_verified="" if target.explicit else noted("cache-not-verified", target=target.title),
        in_float32=request.job.in_float32,
        before={name: kind for name, kind in before.items() if name in tensors},
        weights=run.prepared.weights,
    )


def _of_plan(request: RunRequest, built: Built, stats: Stats) -> Stats:
    """The statistics of what has a scale; those of the body are there for their ends alone."""
    plan = built.draft.plan
    wanted = {*plan.measured}
    if request.cache is not None:
        wanted.update(activations(plan, built.floats))
    tensors = {
        name: entry
        for name, entry in stats.tensors.items()
        if name in wanted and (entry.total is not None or entry.histogram is not None)
    }
    indices = stats.indices if tensors or not plan.measured else stats.indices[:0]
    return replace(stats, tensors=tensors, indices=indices)


def _method(request: RunRequest, ranges: Mapping[str, Range]) -> str:
    """The method, unless a calibration cache states every range."""
    stated = {code_of(entry.because) for entry in ranges.values()} == {STATED.code}
    return STATED if stated else str(request.options.default)


def told_of_sums(built: Built, engine: EnginePart) -> list[str]:
    """What is to be said of each input that a plan has a sum read quantized, where the engine gains nothing.

    Args:
        built: the result.
        engine: what the compiler made of it.
    """
    asked = built.draft.plan.asked
    if not asked or engine.status != "compiled" or engine.unread:
        return []
    model = built.written.model
    kernels = kernels_of(engine.layers, operators_of(model))
    nodes = {node.name: node for node in model.nodes}
    pairs = built.draft.plan.pairs
    alone = {(e.node, e.input) for pair in pairs if len(pair.readers) == 1 for e in pair.readers}
    return [
        noted("sum-in-plan", node=name, input=index, how=said)
        for name, inputs in asked.items()
        if name in nodes
        for index in inputs
        for said in _said(nodes[name], index, kernels, alone=(name, index) in alone)
    ]


def _said(node: Node, index: int, kernels: Sequence[Kernel], *, alone: bool) -> Iterator[str]:
    """What is to be said of an input of a sum; nothing where a kernel of the sum reads its codes.

    Args:
        node: the sum.
        index: the input.
        kernels: the engine's.
        alone: whether nothing else reads the pair.
    """
    tensor = node.inputs[index]
    pair = None if tensor is None else pair_of(tensor)
    quantizer = None if pair is None else pair.quantizer
    own = [kernel for kernel in kernels if node.name in kernel.nodes]
    if quantizer is None or not own:
        return
    if any(quantizer.name in kernel.nodes for kernel in own):
        read = ", ".join(sorted({tensor.dtype for kernel in own for tensor in kernel.inputs}))
        yield noted("sum-in-engine.rounds", types=read)
    elif not any(tensor.dtype in CODES for kernel in own for tensor in kernel.inputs):
        yield noted("sum-in-engine.float")
    elif alone:
        for kernel in kernels:
            if quantizer.name in kernel.nodes and kernel.is_conversion and kernel.inputs:
                yield noted("sum-in-engine.quantizes", size=size(kernel.moved))


def method_named(method: str, choice: MethodChosen | None, ranges: Mapping[str, Range]) -> str:
    """What found the ranges: a method, or where no tensor uses it, what states or fixes them all.

    Args:
        method: the method where the outputs did not choose one.
        choice: what they chose, or None.
        ranges: the range of each measured tensor.
    """
    reasons = {entry.because for entry in ranges.values()}
    if reasons and not any(code_of(why) in ("method", "zeros", "chosen") for why in reasons):
        return reasons.pop() if len(reasons) == 1 else "stated or fixed"
    if choice is None:
        return method
    return f"{'search' if method.startswith('percentile') else 'auto'}: {choice.method}"


def alike(stats: Stats, ranges: Mapping[str, Range]) -> Iterator[str]:
    """What makes ranges doubtful: values that are all the same."""
    for name in ranges:
        entry = stats.tensors.get(name)
        if entry is not None and entry.amax == 0:
            yield noted("zero-tensor", tensor=name)
        elif entry is not None and entry.min == entry.max:
            yield noted("constant-tensor", tensor=name, value=entry.min)


_BINS = 64


def drawn(entry: TensorStats) -> DrawnHistogram | None:
    """The histogram of a tensor for a drawing; None where it was not counted, or all is zero."""
    top = entry.amax
    if entry.histogram is None or not 0 < top < math.inf:
        return None
    return DrawnHistogram(top, " ".join(map(str, entry.histogram.coarse(top, _BINS).tolist())))


_RANKS = 32
_WEIGHT_BINS = 32
_ROOM = 1 << 20  # weights that are taken at a time


def weight_scales(proto: onnx.ModelProto, plan: QuantPlan) -> dict[str, ScaleProfile]:
    """The scales of the weights of a written model, by weight; of those that stand in the file itself."""
    wanted = {f"{site.tensor}_scale": site for site in plan.sites if site.kind == "weight"}
    inside = {
        tensor.name: tensor
        for tensor in proto.graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    codes = {node.input[1]: node.input[0] for node in proto.graph.node if len(node.input) > 1}
    profiles = {}
    for name, site in wanted.items():
        tensor = inside.get(name)
        if tensor is None or not len(tensor.dims) or not tensor.dims[0]:
            continue
        scales = onnx.numpy_helper.to_array(tensor).astype(np.float64)
        values = np.sort(scales, axis=None)
        ranks = np.unique(np.linspace(0, len(values) - 1, _RANKS).round().astype(int))
        text = " ".join(f"{value:.4g}" for value in values[ranks])
        held = inside.get(codes.get(name, ""))
        profile = ScaleProfile(len(values), text)
        if held is not None and site.axis is not None and scales.ndim == 1:
            profile = _with_histogram(profile, onnx.numpy_helper.to_array(held), scales, site.axis)
        profiles[site.tensor] = profile
    return profiles


def _with_histogram(profile: ScaleProfile, codes: np.ndarray, scales: np.ndarray, axis: int) -> ScaleProfile:
    """With what weights hold; `codes` are symmetric, and one of `scales` is for each index of `axis`."""
    lines = by_channel(codes, axis)
    if not codes.size or len(lines) != len(scales):
        return profile
    factors = scales[:, None].astype(np.float32)
    step = max(1, _ROOM // lines.shape[1])

    def magnitudes(place: int) -> np.ndarray:
        some = slice(place, place + step)
        return np.asarray(np.abs(lines[some].astype(np.float32)) * factors[some])

    tops = np.concatenate([magnitudes(place).max(1) for place in range(0, len(lines), step)])
    widest, top = int(tops.argmax()), float(tops.max())
    if not 0 < top < math.inf:
        return profile
    counter = HistogramCounter()
    for place in range(0, len(lines), step):
        counter.add(magnitudes(place))
    own = HistogramCounter()
    own.add(np.abs(lines[widest].astype(np.float32)) * factors[widest])
    all_of_it, channel = (
        " ".join(map(str, one.histogram().coarse(top, _WEIGHT_BINS).tolist())) for one in (counter, own)
    )
    return replace(profile, drawn=DrawnHistogram(top, all_of_it), widest=widest, of_widest=channel)


_TAIL = 1e-4  # the share above a percentile of 99.99


def rows_sampled(stats: Stats) -> RowsSampled:
    """How exact histograms of sampled rows are."""
    sampled = [entry for entry in stats.tensors.values() if entry.sampling_error > 0]
    worst = max((entry.sampling_error for entry in sampled), default=0.0)
    return RowsSampled(
        len(sampled),
        min((e.counted for e in sampled if e.histogram is not None), default=0),
        worst * math.sqrt(_TAIL) / _TAIL,
        noted("tail-error"),
    )

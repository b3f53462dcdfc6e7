"""Quantization, one step after another: plan, calibrate, choose scales, insert, verify, compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.analysis.layer_errors import LayerErrors
from onnxq.analysis.reports import number
from onnxq.base.plain import extended
from onnxq.base.reason import code_of
from onnxq.calib.stats import Stats
from onnxq.calib.trt_cache import write_cache
from onnxq.data.sources import Source
from onnxq.documents.accuracy import OutputOfRun
from onnxq.documents.body import BodyPart, Int8Operators
from onnxq.documents.calibration import CalibrationPart, MethodChosen, NotCalibrated, TensorMoments, Threshold
from onnxq.documents.changes import NotTaken
from onnxq.documents.engine import EnginePart
from onnxq.documents.plan import Heads, PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import PlanReport
from onnxq.graph.outline import outline
from onnxq.graph.spans import spans
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.options.settings import AccuracyRepair, Compilation, Details, Format, Goal
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.body import Finish, Wish, body_part, bounded, entry_of, finish_of
from onnxq.pipeline.calibrated import alike, drawn, method_named, rows_sampled, weight_scales
from onnxq.pipeline.calibration import (
    STATED,
    Calibrating,
    Given,
    Prepared,
    activations,
    prepare,
)
from onnxq.pipeline.choosing import Quantized, quantized
from onnxq.pipeline.compilation import Compiled, compiled
from onnxq.pipeline.decision_ranking import MAX_FLOAT, Sensitivity, sensitivity_of
from onnxq.pipeline.deploying import Worth, deployment_parts, worths
from onnxq.pipeline.engine_part import told_beyond
from onnxq.pipeline.goals import Measurement, Pursuit, Verified
from onnxq.pipeline.heads import offered, stated
from onnxq.pipeline.job import Job
from onnxq.pipeline.layer_errors import layer_errors
from onnxq.pipeline.not_taken import beyond_compiler, refused
from onnxq.pipeline.planning import Planned, check_plan, planned
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.repairing import NO_SAMPLES, enough, repaired, stated_part, untried
from onnxq.pipeline.result import Result
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import BODY_SAMPLES, references, verify
from onnxq.quant.obey import check_shapes
from onnxq.quant.plan import QuantPlan
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.ranges import Range, Ranges
from onnxq.repair.moved import of_report
from onnxq.run.compare import OutputAccuracy, Recording
from onnxq.run.deployment import Deployment
from onnxq.run.fusions import int8_operators
from onnxq.run.ort import RunError
from onnxq.run.output_parts import OutputPart

NOT_VERIFIED = (
    "measured with Q/DQ pairs of the cache's scales, in onnxruntime; not verified: which layers {0} runs in "
    "int8, and how it fuses and rounds"
)


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known when the scales are; `seen`: the statistics before repair edited the model."""

    wish: Wish
    prepared: Prepared
    stats: Stats
    ranges: Ranges
    done: Quantized
    confirming: Recording | None
    expected: Recording | None
    repair: RepairPart | None = None
    heads: Heads | None = None
    seen: Stats | None = None
    worth: Worth = ()


class Quantization:
    """The steps from a sanitized model to the result."""

    def __init__(
        self,
        job: Job,
        options: Calibrating,
        source: Source | None,
        given: Given | None,
        format: Format,
        file: PlanFile | None = None,
        pursuit: Pursuit | None = None,
        repair: AccuracyRepair | None = None,
    ) -> None:
        """What the user gives: data, statistics, a plan, a goal, repair; and what is to be written."""
        self._pursuit = pursuit
        self._repair = repair or AccuracyRepair("none")
        self._job, self._options, self._source, self._given = job, options, source, given
        self._header = job.target.cache if format.cache or not job.target.explicit else None
        self._format = format
        self._file = file
        if file is not None:
            check_plan(file, job)
            check_shapes(file, {name: shape for name, _, shape in job.model.inputs})
            if file.shares or (source is None and given is None):
                job.state_sizes(file.sizes, file.shares)
            self._repair = _beside(file, self._repair)
            self._options = replace(options, own_methods=file.methods)

    def plan(self) -> Planned:
        """The steps up to the scales; without data and statistics, up to the plan.

        Raises:
            UserError: the data, the statistics or an argument cannot be used.
        """
        job = self._job
        sampling = self._sampling()
        if self._source is None and self._given is None:
            wish = Wish.of(job, self._format, None)
            if wish.widens:
                job.widen(io=wish.io)
            known = sampling.deployed.deployments if sampling.deployment.is_known else ()
            prepared = prepare(job, known or (Deployment(),), self._format, self._options.layers)
            notes = [*prepared.notes, *([] if known else _unknown_sizes(job))]
            report = extended(
                PlanReport,
                job.run(job.model, "plan"),
                plan=self._plan_part(prepared.plan, stated(job, prepared, self._format.heads)),
                repair=self._unrepaired(),
                calibration=NotCalibrated(measured=False, notes=tuple(notes)),
                **deployment_parts(sampling.deployments, worths(job, sampling.deployments)),
                body=body_part(Finish(wish, None), None, (), (), ()),
            )
            origin = "none yet: there was no data"
            return planned(job, prepared, {}, known, origin, report, entry_of(None, wish))
        measured = self._measured(sampling)
        prepared, done, wish = measured.prepared, measured.done, measured.wish
        finish = finish_of(job, wish, prepared, measured.stats, done, sampling)
        made = finish(done.model)
        calibration = self._report(sampling, measured, prepared, done, None)
        report = extended(
            PlanReport,
            job.run(job.model, "plan"),
            plan=self._plan_part(prepared.plan, measured.heads),
            calibration=replace(calibration, measured=True),
            **deployment_parts(sampling.deployed.deployments, measured.worth),
            repair=measured.repair,
            body=body_part(finish, made, (), (), ()),
        )
        samples = f", {measured.stats.samples} samples" if measured.stats.samples else ""
        origin = f"{calibration.method}{samples}"
        return planned(
            job, prepared, done.ranges, sampling.deployments, origin, report,
            entry_of(finish, wish), made.post_scaled,
        )  # fmt: skip

    def _sampling(self, *, chooses: bool = False, decides: bool = False) -> Sampling:
        """The samples: where there is repair, some are kept apart to choose.

        `chooses`: they are, whatever there is; `decides`: others, too, to confirm what is chosen.
        """
        count = self._source.count if self._source is not None else None
        repairs = bool(self._repair.steps) and self._job.target.explicit
        if self._repair.is_auto and count is not None and not enough(count):
            repairs = False
        decides |= self._format.heads == "auto"
        return Sampling(
            self._job, self._options, self._source, self._given,
            chooses=chooses or repairs or decides, confirms=decides,
            keeps=self._repair.repair_samples if repairs else 0,
        )  # fmt: skip

    def _unrepaired(self) -> RepairPart | None:
        """What the report says of repair where nothing is measured."""
        return untried(self._repair, NO_SAMPLES) if self._repair.steps else None

    def _plan_part(self, plan: QuantPlan, heads: Heads | None) -> PlanPart:
        return PlanPart(
            sites=tuple(plan.sites),
            own_pairs_read=tuple(plan.own),
            groups=tuple(plan.groups),
            kept_float=tuple(plan.kept_float),
            layers=tuple(plan.layers),
            together=tuple(plan.together),
            int8_share_of_eligible_macs=plan.int8_share,
            int8_share_of_all_macs=plan.int8_share_of_all,
            file=None if self._file is None else str(self._file.path),
            heads=heads,
        )

    def run(
        self,
        compilation: Compilation,
        details: Details | None = None,
        ready: Callable[[Result], object] = lambda result: None,
    ) -> Result:
        """All steps.

        Args:
            compilation: how the result is compiled.
            details: what the report has of each layer.
            ready: is given the result before the errors of its layers are measured.

        Raises:
            UserError: the data, the statistics or an argument cannot be used.
        """
        job = self._job
        job.deployments()  # refuses what does not fit before the data is read
        pursuit = self._pursuit = self._pursuit or Pursuit(Goal(), Measurement())
        sampling = self._sampling(decides=pursuit.goal.is_set)
        as_float = None if job.target.explicit else job.result(job.model.to_proto())
        measured = self._measured(sampling)
        ranges, expected = measured.ranges, measured.expected
        best = pursuit.sought(
            job, sampling, measured.wish, measured.stats, measured.prepared, measured.done,
            measured.confirming, expected,
        )  # fmt: skip
        prepared, done, finish = best.prepared, best.done, best.finish
        final = compiled(job, compilation, sampling.deployments, prepared, done, finish, best.made)
        prepared, done = replace(prepared, plan=final.plan), final.done or done
        cache = self._cache(prepared, ranges, done)
        if cache is not None and not ranges.tensors and self._file is not None:
            prepared.notes.append(
                "the calibration cache has the tensors of the plan only: without data no others are measured"
            )
        verified = best.verified
        if final.made is not best.made:  # the compiler had a say
            verified = pursuit.verified(
                job, sampling, final.quantized, final.made, expected, whole=not prepared.not_run
            )
        body = self._judged(sampling, finish, final, expected, verified, whole=not prepared.not_run)
        about_mean, goal = pursuit.part(verified)
        result = as_float or job.result(final.made.proto, final.made.model)
        result.profiles, result.cache = sampling.deployment.profiles, cache
        result.deployments = {one.name: one.profiles for one in sampling.deployments if one.name}
        engine, against = self._compiler_part(final, result.report.unsupported)
        result.report = job.finished(
            replace(
                result.report,
                plan=self._plan_part(final.plan, measured.heads),
                calibration=self._report(sampling, measured, prepared, done, cache),
                accuracy=_accuracy(job, verified),
                about_mean=about_mean,
                goal=goal,
                repair=measured.repair,
                body=body,
                outline=tuple(outline(job.model)),
                **deployment_parts(
                    sampling.deployed.deployments, measured.worth, final.verdicts, final.activation_bytes
                ),
                weight_scales=weight_scales(final.made.proto, final.plan),
                engine=engine,
                verdict=final.verdict,
                unsupported=(*result.report.unsupported, *against),
                pictures=tuple(job.sheets()),
                layer_errors=LayerErrors("the run ended before"),
            )
        )
        ready(result)
        errors = self._layer_errors(sampling, measured, final, result, details or Details())
        result.report = job.finished(replace(result.report, layer_errors=errors))
        return result

    def _compiler_part(
        self, final: Compiled, known: Sequence[NotTaken]
    ) -> tuple[EnginePart, Sequence[NotTaken]]:
        """What the compiler made of the result, and what it refuses beside what is known."""
        written, target = final.made.model, self._job.target
        beyond = beyond_compiler(written, target) if final.engine.status == "failed" else {}
        ops = {str(node.name): str(node.op) for graph in written.graphs() for node in graph.nodes}
        told = told_beyond(final.engine, beyond, target)
        return told, refused(final.engine, known, ops, beyond)

    def _layer_errors(
        self, sampling: Sampling, measured: _Measured, final: Compiled, result: Result, details: Details
    ) -> LayerErrors | None:
        """The errors by layer of the result; None where nothing of it runs, or nothing is quantized."""
        job, prepared = self._job, measured.prepared
        if not final.plan.pairs or prepared.not_run or sampling.parts is None:
            return None
        return layer_errors(job, sampling, details.layer_samples, final.made, result.report)

    def accuracy(self, asked: Asked) -> Accuracy:
        """The steps up to the scales, and then what causes the error.

        Raises:
            UserError: the data or an argument cannot be used, or there are no data.
        """
        sampling = self._sampling(chooses=True)
        return self._accuracy(sampling, self._measured(sampling), asked)

    def _accuracy(self, sampling: Sampling, measured: _Measured, asked: Asked) -> Accuracy:
        prepared, done = measured.prepared, measured.done
        accuracy = Accuracy(self._job, sampling, prepared, done, asked)
        finish = finish_of(self._job, measured.wish, prepared, measured.stats, done, sampling)
        accuracy.measure_body(finish.decision)
        return accuracy

    def sensitivity(self, top: int) -> Sensitivity:
        """The same, ranked; `top`: how many decisions are confirmed by measuring.

        Raises:
            UserError: the data or an argument cannot be used, there are no data, or nothing is quantized.
        """
        pursuit = self._pursuit
        assert pursuit is not None
        asked = pursuit.asked()
        limit = MAX_FLOAT if asked.max_float is None else asked.max_float
        sampling = self._sampling(chooses=True)
        measured = self._measured(sampling)
        accuracy = self._accuracy(sampling, measured, replace(asked, max_float=limit))
        data = self._report(sampling, measured, measured.prepared, measured.done, None)

        def verified(prepared: Prepared, done: Quantized) -> Verified:
            found = pursuit.attempt(
                self._job, sampling, measured.wish, measured.stats, prepared, done, measured.expected
            )
            return found.verified

        return sensitivity_of(self._job, accuracy, pursuit, verified, data, measured.repair, top)

    def convert(self) -> Result:
        """The model with another body, and nothing quantized.

        Raises:
            UserError: the data or the statistics cannot be used, or the model cannot have this body.
        """
        job = self._job
        sampling = Sampling(job, self._options, self._source, self._given)
        measured = self._measured(sampling, quantizes=False)
        finish = finish_of(job, measured.wish, measured.prepared, measured.stats, measured.done, sampling)
        made = finish(measured.done.model)
        accuracy = verify(job, sampling, made.proto, measured.expected, emulate=True)
        result = job.result(made.proto, made.model)
        result.report = replace(result.report, body=body_part(finish, made, (), accuracy, ()))
        return result

    def _judged(
        self,
        sampling: Sampling,
        finish: Finish,
        final: Compiled,
        expected: Recording | None,
        verified: Verified,
        *,
        whole: bool,
    ) -> BodyPart:
        """The report's part on the body of the result.

        `whole`: whether all of the model runs; of a part the ends are others in half precision.
        """
        job, made = self._job, final.made
        if made.body is None or not whole:
            body = body_part(finish, made, verified.accuracy, (), ())
            return replace(body, onnxruntime=_recognised(job, final))
        int8 = verify(job, sampling, final.quantized, expected)
        alone: Sequence[OutputAccuracy] = ()
        settled = finish.decision.settled if finish.decision is not None else None
        if settled is not None:
            proto = settled.body.model.to_proto()
            alone = verify(job, sampling, proto, expected, emulate=True, most=BODY_SAMPLES)
        body = body_part(finish, made, int8, alone, verified.accuracy)
        return replace(body, onnxruntime=_recognised(job, final))

    def _measured(self, sampling: Sampling, *, quantizes: bool = True) -> _Measured:
        """The steps up to the scales."""
        job, options, deployed = self._job, self._options, sampling.deployed
        deployments = deployed.deployments
        if self._file is not None and self._file.sizes and not deployments[0].name:
            deployments = (replace(deployments[0], usual=self._file.shapes),)
        wish = Wish.of(job, self._format, self._file)
        if wish.widens:
            job.widen(io=wish.io)
        prepared = prepare(
            job, deployments, self._format, options.layers, self._file, quantizes=quantizes,
            usual=deployed.usual,
        )  # fmt: skip
        worth = worths(job, deployed.deployments)
        if self._pursuit is not None:
            self._pursuit.begin(job, prepared)
        with job.step("calibrate"):
            ranging = Ranging(job, options, sampling, self._given, prepared, bounded(job, wish))
            stats = ranging.statistics(cache=self._header is not None)
            ranges = ranging.ranges(stats)
            unedited = prepared.reference if prepared.unedited is None else prepared.unedited
            decides = sampling.confirms and self._pursuit is not None and self._pursuit.goal.is_set
            floats, confirming, expected = references(job, options, sampling, unedited, confirms=decides)
            prepared.notes += [*sampling.notes, *sampling.deployed.not_calibrated()]
        asked = options.method != "auto" or options.search
        if self._file is not None and asked and not any(map(ranges.is_free, prepared.plan.measured)):
            prepared.notes.append(f"method {options.default} is not used: the plan states every range")
        done = quantized(job, options, sampling, prepared, ranges, floats)
        if self._file is not None and self._file.repair.is_any:
            part = stated_part(prepared)
            return _Measured(wish, prepared, stats, ranges, done, confirming, expected, part, worth=worth)
        if not quantizes:
            return _Measured(wish, prepared, stats, ranges, done, confirming, expected)
        weights = self._pursuit.goal.weigh if self._pursuit is not None else None
        found = repaired(
            job, self._repair, sampling, prepared, stats, ranges, done, floats,
            edits=self._header is None, weights=weights,
        )  # fmt: skip
        done, asked_heads = found.done, self._format.heads
        if asked_heads == "auto":
            prepared, done, heads = offered(job, sampling, prepared, done, weights)
        else:
            heads = stated(job, prepared, asked_heads)
        return _Measured(
            wish, prepared, found.stats, ranges, done, confirming, expected, found.part, heads, stats, worth
        )

    def _cache(self, prepared: Prepared, ranges: Ranges, done: Quantized) -> str | None:
        """The calibration cache of all measured activations; those of the plan with its scales."""
        if self._header is None:
            return None
        scales: dict[str, np.float32] = {}
        method = done.choice.method if done.choice is not None else self._options.default
        for name in activations(self._job, prepared):
            if name in ranges.tensors or name in ranges.stated:
                scales[name] = np.float32(prepared.plan.format.scale(ranges.of(name, method).amax))
        for group in prepared.plan.groups:
            if group.id in done.scales:
                scales.update(dict.fromkeys(group.tensors, done.scales[group.id]))
        return write_cache(scales, self._header)

    def _report(
        self, sampling: Sampling, measured: _Measured, prepared: Prepared, done: Quantized, cache: str | None
    ) -> CalibrationPart:
        stats = measured.stats
        shown, before = of_report(stats, measured.seen or stats, prepared.edits)
        given = self._given
        read = given.stats if given is not None else None
        counting = read.origin.counting if read is not None else self._options.counting
        choice = None if done.choice is None else MethodChosen.of(done.choice)
        notes = () if given is None else given.notes
        stats = self._of_plan(prepared, shown)
        tensors, ranges = stats.tensors, done.ranges
        return CalibrationPart(
            method=method_named(self._method(ranges), choice, ranges),
            choice=choice,
            samples=stats.samples,
            seed=self._options.seed if read is None else read.origin.seed,
            counting=counting,
            sampling=rows_sampled(stats) if counting == "sampled" else None,
            data=sampling.data(),
            notes=(*alike(stats, ranges), *prepared.notes, *notes),
            held_out=sampling.held_text,
            held_out_code=code_of(sampling.held_text),
            scales={
                name: float(done.scales[group.id])
                for group in prepared.plan.groups
                if group.id in done.scales
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
            not_run=dict(prepared.not_run),
            stats_file=None if given is None else str(given.path),
            missing=() if given is None else tuple(given.missing),
            cached=None if cache is None else len(cache.splitlines()) - 1,
            not_verified="" if self._job.target.explicit else NOT_VERIFIED.format(self._job.target.title),
            in_float32=self._job.in_float32,
            before={name: kind for name, kind in before.items() if name in tensors},
        )

    def _of_plan(self, prepared: Prepared, stats: Stats) -> Stats:
        """The statistics of what has a scale; those of the body are there for their ends alone."""
        wanted = {*prepared.plan.measured}
        if self._header is not None:
            wanted.update(activations(self._job, prepared))
        found = {
            name: entry
            for name, entry in stats.tensors.items()
            if name in wanted and (entry.total is not None or entry.histogram is not None)
        }
        indices = stats.indices if found or not prepared.plan.measured else stats.indices[:0]
        return replace(stats, tensors=found, indices=indices)

    def _method(self, ranges: Mapping[str, Range]) -> str:
        """The method, unless a calibration cache states every range."""
        stated = {code_of(entry.because) for entry in ranges.values()} == {STATED.code}
        return STATED if stated else str(self._options.default)


def _accuracy(job: Job, verified: Verified) -> tuple[OutputOfRun, ...]:
    """The report's part on each output, or part of one."""
    outputs = [str(tensor.name) for tensor in job.model.graph.outputs]
    wide = spans(job.model, outputs)
    parts = {part.name: part for part in job.parts_of(outputs).parts}
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


def _beside(file: PlanFile, repair: AccuracyRepair) -> AccuracyRepair:
    """The repair of a run that obeys a plan: none where it is not asked for.

    Raises:
        UserError: it is, and the plan states what repair makes of the model.
    """
    if repair.repair is None:
        return AccuracyRepair("none")
    if file.repair.is_any:
        kind, index = ("edit", 0) if file.repair.edits else ("repairs", None)
        raise file.error(
            (kind,) if index is None else (kind, index),
            "the plan states what repair makes of the model, and this run asks for repair",
            "leave --repair out, or write the plan anew with it: onnxq plan",
        )
    return repair


def _recognised(job: Job, final: Compiled) -> Int8Operators | None:
    """How many of the int8 layers onnxruntime makes int8 operators of; none of a large model."""
    proto = final.made.proto
    if not final.plan.planned or weight_bytes(proto) >= LARGE:
        return None
    try:
        found = int8_operators(proto, job.model.data_dir)
    except RunError:
        return None
    return Int8Operators(found, len(final.plan.planned))


def _unknown_sizes(job: Job) -> Iterator[str]:
    """That layers were judged without knowing how large they are."""
    dynamic = [
        spec.name for spec in job.input_specs() if not all(isinstance(d, int) for d in spec.shape or "?")
    ]
    if dynamic:
        yield (
            f"the sizes of input {dynamic[0]!r} are not known: layers count as large enough for int8; "
            "--shape, --assume or --calib tells them"
        )

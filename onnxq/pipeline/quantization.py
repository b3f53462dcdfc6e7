"""Quantization, one step after another: plan, calibrate, choose scales, insert, verify, compile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxq.analysis.reports import number, part_of
from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.base.plain import extended
from onnxq.base.reason import code_of, noted
from onnxq.calib.stats import Stats
from onnxq.calib.trt_cache import write_cache
from onnxq.data.sources import Source
from onnxq.data.split import HELD_OUT
from onnxq.documents.accuracy import OutputOfRun
from onnxq.documents.body import BodyPart, Int8Operators
from onnxq.documents.calibration import CalibrationPart, MethodChosen, NotCalibrated, TensorMoments, Threshold
from onnxq.documents.changes import NotTaken
from onnxq.documents.engine import EnginePart
from onnxq.documents.layer_errors import ENDED, LayerErrors
from onnxq.documents.plan import FormatsTried, Heads, PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import PlanReport, Report
from onnxq.formats import INT8, in_words
from onnxq.graph.outline import outline
from onnxq.graph.spans import spans
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.view import every_node
from onnxq.judge.output_parts import OutputPart
from onnxq.options.settings import AccuracyRepair, Compilation, Details, Format, Goal
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.body import body_of, body_part, bounded
from onnxq.pipeline.building import Built
from onnxq.pipeline.calibrated import alike, drawn, method_named, rows_sampled, weight_scales
from onnxq.pipeline.calibration import (
    STATED,
    Calibrating,
    Given,
    Prepared,
    activations,
    prepare,
)
from onnxq.pipeline.chosen_sums import told_of_sums
from onnxq.pipeline.decision_ranking import MAX_FLOAT, Sensitivity, sensitivity_of
from onnxq.pipeline.deploying import deployment_parts, worths
from onnxq.pipeline.engine_part import told_beyond
from onnxq.pipeline.file_pairs import SCALING, as_measured, kept_inexact
from onnxq.pipeline.gates import NOTHING, Verified
from onnxq.pipeline.goal_found import GoalFound
from onnxq.pipeline.half_samples import told_of_half, worth_asking
from onnxq.pipeline.job import Job
from onnxq.pipeline.layer_errors import layer_errors
from onnxq.pipeline.not_taken import beyond_compiler, refused
from onnxq.pipeline.planning import Planned, check_plan, planned
from onnxq.pipeline.preparation import MOST, AsTrained, preparation_seen
from onnxq.pipeline.pursuit import Measurement, Pursuit
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.result import Result
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.search import ModelSearch, searched
from onnxq.pipeline.searches import COMPILED, PLANNED, WRITTEN
from onnxq.pipeline.searches.body import BODY, decided, last_form, of_bounds
from onnxq.pipeline.searches.formats import in_formats
from onnxq.pipeline.searches.loud import stated
from onnxq.pipeline.searches.repair import enough, stated_part, untried
from onnxq.pipeline.searches.scales import with_scales
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.pipeline.verifying import BODY_SAMPLES, recorded, references, verify
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.from_file import check_body, check_shapes
from onnxq.quant.plan import QuantPlan
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.ranges import Range
from onnxq.quant.weights import WeightsStated
from onnxq.repair.moved import of_report
from onnxq.run.compare import OutputAccuracy, Recording
from onnxq.run.deployment import Deployment
from onnxq.run.fusions import int8_operators
from onnxq.run.ort import RunError
from onnxq.task.known import NO_TASK, KnownTask
from onnxq.task.meter import TaskPart


def obeying(job: Job, file: PlanFile, repair: AccuracyRepair | None, *, sizes: bool) -> Job:
    """The job that obeys a plan, before all long work.

    Args:
        job: of a model that is not sanitized yet.
        file: the plan.
        repair: what repair is asked for.
        sizes: whether the sizes of the plan count; the shares of several deployments always do.

    Raises:
        UserError: the plan is of another model, or repair is asked for and stated.
    """
    check_plan(file, job)
    check_shapes(file, {tensor.name: tensor.shape for tensor in job.model.inputs})
    _beside(file, repair or AccuracyRepair("none"))
    return job.with_sizes(file.sizes, file.shares) if file.shares or sizes else job


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
        self._compilation = Compilation()
        self._repair = repair or AccuracyRepair("none")
        self._body = body_of(job, format, file)
        self._job = job.widened(io=self._body.io) if self._body.widens else job
        self._options, self._source, self._given = options, source, given
        self._header = job.target.cache if format.cache or not job.target.explicit else None
        self._format, self._ranks = format, False
        self._file = file
        self._weights: Mapping[str, WeightsStated] = {}
        self._ranging: Ranging | None = None
        taken = job.taken
        if taken is not None and taken.adopted and taken.exact and self._repair.is_auto:
            self._repair = AccuracyRepair("none")  # nothing is lost
        if file is not None:
            self._repair = _beside(file, self._repair)
            self._options = replace(options, own_methods=file.methods)

    def plan(self) -> Planned:
        """The steps up to the scales; without data and statistics, up to the plan.

        Raises:
            UserError: the data, the statistics or an argument cannot be used.
        """
        job = self._job
        sampling = self._sampling()
        self._tell_of_pairs(sampling, None)
        if self._source is None and self._given is None:
            deployments = sampling.deployed.deployments if sampling.deployment.is_known else ()
            prepared = prepare(
                job, deployments or (Deployment(),), self._format, self._options.layers, self._body
            )
            draft, model = prepared.draft, prepared.floats.model
            notes = [*job.notes, *([] if deployments else _unknown_sizes(job))]
            taken = job.taken if job.taken is not None and job.taken.adopted else None
            wanted = set(draft.plan.measured)
            known = taken is not None and bool(wanted) and wanted <= taken.ranges(draft.plan).keys()
            report = extended(
                PlanReport,
                job.run(job.model, "plan"),
                plan=self._plan_part(
                    draft.plan, stated(model, draft.plan, self._loud), self._uncompared(draft)
                ),
                repair=self._unrepaired(),
                calibration=NotCalibrated(measured=known, notes=tuple(notes)),
                **deployment_parts(sampling.deployments, worths(model, sampling.deployments)),
                body=body_part(self._body, None, (), (), ()),
            )
            origin = noted("plan-ranges.file" if known else "plan-ranges")
            return planned(job, draft, model, deployments, origin, report, settled=False)
        request, state = self._calibrated(sampling)
        state = self._planned((*PLANNED, BODY), request, state)
        built = state.built.finished()
        draft, made = built.draft, built.written
        calibration = self._report(sampling, state, built, None)
        report = extended(
            PlanReport,
            job.run(built.floats.model, "plan"),
            plan=self._plan_part(draft.plan, state.heads, state.formats),
            calibration=replace(calibration, measured=True),
            **deployment_parts(sampling.deployments, state.worth),
            repair=state.repair,
            body=body_part(draft.body, made, (), (), ()),
        )
        samples = f", {state.stats.samples} samples" if state.stats.samples else ""
        origin = f"{calibration.method}{samples}"
        return planned(
            job, draft, built.floats.model, sampling.deployments, origin, report,
            made.post_scaled,
        )  # fmt: skip

    def _sampling(self, *, chooses: bool = False, decides: bool = False) -> Sampling:
        """The samples: where there is repair, some are kept apart to choose.

        `chooses`: they are, whatever there is; `decides`: others, too, to confirm what is chosen.
        """
        count = self._source.count if self._source is not None else None
        repairs = bool(self._repair.steps) and self._job.target.explicit
        if self._repair.is_auto and count is not None and not enough(count):
            repairs = False
        decides |= self._format.loud == "auto" or self._mixes
        confirms = decides or self._loud == "default"
        return Sampling(
            self._job, self._options, self._source, self._given,
            chooses=chooses or repairs or decides, confirms=confirms,
            keeps=self._repair.repair_samples if repairs else 0,
        )  # fmt: skip

    @property
    def _loud(self) -> str:
        """What is asked of loud layers."""
        pursued = self._pursuit is not None and self._pursuit.goal.is_set
        settled = pursued or self._ranks or self._file is not None or not self._job.target.explicit
        return self._format.loud_where(settled)

    def _unrepaired(self) -> RepairPart | None:
        """What the report says of repair where nothing is measured."""
        return untried(self._repair, noted("no-samples-to-repair")) if self._repair.steps else None

    def _planned(self, searches: Sequence[ModelSearch], request: RunRequest, state: RunState) -> RunState:
        """What searches come to; behind those of a plan alone, where several number formats are asked for."""
        if self._mixes:
            state, searches = in_formats(PLANNED, request, state), searches[len(PLANNED) :]
            deployments = request.sampling.deployed.deployments
            state = replace(state, worth=worths(state.built.floats.model, deployments))
        return searched(searches, request, state)

    def _uncompared(self, draft: Draft) -> FormatsTried | None:
        """What is said of number formats where there are no samples to compare them with."""
        why = noted("no-samples-for-formats", format=draft.plan.format_names)
        return FormatsTried(why=why) if self._mixes else None

    @property
    def _mixes(self) -> bool:
        """Whether each layer has the number format that is better for it, of several."""
        return self._file is None and len(self._job.target.formats) > 1 and len(self._format.formats) > 1

    def _plan_part(
        self, plan: QuantPlan, heads: Heads | None, formats: FormatsTried | None = None
    ) -> PlanPart:
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
            format=plan.format_names,
            formats=formats,
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
            ready: is given the result as soon as the model is final: its outputs may not be compared yet.

        Raises:
            UserError: the data, the statistics or an argument cannot be used.
        """
        job = self._job
        job.deployments()  # refuses what does not fit before the data is read
        pursuit = self._pursuit = self._pursuit or Pursuit(Goal(), Measurement())
        self._compilation = compilation
        sampling = self._sampling(decides=pursuit.goal.is_set)
        as_float = None if job.target.explicit else job.result(job.model.to_proto())
        request, state = self._calibrated(sampling)
        self._tell_of_pairs(sampling, state.references.verifying)
        state = self._planned((*PLANNED, *WRITTEN), request, state)
        if compilation.compile or pursuit.goal.is_set:
            state = self._verified(request, state)
        state = searched(COMPILED, request, state)  # the compiler has a say
        job, built, compiled, verified = state.built.job, state.built, state.compiled, state.verified
        assert compiled is not None
        draft, made = built.draft, built.written
        cache = self._cache(state, built)
        if cache is not None and not state.ranges.tensors and self._file is not None:
            job.notes.append(noted("cache-alone"))
        result = (as_float or job.result(made.proto, made.model)).deployed(sampling.deployments)
        result.cache = cache
        engine, against = self._compiler_part(state, result.report.unsupported)
        job.notes.extend(told_of_sums(built, engine))
        body = body_part(draft.body, made, (), (), () if verified is None else verified.accuracy)
        report = job.finished(
            replace(
                result.report,
                plan=self._plan_part(draft.plan, state.heads, state.formats),
                repair=state.repair,
                body=body,
                outline=tuple(outline(built.floats.model)),
                **deployment_parts(
                    sampling.deployments,
                    state.worth,
                    compiled.verdicts(built),
                    compiled.activation_bytes,
                ),
                weight_scales=weight_scales(made.proto, draft.plan),
                engine=engine,
                verdict=compiled.verdict,
                unsupported=(*result.report.unsupported, *against),
                pictures=tuple(job.sheets()),
                layer_errors=LayerErrors(ENDED),
                **self._compared(sampling, state, cache),
            )
        )
        if verified is None and state.references.verifying is not None:
            report = replace(report, notes=(*report.notes, noted("not-compared", why=ENDED)))
        result.report = report
        ready(result)  # the model is what it will be
        state = self._verified(request, state)
        assert state.verified is not None
        body = self._judged(sampling, built, state.references.verifying, state.verified)
        state = self._crossed(request, state)
        if state.verified is not verified:
            result.report = replace(result.report, **self._compared(sampling, state, cache))
        result.report = job.finished(
            self._asked_of_samples(replace(result.report, body=body), sampling, state)
        )
        job.observe("layers", None, None)
        errors = self._layer_errors(sampling, built, result, details or Details())
        result.report = job.finished(replace(result.report, layer_errors=errors))
        return result

    def _compared(self, sampling: Sampling, state: RunState, cache: str | None) -> dict[str, Any]:
        """The parts of the report that say how near the outputs are, as far as they were compared."""
        pursuit, verified, built = self._pursuit, state.verified, state.built
        assert pursuit is not None
        parts: dict[str, Any] = {"calibration": self._report(sampling, state, built, cache)}
        if verified is None:
            return parts
        parts |= {
            "accuracy": _accuracy(built, verified),
            "output_pictures": () if verified.album is None else verified.album.sheets(),
        }
        if verified.gauge is not NOTHING:
            found = state.goal or GoalFound(mismatch=pursuit.mismatch(built.job))
            parts |= {
                "about_mean": verified.gauge.about_mean,
                "task": _task_part(verified, pursuit.goal),
                "goal": found.part(pursuit, verified),
            }
        return parts

    def _tell_of_pairs(self, sampling: Sampling, file: Recording | None) -> None:
        """What adopting or dropping the file's pairs comes to, where they are kept and cost float arithmetic.

        Measured as calibrated, without what searches for more; `file`: what the file gives, None: nothing
        is measured.
        """
        job, source, told = self._job, self._source, []
        if not job.inexact:
            return
        measures = source is not None and source.count is not None and file is not None
        for pairs in ("adopt", "drop") if measures and not job.limit.is_over and not _is_large(job) else ():
            try:
                with remarks.heard(), job.step("pairs"):
                    other = job.with_pairs(pairs)
                    run = Quantization(
                        other, self._options, source, None, self._format, None, None, self._repair
                    )
                    built = run._calibrated(run._sampling(decides=sampling.confirms))[1].built
                near = verify(built.job, sampling, built.proto, file)
                told.append(as_measured(pairs, near, built.floats.model, built.draft.plan))
            except UserError as error:  # the run is for what is kept
                job.notes.append(f"--pairs {pairs} was not measured: {error}")
        job.notes.append(kept_inexact(job.inexact, told))

    def _verified(self, request: RunRequest, state: RunState) -> RunState:
        """With how near its outputs are, on samples that decided nothing."""
        if state.verified is not None:
            return state
        assert request.pursuit is not None
        verifying = state.references.verifying
        return replace(state, verified=request.pursuit.verified(request.sampling, state.built, verifying))

    def _crossed(self, request: RunRequest, state: RunState) -> RunState:
        """Likewise, on samples that fitted or chose as well: by what others fitted.

        A goal is pursued in sight of many samples: there those alone count that decided nothing.
        """
        sampling, pursuit = request.sampling, request.pursuit
        assert pursuit is not None
        parts, built = sampling.parts, state.built
        if (
            not state.crossed or pursuit.goal.is_set or parts is None or parts.used is None
            or parts.shared or built.job.limit.is_over or _is_large(built.job)
        ):  # fmt: skip
            return state
        left, crossed = max(0, HELD_OUT - (parts.held or 0)), list[tuple[Built, Sequence[int]]]()
        for patches, indices in state.crossed:
            one = replace(built.draft, patches=patches.within(built.draft.patches))
            crossed.append((Built.of(built.job, one, built.floats), indices[:left]))
            left -= len(crossed[-1][1])
        verified = pursuit.verified(sampling, built, state.references.verifying, crossed=crossed)
        return replace(state, verified=verified)

    def _asked_of_samples(self, report: Report, sampling: Sampling, state: RunState) -> Report:
        """The report, with whether more samples would help where outputs are far off and these are few."""
        job, parts, ranging = state.built.job, sampling.parts, self._ranging
        again = ranging is not None and parts is not None and parts.used is not None and not parts.shared
        if not again or self._file is not None or self._given is not None or not worth_asking(report, state):
            return report
        if job.limit.is_over or _is_large(job):
            return report
        assert ranging is not None
        try:
            told = told_of_half(job, self._options, sampling, ranging, state)
        except UserError as error:  # the run is for what is written
            told = noted("more-samples-not-measured", error=error)
        part = part_of(CalibrationPart, report.calibration)
        return replace(report, calibration=replace(part, notes=(*part.notes, told))) if told else report

    def _compiler_part(
        self, state: RunState, told: Sequence[NotTaken]
    ) -> tuple[EnginePart, Sequence[NotTaken]]:
        """What the compiler made of the result, and what it refuses beside what is known."""
        assert state.compiled is not None
        written, target = state.built.written.model, self._job.target
        part = state.compiled.part(state.built)
        beyond = beyond_compiler(written, target) if part.status == "failed" else {}
        ops = {node.name: node.op for node in every_node(written)}
        return told_beyond(part, beyond, target), refused(part, told, ops, beyond)

    def _layer_errors(
        self, sampling: Sampling, built: Built, result: Result, details: Details
    ) -> LayerErrors | None:
        """The errors by layer of the result; None where nothing of it runs, or nothing is quantized."""
        limit = built.job.limit
        if not built.draft.plan.pairs or not built.floats.whole or sampling.parts is None:
            return None
        if limit.is_over:
            return LayerErrors(f"{limit} is reached")
        return layer_errors(built.job, sampling, details.layer_samples, built.written, result.report)

    def accuracy(self, asked: Asked) -> Accuracy:
        """The steps up to the scales, and then what causes the error.

        Raises:
            UserError: the data or an argument cannot be used, or there are no data.
        """
        sampling, state = self._to_rank()
        return self._accuracy(sampling, state, asked)

    def _to_rank(self) -> tuple[Sampling, RunState]:
        """The samples and the scales of what is ranked: whatever is loud is in int8."""
        self._ranks = True
        sampling = self._sampling(chooses=True)
        self._tell_of_pairs(sampling, None)
        return sampling, self._planned(PLANNED, *self._calibrated(sampling))

    def _accuracy(self, sampling: Sampling, state: RunState, asked: Asked) -> Accuracy:
        accuracy = Accuracy(sampling, state.built, asked)
        accuracy.measure_body(decided(state.built, state.stats, sampling).draft.body.decision)
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
        sampling, state = self._to_rank()
        accuracy = self._accuracy(sampling, state, replace(asked, max_float=limit))
        data = self._report(sampling, state, state.built, None)

        def verified(built: Built) -> Verified:
            as_written = last_form(built, state.stats, sampling)
            return pursuit.verified(sampling, as_written, state.references.verifying)

        return sensitivity_of(self._job, accuracy, pursuit, verified, data, state.repair, top)

    def convert(self) -> Result:
        """The model with another body, and nothing quantized; without data by what bounds its tensors.

        Raises:
            UserError: the data or the statistics cannot be used, or the model cannot have this body.
        """
        job = self._job
        sampling = Sampling(job, self._options, self._source, self._given)
        request, state = self._calibrated(sampling, quantizes=False)
        if self._source is None and self._given is None and self._body.kind is not None:
            built, accuracy = of_bounds(state.built, state.stats, sampling)
        else:
            built = searched((BODY,), request, state).built.finished()
            accuracy = verify(
                built.job, sampling, built.written.proto, state.references.verifying, emulate=True
            )
        made = built.written
        result = job.result(made.proto, made.model).deployed(sampling.deployments)
        result.report = replace(result.report, body=body_part(built.draft.body, made, (), accuracy, ()))
        return result

    def _judged(
        self,
        sampling: Sampling,
        built: Built,
        expected: Recording | None,
        verified: Verified,
    ) -> BodyPart:
        """The report's part on the body of the result."""
        job, made, decision = built.job, built.written, built.draft.body.decision
        if not built.emulates:
            body = body_part(built.draft.body, made, verified.accuracy, (), ())
            return replace(body, onnxruntime=_recognised(built))
        int8 = verify(job, sampling, built.proto, expected)
        alone: Sequence[OutputAccuracy] = ()
        settled = decision.settled if decision is not None else None
        if decision is not None and settled is not None:
            if expected is not None and decision.refitted:
                expected = recorded(job, sampling, decision.reference(built.floats.model).to_proto())
            proto = settled.body.model.to_proto()
            alone = verify(job, sampling, proto, expected, emulate=True, most=BODY_SAMPLES)
        body = body_part(built.draft.body, made, int8, alone, verified.accuracy)
        return replace(body, onnxruntime=_recognised(built))

    def _calibrated(self, sampling: Sampling, *, quantizes: bool = True) -> tuple[RunRequest, RunState]:
        """The steps up to scales by the method: what searches are asked for, and what they start from."""
        job, options, file, deployed = self._job, self._options, self._file, sampling.deployed
        deployments = deployed.deployments
        if file is not None and file.sizes and not deployments[0].name:
            deployments = (replace(deployments[0], usual=file.shapes),)
        taken = job.taken
        prepared = prepare(
            job, deployments, self._format, options.layers, self._body, file, quantizes=quantizes,
            usual=deployed.usual,
        )  # fmt: skip
        request = RunRequest(
            options, sampling, self._repair, self._pursuit, self._loud, self._compilation, file,
            edits=self._header is None, repairs_of=prepared.steps, drafted=prepared.drafted,
            without=SCALING if taken is not None and taken.adopted and self._repair.is_auto else frozenset(),
        )  # fmt: skip
        draft, floats, self._weights = prepared.draft, prepared.floats, prepared.weights
        if file is not None:
            check_body(file, floats.model)
        worth = worths(floats.model, deployed.deployments)
        if self._pursuit is not None:
            self._pursuit.begin(job, prepared)
        request = replace(request, task=self._task(job, prepared))
        self._look_at_data(job, sampling, prepared, request.task)
        with job.step("calibrate"):
            ranging = Ranging(
                job, options, sampling, self._given, prepared, bounded(prepared),
                halved=request.task.is_rare,
            )  # fmt: skip
            stats = ranging.statistics(cache=self._header is not None)
            ranging = ranging.without(stats.without_values(prepared.measured), stats.samples)
            self._ranging = ranging
            draft, request = ranging.prepared.draft, replace(request, drafted=ranging.prepared.drafted)
            ranges = ranging.ranges(stats)
            decides = sampling.confirms and self._pursuit is not None and self._pursuit.goal.is_set
            job, expected = references(job, options, sampling, prepared.unedited, confirms=decides)
            job.notes.extend([*sampling.deployed.notes, *sampling.deployed.not_calibrated()])
        asked = options.method != "auto" or options.search
        if file is not None and asked and not any(map(ranges.is_free, draft.plan.measured)):
            job.notes.append(noted("method-not-used", method=options.default))
        built = with_scales(job, options, draft, floats, ranges)
        part = stated_part(built) if request.states_repair else None
        return request, RunState(built, ranges, stats, stats, expected, worth, repair=part)

    def _task(self, job: Job, prepared: Prepared) -> KnownTask:
        """What is known of the model's task."""
        if self._pursuit is not None and self._pursuit.bound is not None:
            return self._pursuit.bound.task
        outputs = [info.name for info in prepared.unedited.graph.output]
        return KnownTask.of(None, job.model, outputs) if outputs else NO_TASK

    def _look_at_data(self, job: Job, sampling: Sampling, prepared: Prepared, known: KnownTask) -> None:
        """Asks the float model whether its pictures are prepared as it was trained."""
        floats = prepared.unedited
        if job.glance is None or sampling.source is None or not floats.graph.output:
            return
        model, count = AsTrained.of(floats, job.model, known.layout, job.glance.norms), sampling.source.count
        with job.step("data"):
            samples = job.feeds(sampling.looking(MOST))
            job.glance.look = preparation_seen(model, job.glance.inputs, samples, count)

    def _cache(self, state: RunState, built: Built) -> str | None:
        """The calibration cache of all measured activations; those of the plan with its scales."""
        if self._header is None:
            return None
        scales: dict[str, np.float32] = {}
        ranges, choice, draft = state.ranges, state.choice, built.draft
        method = choice.method if choice is not None else self._options.default
        for name in activations(draft.plan, built.floats):
            if name in ranges.tensors or name in ranges.stated:
                scales[name] = np.float32(INT8.scale(ranges.of(name, method).amax))
        scales_of_groups = draft.scales
        for group in draft.plan.groups:
            if group.id in scales_of_groups:
                scales.update(dict.fromkeys(group.tensors, scales_of_groups[group.id]))
        return write_cache(scales, self._header)

    def _report(
        self, sampling: Sampling, state: RunState, built: Built, cache: str | None
    ) -> CalibrationPart:
        stats, choice, draft = state.stats, state.choice, built.draft
        shown, before = of_report(stats, state.measured, draft.edits)
        given = self._given
        read = given.stats if given is not None else None
        counting = read.origin.counting if read is not None else self._options.counting
        chosen = None if choice is None else MethodChosen.of(choice)
        notes = () if given is None else given.notes
        stats, verified = self._of_plan(built, shown), state.verified
        held = sampling.held_text(0 if verified is None else verified.gauge.about_mean.samples)
        tensors, ranges, scales = stats.tensors, draft.ranges, draft.scales
        return CalibrationPart(
            method=method_named(self._method(ranges), chosen, ranges),
            choice=chosen,
            samples=stats.samples,
            seed=self._options.seed if read is None else read.origin.seed,
            counting=counting,
            sampling=rows_sampled(stats) if counting == "sampled" else None,
            data=sampling.data(),
            notes=(*alike(stats, ranges), *self._job.notes, *notes),
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
            not_verified=(
                ""
                if self._job.target.explicit
                else noted("cache-not-verified", target=self._job.target.title)
            ),
            in_float32=self._job.in_float32,
            before={name: kind for name, kind in before.items() if name in tensors},
            weights=self._weights,
        )

    def _of_plan(self, built: Built, stats: Stats) -> Stats:
        """The statistics of what has a scale; those of the body are there for their ends alone."""
        plan = built.draft.plan
        wanted = {*plan.measured}
        if self._header is not None:
            wanted.update(activations(plan, built.floats))
        tensors = {
            name: entry
            for name, entry in stats.tensors.items()
            if name in wanted and (entry.total is not None or entry.histogram is not None)
        }
        indices = stats.indices if tensors or not plan.measured else stats.indices[:0]
        return replace(stats, tensors=tensors, indices=indices)

    def _method(self, ranges: Mapping[str, Range]) -> str:
        """The method, unless a calibration cache states every range."""
        stated = {code_of(entry.because) for entry in ranges.values()} == {STATED.code}
        return STATED if stated else str(self._options.default)


def _task_part(verified: Verified, goal: Goal) -> TaskPart:
    part = verified.gauge.task.part
    return part if goal.ship_from is None else replace(part, ship_from=goal.ship_from)


def _accuracy(built: Built, verified: Verified) -> tuple[OutputOfRun, ...]:
    """The report's part on each output, or part of one."""
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


def _is_large(job: Job) -> bool:
    """Whether a second model would be too much for the memory."""
    return weight_bytes(job.model.to_proto(weights=False)) >= LARGE


def _recognised(built: Built) -> Int8Operators | None:
    """How many of the int8 layers onnxruntime makes int8 operators of; none of a large model."""
    proto, plan = built.written.proto, built.draft.plan
    planned = plan.planned
    if not planned or plan.formats != (INT8,) or weight_bytes(proto) >= LARGE:
        return None
    try:
        operators = int8_operators(proto, built.floats.model.data_dir)
    except RunError:
        return None
    return Int8Operators(operators, len(planned))


def _unknown_sizes(job: Job) -> Iterator[str]:
    """That layers were judged without knowing how large they are."""
    dynamic = [
        spec.name for spec in job.input_specs() if not all(isinstance(d, int) for d in spec.shape or "?")
    ]
    if dynamic:
        yield noted("unknown-sizes", input=dynamic[0], formats=in_words(job.model.formats))

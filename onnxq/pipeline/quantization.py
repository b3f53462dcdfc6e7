"""Quantization, one step after another: plan, calibrate, choose scales, insert, verify, compile."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq import report as reporting
from onnxq.calib.stats import Stats
from onnxq.calib.trt_cache import write_cache
from onnxq.data.samples import Sample, watched
from onnxq.data.sources import Source
from onnxq.data.split import CHOOSING, HELD_OUT, Split
from onnxq.errors import Fault, UserError
from onnxq.graph.deciders import or_freeze
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.pipeline.calibration import (
    STATED,
    Calibration,
    Given,
    Prepared,
    activations,
    divide,
    measure,
    prepare,
    stated_by,
    unloadable,
)
from onnxq.pipeline.compilation import Compilation, Compiler
from onnxq.pipeline.job import Job
from onnxq.pipeline.result import Result
from onnxq.quant.choice import AUTO, SEARCH, Choice, choose
from onnxq.quant.insert import insert, set_scales
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range, Ranges, bounded, scales_of
from onnxq.quant.scale_types import unify_scale_types
from onnxq.quant.scales import scale_of
from onnxq.quant.spans import spans
from onnxq.reason import Reason, code_of
from onnxq.run import noise, ort, trt
from onnxq.run.compare import OutputAccuracy, Recording, Reference, compare_models
from onnxq.run.profiles import Profile, resolve_profiles

_OF_IMAGES = Reason("fixed", "fixed: the range of the images' values", "user")
KEPT_TO_COMPILE = Reason(
    "does-not-compile", "NVIDIA's compiler fails where it is quantized, and takes the original", "tensorrt"
)
NOT_VERIFIED = (
    "measured with Q/DQ pairs of the cache's scales, in onnxruntime; not verified: which layers {0} runs in "
    "int8, and how it fuses and rounds"
)


@dataclass(slots=True)
class Quantized:
    """A model with Q/DQ pairs, and what is known of its scales.

    Attributes:
        proto: the model.
        ranges: the range of each measured tensor.
        scales: the scale of each group of activations.
        choice: how they were chosen, where the outputs chose.
        accuracy: of each output.
    """

    proto: onnx.ModelProto
    ranges: dict[str, Range]
    scales: dict[int, np.float32]
    choice: Choice | None = None
    accuracy: list[OutputAccuracy] = field(default_factory=list)


class Quantization:
    """The steps from a sanitized model to the result."""

    def __init__(
        self, job: Job, options: Calibration, source: Source | None, given: Given | None, cache: bool
    ) -> None:
        """What the user gives: data, statistics or both; `cache`: whether a calibration cache is wanted."""
        if source is None and given is None:
            raise UserError("there is no calibration data", hint="give --calib DATA, or --stats FILE")
        self._job, self._options, self._source, self._given = job, options, source, given
        self._header = job.target.cache if cache or not job.target.explicit else None
        self._parts: Split | None = None
        self._apart = False  # whether the samples that choose are others than those that calibrate
        self._bad: set[int] = set()  # indices of samples on which the model does not run
        self._running = ""  # where the sample is from that is run

    def run(self, keep_float: Sequence[str], compilation: Compilation) -> Result:
        """All steps.

        Raises:
            UserError: the data, the statistics or an argument cannot be used.
        """
        job = self._job
        self._resolve(compilation.profiles, {})  # refuses bad ones before the data is read
        samples = self._samples()
        shapes = {name: array.shape for name, array in self._first.feeds.items()} if self._first else {}
        if self._given is not None and self._given.stats is not None:
            shapes = shapes or dict(self._given.stats.origin.shapes)
        profiles = self._resolve(compilation.profiles, shapes)
        wide = spans(job.model, (tensor.name for tensor in job.model.graph.outputs))
        as_float = None if job.target.explicit else job.result(job.model.to_proto(), {})
        prepared = prepare(job, shapes, keep_float, self._options.layers)
        with job.step("calibrate"):
            stats = self._statistics(prepared, samples)
            ranges = self._ranges(prepared, stats)
            floats, expected = self._references(prepared.reference)
        done = self._insert(prepared, ranges, floats)
        del floats
        self._verify(done, expected)
        engine = self._compile(prepared, done, expected, compilation, profiles)
        cache = self._cache(prepared, ranges, done)
        part = {
            "plan": prepared.plan.to_json(),
            "calibration": self._report(prepared, stats, done, cache),
            "accuracy": [{**entry.to_json(), "span": wide.get(entry.output)} for entry in done.accuracy],
        }
        result = as_float or job.result(done.proto, {})
        result.report.update(reporting.to_json(part))
        result.profiles, result.cache = profiles, cache
        result.report["engine"] = engine
        result.report["unsupported"] += reporting.refused(engine, result.report["unsupported"])
        job.finish(result.report)
        return result

    # -- data ----------------------------------------------------------------------------------

    def _samples(self) -> Iterator[Sample]:
        """The samples that calibrate; also keeps the first one and divides the others."""
        self._first: Sample | None = None
        if self._given is not None:
            self._given.check_model(self._job)
        if self._source is None:
            return iter(())
        self._parts, samples = divide(self._source, self._options, self._given, choose=self._options.chooses)
        self._first = next(samples, None)
        if self._first is None:
            raise UserError("there are zero samples to calibrate with", hint="check the data")
        if self._given is not None:
            self._given.check_data(self._source)
        return itertools.chain([self._first], samples)

    def _resolve(
        self, profiles: Mapping[str, Profile], usual: Mapping[str, tuple[int, ...]]
    ) -> Mapping[str, Profile]:
        """The profiles of all dynamic inputs: the user's, else the sizes of a sample."""
        sizes = {
            name: [dim if isinstance(dim, int) else -1 for dim in shape]
            for name, _, shape in self._job.model.inputs
            if shape is not None
        }
        return resolve_profiles(sizes, profiles, usual)

    # -- calibrate -----------------------------------------------------------------------------

    def _statistics(self, prepared: Prepared, samples: Iterator[Sample]) -> Stats:
        """The statistics of what the plan and the cache name: given, else measured."""
        given, plan = self._given, prepared.plan
        known = Stats({}, np.zeros(0, np.int64))
        if given is not None and given.stats is not None:
            known = given.stats.stats
        wanted = plan.measured
        if self._header is not None:
            wanted = tuple(dict.fromkeys((*wanted, *activations(self._job, prepared))))
        stated = {*self._stated(plan), *(n for n, rule in prepared.layers.items() if rule.amax is not None)}
        known.require_values([name for name in plan.measured if name not in stated])
        missing = [name for name in wanted if name not in known.tensors and name not in stated]
        if self._source is None:
            fixed = self._fixed(plan.measured)
            self._refuse([name for name in missing if name in plan.measured and name not in fixed])
            return known
        again = self._parts is not None and self._parts.used is not None  # not an iterator
        if not missing and (known.tensors or (stated and again)):
            return known
        found = self._measured(prepared, missing, samples)
        return replace(found, tensors={**known.tensors, **found.tensors}) if known.tensors else found

    def _refuse(self, missing: Sequence[str]) -> None:
        """Refuses to go on without data, if tensors are missing."""
        if missing:
            assert self._given is not None
            kind = "scale" if self._given.cache is not None else "statistics"
            raise UserError(
                f"{str(self._given.path)!r} has no {kind} of tensor {missing[0]!r} "
                f"({len(missing)} of those that the plan quantizes are missing)",
                hint="give the data as well, --calib DATA: what is missing is measured, and nothing else",
            )

    def _measured(self, prepared: Prepared, tensors: Sequence[str], samples: Iterator[Sample]) -> Stats:
        """The statistics of tensors over the samples that calibrate."""
        source, parts, first = self._source, self._parts, self._first
        assert source is not None
        assert parts is not None
        assert first is not None

        def skip(sample: Sample, error: UserError) -> None:
            self._bad.add(sample.index)
            source.skip(sample.where, str(error))

        return measure(
            self._job,
            prepared,
            tensors,
            self._options.counting,
            samples,
            first,
            parts.used,
            skip if self._options.skip_bad else None,
        )

    def _stated(self, plan: QuantPlan) -> dict[str, Range]:
        return stated_by(self._given.cache if self._given is not None else None, plan)

    def _ranges(self, prepared: Prepared, stats: Stats) -> Ranges:
        plan = prepared.plan
        fixed = self._fixed({*plan.measured, *stats.tensors})
        return Ranges(
            plan, stats.tensors, self._stated(plan), fixed, prepared.layers, self._options.parameters
        )

    def _fixed(self, tensors: Iterable[str]) -> dict[str, Range]:
        """The ranges that are known without data."""
        names = set(tensors)
        fixed = bounded(self._job.model, names)
        for image in self._data()["images"]:
            low, high = image["range"]
            if image["input"] in names:
                fixed[image["input"]] = Range(max(-low, high), _OF_IMAGES)
        return fixed

    def _references(self, reference: onnx.ModelProto) -> tuple[Reference | None, Reference | None]:
        """The float model to choose scales with, and to verify with.

        Of a large one it is what it computes, so that it is not in memory beside the quantized one.
        """
        if not reference.graph.output or self._parts is None:
            return None, None
        try:
            session = ort.load(reference, data_dir=self._job.model.data_dir)
        except ort.RunError as error:
            raise unloadable(error, self._job.model) from error
        if self._options.skip_bad:
            self._leave_out_bad(session)
        if weight_bytes(reference) < LARGE:
            return session, session
        with self._named():
            choosing = Recording(session, self._feeds(self._choosing())) if self._options.chooses else None
            return choosing, Recording(session, self._feeds(self._held_out()))

    def _leave_out_bad(self, session: ort.Session) -> None:
        """Leaves out samples on which the float model does not run, of those that choose and verify."""
        assert self._source is not None
        choosing = self._choosing() if self._options.chooses else iter(())
        for sample in self._job.feeds(itertools.chain(choosing, self._held_out())):
            try:
                session.run(sample.feeds)
            except ort.RunError as error:
                self._bad.add(sample.index)
                self._source.skip(sample.where, str(error))

    def _good(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        return (sample for sample in samples if sample.index not in self._bad)

    def _feeds(self, samples: Iterable[Sample]) -> Iterator[Mapping[str, np.ndarray]]:
        for sample in self._job.feeds(samples):
            self._running = sample.where
            yield sample.feeds

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Names the sample on which a model does not run."""
        try:
            yield
        except ort.RunError as error:
            raise UserError(
                f"the model does not run on {self._running}: {error}",
                hint=or_freeze(
                    "check the sample's sizes and values against what the model expects, or --skip-bad",
                    self._job.model.to_proto(weights=False),
                ),
            ) from error

    # -- insert and choose ---------------------------------------------------------------------

    def _insert(self, prepared: Prepared, ranges: Ranges, floats: Reference | None) -> Quantized:
        """Inserts the pairs, with the scales of the method, or with those that the outputs choose."""
        job, plan = self._job, prepared.plan
        with job.step("insert"):
            found = ranges.all(self._options.default)
            scales = scales_of(plan, found)
            names = insert(job.model, plan, scales)
            widened = unify_scale_types(job.model)
            if widened:
                more = f" and {len(widened) - 1} more" if len(widened) > 1 else ""
                prepared.notes.append(
                    f"the model's own scales of {widened[0]!r}{more} are float32 now, of the same values: "
                    "NVIDIA's compiler takes one type a layer"
                )
            done = Quantized(job.model.to_proto(handover=True), found, scales)
        free = any(ranges.is_free(name) for name in plan.measured)
        if not self._options.chooses or not names or not free:
            return done
        with job.step("choose"):
            done.choice = self._choose(done.proto, names, ranges, floats)
        done.ranges = done.choice.ranges
        done.scales = scales_of(plan, done.ranges)
        set_scales(done.proto, names, done.scales)
        return done

    def _choose(
        self, proto: onnx.ModelProto, names: Mapping[int, str], ranges: Ranges, floats: Reference | None
    ) -> Choice:
        """What the outputs choose on samples that calibration did not see."""
        default = self._options.default
        if floats is None or self._parts is None:
            return Choice(default, ranges.all(default), why="there was no data to choose with")
        part = self._job.runnable(self._job.part(proto)[0])
        known = {tensor.name for tensor in part.graph.initializer}
        settable = {group: name for group, name in names.items() if name in known}
        with _loading():
            candidate = ort.load(part, data_dir=self._job.model.data_dir, settable=list(settable.values()))

        def samples() -> Iterator[Mapping[str, np.ndarray]]:
            if isinstance(floats, Recording):
                floats.rewind()
            return self._feeds(self._watched("choose", self._choosing(), None))

        def tried(feeds: Iterable[Any], scales: Sequence[Mapping[int, np.float32]]) -> noise.Noise:
            settings = [
                {settable[g]: np.asarray(s) for g, s in one.items() if g in settable} for one in scales
            ]
            return noise.measure(floats, candidate, feeds, settings)

        methods = SEARCH if self._options.search else AUTO
        with self._named():
            choice = choose(ranges, methods, samples, tried, prior=default, refine=not self._options.search)
        if not choice.why and (self._parts.shared or not self._apart):
            choice.why = "there are too few samples to keep some apart: those that calibrated chose"
        return choice

    def _choosing(self) -> Iterator[Sample]:
        assert self._parts is not None
        apart = self._good(self._parts.choice())
        first = next(apart, None)
        self._apart = first is not None
        if first is None:
            return itertools.islice(self._good(self._parts.calibration()), CHOOSING)
        return itertools.chain([first], apart)

    # -- verify and compile --------------------------------------------------------------------

    def _held_out(self) -> Iterator[Sample]:
        assert self._parts is not None
        apart = self._good(self._parts.held_out())
        first = next(apart, None)
        if first is None:  # the model runs on none of them
            self._parts.shared = True
            apart = itertools.islice(self._good(self._parts.calibration()), HELD_OUT)
        found = apart if first is None else itertools.chain([first], apart)
        return self._watched("verify", found, self._parts.held)

    def _watched(self, step: str, samples: Iterable[Sample], total: int | None) -> Iterator[Sample]:
        """Samples; the observer is told."""
        return watched(samples, lambda done: self._job.observe(step, done, total))

    def _verify(self, done: Quantized, expected: Reference | None) -> None:
        """Compares the outputs of the quantized model with those of the float one."""
        if expected is None:
            return
        with self._job.step("verify"):
            part = self._job.runnable(self._job.part(done.proto)[0])
            with _loading():
                session = ort.load(part, data_dir=self._job.model.data_dir)
            with self._named():
                done.accuracy = compare_models(expected, session, self._feeds(self._held_out()))

    def _cache(self, prepared: Prepared, ranges: Ranges, done: Quantized) -> str | None:
        """The calibration cache of all measured activations; those of the plan with its scales."""
        if self._header is None:
            return None
        scales: dict[str, np.float32] = {}
        method = done.choice.method if done.choice is not None else self._options.default
        for name in activations(self._job, prepared):
            if name in ranges.tensors or name in ranges.stated:
                scales[name] = scale_of(ranges.of(name, method).amax)
        for group in prepared.plan.groups:
            if group.id in done.scales:
                scales.update(dict.fromkeys(group.tensors, done.scales[group.id]))
        return write_cache(scales, self._header)

    def _compile(
        self,
        prepared: Prepared,
        done: Quantized,
        expected: Reference | None,
        wanted: Compilation,
        profiles: Mapping[str, Profile],
    ) -> dict[str, Any]:
        """Compiles the result; leaves a layer in float with which it does not compile, and the original does.

        Returns:
            The report's part on the compiler.
        """
        job, planned = self._job, len(prepared.plan.planned)
        if not job.target.explicit:
            why = f"{job.target.title} is not here: it quantizes by the cache, when it builds the engine"
            return reporting.engine_not_run(why, planned)
        if not wanted.wanted:
            return reporting.engine_not_run("not asked for", planned)
        with job.step("compile"):
            if trt.installed() is None:
                return reporting.engine_part(trt.compile_engine(Path(), sm=wanted.sm), prepared.plan.planned)
            try:
                compiler = Compiler(job, wanted.sm, profiles)
                verdict = compiler.judge(done.proto, prepared.sanitized, prepared.plan)
            except (UserError, Fault) as error:  # profiles do not fit, or the compiler is not understood
                return reporting.engine_not_run(str(error), planned)
        if verdict.model is not None:
            done.proto = verdict.model
            ops = {node.name: node.op_type for node in done.proto.graph.node}
            prepared.plan = prepared.plan.without(verdict.layer, KEPT_TO_COMPILE, ops)
            if isinstance(expected, Recording):
                expected.rewind()
            self._verify(done, expected)
        return reporting.engine_part(verdict.engine, prepared.plan.planned, verdict.regression)

    # -- report --------------------------------------------------------------------------------

    def _report(self, prepared: Prepared, stats: Stats, done: Quantized, cache: str | None) -> dict[str, Any]:
        given = self._given
        read = given.stats if given is not None else None
        counting = read.origin.counting if read is not None else self._options.counting
        return reporting.calibration_part(
            reporting.CalibrationFacts(
                plan=prepared.plan,
                stats=stats,
                method=self._method(done.ranges),
                choice=done.choice.to_json() if done.choice is not None else None,
                ranges=done.ranges,
                scales=done.scales,
                counting=counting,
                seed=self._options.seed if read is None else read.origin.seed,
                data={**self._data(), **self._job.doubts()},
                held_out=self._held_text(),
                not_run=prepared.not_run,
                notes=[*prepared.notes, *(given.notes if given is not None else ())],
                missing=given.missing if given is not None else [],
                stats_file=str(given.path) if given is not None else None,
                cached=None if cache is None else len(cache.splitlines()) - 1,
                not_verified="" if self._job.target.explicit else NOT_VERIFIED.format(self._job.target.title),
                in_float32=self._job.in_float32,
            )
        )

    def _method(self, ranges: Mapping[str, Range]) -> str:
        """The method, unless a calibration cache states every range."""
        stated = {code_of(entry.because) for entry in ranges.values()} == {STATED.code}
        return STATED if stated else str(self._options.default)

    def _data(self) -> dict[str, Any]:
        """How the data were understood: now, or when the statistics were taken."""
        if self._source is not None:
            return self._source.to_json()
        read = self._given.stats if self._given is not None else None
        if read is None:
            return {"lines": [], "images": [], "notes": []}
        return {"lines": list(read.lines), "images": list(read.origin.images), "notes": []}

    def _held_text(self) -> Reason:
        if self._parts is None:
            return Reason("none", "no samples: there was no data")
        if self._parts.shared:
            return Reason("shared", "samples that calibrated: there are no others")
        return Reason("apart", "other samples")


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """Turns a failure to load the quantized model into a fault."""
    try:
        yield
    except ort.RunError as error:
        raise Fault(f"onnxruntime does not load the quantized model: {error}") from error

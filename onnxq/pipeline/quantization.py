"""Quantization, one step after another: plan, calibrate, choose scales, insert, verify, compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxq import report as reporting
from onnxq.calib.stats import Stats
from onnxq.calib.trt_cache import write_cache
from onnxq.data.sources import Source
from onnxq.errors import UserError
from onnxq.pipeline.calibration import (
    STATED,
    Calibrating,
    Given,
    Prepared,
    activations,
    prepare,
)
from onnxq.pipeline.choosing import Quantized, quantized
from onnxq.pipeline.compilation import compiled
from onnxq.pipeline.job import Job
from onnxq.pipeline.ranging import Ranging
from onnxq.pipeline.result import Result
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.verifying import references, verify
from onnxq.quant.ranges import Range, Ranges
from onnxq.quant.scales import scale_of
from onnxq.quant.spans import spans
from onnxq.reason import code_of
from onnxq.run.profiles import Profile, resolve_profiles
from onnxq.settings import Compilation

NOT_VERIFIED = (
    "measured with Q/DQ pairs of the cache's scales, in onnxruntime; not verified: which layers {0} runs in "
    "int8, and how it fuses and rounds"
)


class Quantization:
    """The steps from a sanitized model to the result."""

    def __init__(
        self, job: Job, options: Calibrating, source: Source | None, given: Given | None, cache: bool
    ) -> None:
        """What the user gives: data, statistics or both; `cache`: whether a calibration cache is wanted."""
        if source is None and given is None:
            raise UserError("there is no calibration data", hint="give --calib DATA, or --stats FILE")
        self._job, self._options, self._source, self._given = job, options, source, given
        self._header = job.target.cache if cache or not job.target.explicit else None

    def run(self, keep_float: Sequence[str], compilation: Compilation) -> Result:
        """All steps.

        Raises:
            UserError: the data, the statistics or an argument cannot be used.
        """
        job, options = self._job, self._options
        _resolved(job, compilation.profiles or {}, {})  # refuses bad ones before the data is read
        sampling = Sampling(job, options, self._source, self._given)
        profiles = _resolved(job, compilation.profiles or {}, sampling.shapes)
        wide = spans(job.model, (tensor.name for tensor in job.model.graph.outputs))
        as_float = None if job.target.explicit else job.result(job.model.to_proto(), {})
        prepared = prepare(job, sampling.shapes, keep_float, options.layers)
        with job.step("calibrate"):
            ranging = Ranging(job, options, sampling, self._given, prepared)
            stats = ranging.statistics(cache=self._header is not None)
            ranges = ranging.ranges(stats)
            floats, expected = references(job, options, sampling, prepared.reference)
        done = quantized(job, options, sampling, prepared, ranges, floats)
        del floats
        accuracy = verify(job, sampling, done.proto, expected)
        final = compiled(job, compilation, profiles, prepared, done.proto)
        if final.proto is not done.proto:
            accuracy = verify(job, sampling, final.proto, expected)
        prepared = replace(prepared, plan=final.plan)
        cache = self._cache(prepared, ranges, done)
        part = {
            "plan": final.plan.to_json(),
            "calibration": self._report(sampling, prepared, stats, done, cache),
            "accuracy": [{**entry.to_json(), "span": wide.get(entry.output)} for entry in accuracy],
        }
        result = as_float or job.result(final.proto, {}, done.model)
        result.report.update(reporting.to_json(part))
        result.profiles, result.cache = profiles, cache
        result.report["engine"] = final.engine
        result.report["unsupported"] += reporting.refused(final.engine, result.report["unsupported"])
        job.finish(result.report)
        return result

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

    def _report(
        self, sampling: Sampling, prepared: Prepared, stats: Stats, done: Quantized, cache: str | None
    ) -> dict[str, Any]:
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
                data={**sampling.to_json(), **self._job.doubts()},
                held_out=sampling.held_text,
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


def _resolved(
    job: Job, profiles: Mapping[str, Profile], usual: Mapping[str, tuple[int, ...]]
) -> Mapping[str, Profile]:
    """The profiles of all dynamic inputs: the user's, else the sizes of a sample."""
    sizes = {
        name: [dim if isinstance(dim, int) else -1 for dim in shape]
        for name, _, shape in job.model.inputs
        if shape is not None
    }
    return resolve_profiles(sizes, profiles, usual)

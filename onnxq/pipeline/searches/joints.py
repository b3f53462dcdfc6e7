"""Joint decisions that hold only where the outputs agree: they are tried on samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from onnxq.base.reason import Reason
from onnxq.judge import policies
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import Gain
from onnxq.pipeline.building import Built
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.search import ModelSearch, searched
from onnxq.pipeline.searches.scales import SCALES, methods_of, with_scales
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.quant.choice import Scales, scale_sets
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.plan import Joint, QuantPlan
from onnxq.run import noise
from onnxq.run.compare import Recording
from onnxq.run.noise import Noise

NOT_COMPARED = "what attention in int8 costs the outputs was not measured: no samples, or none that compare"

_SAMPLES = 8

InFloat = Callable[[Mapping[str, str]], QuantPlan]
"""The plan with some nodes in float, each with its reason."""

Measure = Callable[[Iterable[Any], Sequence[Candidate]], Noise]
"""Runs the model on samples with each candidate."""

Enough = Callable[[Iterable[Any], Candidate], bool]
"""Whether the outputs are near enough on samples with a candidate, whatever float would gain."""


def disagreeing(
    plan: QuantPlan,
    in_float: InFloat,
    samples: Callable[[], Iterable[Any]],
    measure: Measure,
    enough: Enough,
    others: Sequence[Scales] = (),
) -> dict[str, Reason] | None:
    """The nodes of joint decisions that cost the outputs too much, and why.

    In int8 a Softmax has one scale for all rows of all heads: where some have one great weight and others
    many small ones, the small ones are lost. How much that matters, the outputs tell. If they are near enough
    with all these decisions, or these cost no more than `JOINTS` says, all stay; else those that cost most
    are taken back, as few as that takes.

    Args:
        plan: the plan; what another rule decides for good is not tried.
        in_float: what the plan is without some.
        samples: gives samples, the same ones at each call.
        measure: runs the model.
        enough: runs it, too.
        others: scales that would be chosen from: what is best with these layers in int8 need not be best with
            them in float.

    Returns:
        They, or None where no output can be compared.
    """
    decided = {node for joint in plan.together if not joint.tried for node in joint.nodes}
    joints = [joint for joint in plan.together if joint.tried and decided.isdisjoint(joint.nodes)]

    def without(taken: Sequence[Joint], scales: Scales) -> Candidate:
        nodes = {node: joint.because for joint in taken for node in joint.nodes}
        return Candidate(float_layers=plan.readers - in_float(nodes).readers, scales=scales)

    def levels(*candidates: Candidate) -> np.ndarray:
        return measure(itertools.islice(samples(), _SAMPLES), candidates).sqnr_db()

    def near(candidate: Candidate) -> bool:
        return enough(itertools.islice(samples(), _SAMPLES), candidate)

    if not joints or near(Candidate()):
        return {}
    sets: list[Scales] = [{}, *others]
    kept, *all_freed = levels(Candidate(), *(without(joints, scales) for scales in sets))
    if np.isnan(kept):
        return None
    best, freed = sets[int(np.argmax(all_freed))], max(all_freed)

    def too_dear(level: float) -> bool:
        return bool(policies.JOINTS.refusal(Gain(level - freed)))

    if not too_dear(kept):
        return {}
    alone = levels(*(without([joint], best) for joint in joints))
    order = [joints[i] for i in np.argsort(-alone, kind="stable")]
    few, many = 0, len(order)  # so many are too few, and so many enough
    while many - few > 1:
        middle = (few + many) // 2
        candidate = without(order[:middle], best)
        if too_dear(levels(candidate)[0]) and not near(candidate):
            few = middle
        else:
            many = middle
    text = f"with such layers in int8 the outputs have {kept:.1f} dB of SQNR, in float {freed:.1f} dB"
    return {node: Reason("disagrees", text) for joint in order[:many] for node in joint.nodes}


def _tried(request: RunRequest, state: RunState) -> RunState:
    """Without the joint decisions that the outputs do not bear in int8; its scales are chosen anew."""
    built, floats, sampling = state.built, state.references.choosing, request.sampling
    job = built.job
    if floats is None or sampling.parts is None:
        return _not_compared(request, state, None)
    with job.step("choose"), job.limit, sampling.named():
        measuring, options, plan = built.copy(), request.options, built.draft.plan
        nodes = disagreeing(
            plan,
            lambda nodes: built.draft.in_float(nodes, built.floats.model).plan,
            lambda: _samples(sampling, floats),
            lambda feeds, candidates: noise.measure(
                floats, measuring, feeds, candidates, job.parts_of(floats.outputs)
            ),
            lambda feeds, candidate: _near(request, built, floats, measuring, feeds, candidate),
            scale_sets(state.ranges, methods_of(options, plan)) if options.chooses else (),
        )
    if nodes is None:
        return _not_compared(request, state, None)
    if not nodes:
        return state
    return chosen_anew(request, state, nodes)


def _near(
    request: RunRequest,
    built: Built,
    floats: Recording,
    model: MeasuringCopy,
    samples: Iterable[Mapping[str, np.ndarray]],
    candidate: Candidate,
) -> bool:
    """Whether the goal is met, or, without one, the worst part of the outputs is good in int8."""
    meter = AboutMeanMeter(built.job.parts_of(floats.outputs), 1, request.weights)
    for feeds in samples:
        taken = {name: feeds[name] for name in model.inputs}
        meter.add(floats.run(feeds), model.run_each(taken, [candidate], floats.outputs))
    found, pursuit = meter.result(), request.pursuit
    goal = None if pursuit is None else pursuit.goal.min_sqnr
    level = found.worst_output_db if goal is None else found.sqnr_about_mean_db
    return level is not None and level >= (policies.JOINTS_ENOUGH_DB if goal is None else goal)


def chosen_anew(request: RunRequest, state: RunState, why: Mapping[str, str]) -> RunState:
    """With nodes in float, each with its reason, whatever comes of it; the scales are chosen anew."""
    built = state.built
    draft = built.draft.in_float(why, built.floats.model)
    ranges = replace(state.ranges, plan=draft.plan)
    again = with_scales(built.job, request.options, draft, built.floats, ranges)
    return searched((SCALES,), request, replace(state.of(again), ranges=ranges, choice=None))


def _samples(sampling: Sampling, floats: Recording) -> Iterator[Mapping[str, np.ndarray]]:
    """What the samples that choose feed the model."""
    floats.rewind()
    return sampling.feeds(sampling.watched("choose", sampling.choosing(), None))


def _not_compared(request: RunRequest, state: RunState, why: Reason | None) -> RunState:
    """The file is tried as a whole when it is verified."""
    state.built.job.notes.append(NOT_COMPARED if why is None else f"{NOT_COMPARED}: {why}")
    return state


JOINTS = ModelSearch(
    "joints",
    lambda request, state: (
        request.file is None and any(joint.tried for joint in state.built.draft.plan.together)
    ),
    _tried,
    _not_compared,
)

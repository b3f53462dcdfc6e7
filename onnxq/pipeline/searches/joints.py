"""Joint decisions that hold only where the outputs are good: quantized attention, behind repair."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason, noted, reason
from onnxq.judge.acceptance import Gain, Levels
from onnxq.judge.policies import JOINTS_FLOOR_DB, LOUD, LOUD_PRICE_OF_ONE_DB
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.run import ModelSearch, Run, searched
from onnxq.pipeline.searches.repair import REPAIR
from onnxq.pipeline.searches.scales import SCALES, with_scales
from onnxq.quant.plan import Joint, QuantPlan

_SAMPLES = 16

Measure = Callable[[Sequence[Collection[str]]], Sequence[Levels]]
"""How near the outputs are with each set of nodes in float, on the same samples."""

Cost = Callable[[Collection[str]], float]
"""How many bytes more nodes read in float."""


def tried_of(plan: QuantPlan) -> list[Joint]:
    """The joint decisions that are to be tried; what another rule decides for good is not."""
    decided = {node for joint in plan.together if not joint.tried for node in joint.nodes}
    return [joint for joint in plan.together if joint.tried and decided.isdisjoint(joint.nodes)]


def below_floor(joints: Sequence[Joint], measure: Measure, cost: Cost) -> dict[str, Reason] | None:
    """The nodes of joint decisions that are in float, each with why, as the outputs are below the floor.

    Quantized, a Softmax has one scale for all rows of all heads: where some have one great weight and others
    many small ones, the small ones are lost. How much that matters, the outputs tell. While the worst part
    of them has what `policies.JOINTS_FLOOR_DB` says, all stay. Below it those go to float first that gain
    most a byte: as few as the floor takes, or where it is out of reach, those that gain most, as anything
    loud.

    Args:
        joints: they.
        measure: runs the model.
        cost: says what nodes in float cost.

    Returns:
        They, or None where no output can be compared.
    """
    (base,) = measure([()])
    worst = base.of_all.worst_output_db
    if worst is None:
        return None
    if worst >= JOINTS_FLOOR_DB or not joints:
        return {}
    alone = measure([joint.nodes for joint in joints])
    worth = [
        Gain.of(base, one).db / max(1.0, cost(joint.nodes)) for one, joint in zip(alone, joints, strict=True)
    ]
    order = [joints[place].nodes for place in np.argsort(np.negative(worth), kind="stable")]
    nested = [*itertools.accumulate(order, lambda more, nodes: (*more, *nodes))]
    levels = measure(nested)
    reached = [one.of_all.worst_output_db or 0.0 for one in levels]
    best = next((place for place, level in enumerate(reached) if level >= JOINTS_FLOOR_DB), None)
    if best is None:
        gains = [Gain.of(base, one) for one in levels]
        prices = [LOUD_PRICE_OF_ONE_DB * len(nodes) for nodes in nested]
        best = int(np.argmax([gain.db - price for gain, price in zip(gains, prices, strict=True)]))
        if replace(LOUD, least_db=max(LOUD.least_db, prices[best])).refusal(gains[best]):
            return {}
    elif (answers := Gain.of(base, levels[best]).answers) is not None and answers.shown < 0:
        return {}
    why = reason("disagrees", worst=worst, best=reached[best], floor=JOINTS_FLOOR_DB)
    return dict.fromkeys(nested[best], why)


def _tried(run: Run) -> Run:
    """Without the joint decisions that the outputs do not bear quantized; the rest is searched for anew."""
    built, sampling = run.built, run.sampling
    try:
        with built.job.step("choose"), built.job.limit:
            asked = Asked(weights=run.request.weights, unit="bytes", task=run.task)
            accuracy = Accuracy(sampling, built, asked)

            def measure(sets: Sequence[Collection[str]]) -> Sequence[Levels]:
                feeds = sampling.feeds(sampling.proposing())
                return accuracy.levels(sets, itertools.islice(feeds, _SAMPLES))

            why = below_floor(tried_of(built.draft.plan), measure, accuracy.costs.cost)
    except UserError:
        why = None
    if why is None:
        return _not_compared(run, None)
    return anew(run, why) if why else run


def anew(run: Run, why: Mapping[str, str]) -> Run:
    """With layers in float, each with its reason; scales and repair are searched for anew.

    What they made drowned the rest. Where the time is over, what there is stays, with these in float.
    """
    limit, before = run.built.job.limit, run.unrepaired
    if not limit.is_over:
        again = _chosen_anew(before or run, why)
        again = again if before is None else searched((REPAIR,), again)
        if not limit.is_over:
            return again
    return run.of(run.built.in_float(why))


def _chosen_anew(run: Run, why: Mapping[str, str]) -> Run:
    """With nodes in float, whatever comes of it; the scales are chosen anew."""
    built = run.built
    draft = built.draft.in_float(why, built.floats.model)
    ranges = replace(run.ranges, plan=draft.plan)
    again = with_scales(built.job, run.request.options, draft, built.floats, ranges)
    return searched((SCALES,), replace(run.of(again), ranges=ranges, choice=None))


def _not_compared(run: Run, why: Reason | None) -> Run:
    """The file is tried as a whole when it is verified."""
    run.built.job.notes.append(noted("joints-not-measured") + ("" if why is None else f": {why}"))
    return run


def _wanted(run: Run) -> bool:
    """Where no plan and no goal says what is in float."""
    pursued = run.request.pursues
    return run.request.file is None and not pursued and bool(tried_of(run.built.draft.plan))


JOINTS = ModelSearch("joints", _wanted, _tried, _not_compared)

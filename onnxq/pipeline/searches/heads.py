"""The heads: in int8, in float, or in float where samples say that int8 costs the outputs too much there."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason
from onnxq.documents.plan import Heads
from onnxq.graph.model import Model
from onnxq.judge import policies
from onnxq.judge.acceptance import Gain
from onnxq.judge.comparable import not_compared
from onnxq.noise.decisions import FloatDecision
from onnxq.noise.ranking import ranked
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.building import Built
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.search import ModelSearch
from onnxq.pipeline.state import RunRequest, RunState
from onnxq.quant.heads import eligible_heads
from onnxq.quant.plan import QuantPlan

_PRICE_DB = 50.0  # of all eligible multiply-accumulates in float: 0.5 dB for each percent
_PRICE_OF_ONE_DB = 0.1  # of each head
_SAMPLES = 16  # that rank and choose, and that confirm: at most
_MOST = 24  # heads that are tried one after another


def stated(model: Model, plan: QuantPlan, asked: str) -> Heads:
    """What is known of the heads where nothing is measured: in int8, or in float by flag.

    Args:
        model: the float model.
        plan: its plan.
        asked: `int8`, `float` or `auto`.
    """
    names = eligible_heads(model)
    left = tuple(name for name in names if name not in plan.planned) if asked == "float" else ()
    why = "not measured: there are no samples" if asked == "auto" else ""
    if not names:
        why = "int8 gains nothing for any head: they are in float, or there is none"
    return Heads(asked, names, left, share=_share(plan, left), why=why)


def offered(sampling: Sampling, built: Built, weights: Mapping[str, float] | None) -> tuple[Built, Heads]:
    """Leaves heads in float where that gains the outputs enough, measured.

    The noise model ranks them; of the first one, the first two and so on, the samples that choose say which
    gain most above their price, half a dB for each percent of the eligible multiply-accumulates that they
    take from int8. Other samples have to confirm that they gain that, and 1 dB at least.

    Args:
        sampling: gives the samples; some have to be kept apart to choose, and some to confirm.
        built: the quantized model.
        weights: what outputs weigh; None: all the same.

    Returns:
        The model, and what became of the heads. Where it cannot be measured they stay as they are.
    """
    heads = stated(built.floats.model, built.draft.plan, "auto")
    free = _free(built.draft.plan)
    names = tuple(name for name in heads.heads if name in free)
    if not names:
        return built, heads if not heads.heads else replace(heads, why="there is no head in int8")
    if sampling.parts is None:
        return built, heads
    heads = replace(heads, heads=names, why="")
    try:
        with built.job.step("heads"), built.job.limit:
            return _measured(sampling, built, weights, heads)
    except UserError as error:
        return built, replace(heads, why=f"not measured: {error}")


def _measured(
    sampling: Sampling,
    built: Built,
    weights: Mapping[str, float] | None,
    heads: Heads,
) -> tuple[Built, Heads]:
    asked = Asked(samples=_SAMPLES, weights=weights)
    accuracy = Accuracy(sampling, built, asked)
    order = _ranked(accuracy, heads.heads)
    heads = replace(heads, heads=order)
    tried = [order[:count] for count in range(min(len(order), _MOST) + 1)]
    tried += [order] if len(order) > _MOST else []
    taken = [_share(built.draft.plan, accuracy.costs.along(floats)) for floats in tried]
    prices = [
        _PRICE_DB * share + _PRICE_OF_ONE_DB * len(floats) for share, floats in zip(taken, tried, strict=True)
    ]
    levels = accuracy.sqnr_db(tried)
    best = max(range(1, len(tried)), key=lambda place: levels[place] - prices[place])
    floats, share, chosen = tried[best], taken[best], levels[best] - levels[0]
    others = itertools.islice(sampling.feeds(sampling.confirming()), _SAMPLES)
    before, after = (one.sqnr_about_mean_db for one in accuracy.about_mean([(), floats], others))
    heads = replace(heads, few=sampling.few)
    if before is None or after is None:
        return built, replace(heads, why=f"not measured: {not_compared()}")
    gain = after - before
    heads = replace(heads, gain_db=gain, chosen_gain_db=chosen)
    least = max(policies.HEADS.least_db, prices[best])
    if replace(policies.HEADS, least_db=least).refusal(Gain(min(gain, chosen))):
        why = f"with {_told(floats)} in float the outputs gain {min(gain, chosen):.1f} dB, and {least:.1f} dB"
        why += f" is the least for {share:.2%} of the eligible multiply-accumulates"
        return built, replace(heads, why=why)
    which = "samples that chose nothing" if sampling.confirmed_apart else "the samples that chose"
    text = f"a head: with {_told(floats)} in float the outputs gain {gain:.1f} dB of SQNR on {which}"
    why = Reason("heads", f"{text}, for {share:.2%} of the eligible multiply-accumulates")
    return built.in_float(dict.fromkeys(floats, why)), replace(heads, left_float=floats, share=share)


def _ranked(accuracy: Accuracy, names: Sequence[str]) -> tuple[str, ...]:
    """Heads, the one first that costs the outputs most."""
    if len(names) < 2:
        return tuple(names)
    decisions = [FloatDecision((name,)) for name in names]
    return tuple(one.nodes[0] for one in ranked(accuracy.model, decisions, accuracy.costs))


def _free(plan: QuantPlan) -> frozenset[str]:
    """The layers in int8 whose pairs are all the plan's: those of the model itself stay."""
    read = {(edge.node, edge.input) for pair in plan.pairs for edge in pair.readers}
    return frozenset(name for name in plan.planned if {(name, 0), (name, 1)} <= read)


def _share(plan: QuantPlan, nodes: Sequence[str] | frozenset[str]) -> float:
    """Which share of the eligible multiply-accumulates is that of nodes."""
    total = sum(layer.macs or 0 for layer in plan.layers if layer.eligible)
    taken = sum(layer.macs or 0 for layer in plan.layers if layer.eligible and layer.node in nodes)
    return taken / total if total else 0.0


def _told(floats: Sequence[str]) -> str:
    return "it" if len(floats) == 1 else f"the {len(floats)} that cost most"


def _offered(request: RunRequest, state: RunState) -> RunState:
    """Heads in float where that is measured to be worth it, where that is asked for."""
    built = state.built
    if request.heads != "auto":
        return replace(state, heads=stated(built.floats.model, built.draft.plan, request.heads))
    made, heads = offered(request.sampling, built, request.weights)
    return replace(state if made is built else state.of(made), heads=heads)


def _left_out(request: RunRequest, state: RunState, why: Reason) -> RunState:
    built = state.built
    heads = stated(built.floats.model, built.draft.plan, request.heads)
    if request.heads != "auto":
        return replace(state, heads=heads)
    free = _free(built.draft.plan)
    in_int8 = tuple(name for name in heads.heads if name in free)
    return replace(state, heads=replace(heads, heads=in_int8, why=f"not measured: {why}"))


HEADS = ModelSearch("heads", lambda request, state: not request.states_repair, _offered, _left_out)

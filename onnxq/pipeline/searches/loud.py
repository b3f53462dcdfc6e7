"""What is loud, heads and other layers: in float as asked, or where samples say that int8 costs too much."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.reason import Reason, noted, reason
from onnxq.base.shown import within_db
from onnxq.data.samples import Sample
from onnxq.documents.plan import GoalForeseen, Heads, LoudSource
from onnxq.graph.model import Model
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.judge import policies
from onnxq.judge.acceptance import GROUPS, LEAST_DB, Gain, Levels
from onnxq.judge.comparable import not_compared
from onnxq.judge.sqnr import limited_db
from onnxq.noise.decisions import FloatDecision
from onnxq.noise.gram import NoiseModel, noises
from onnxq.pipeline.accuracy import MOST, Accuracy, Asked
from onnxq.pipeline.building import Built
from onnxq.pipeline.run import ModelSearch, Run
from onnxq.pipeline.sampling import Sampling
from onnxq.pipeline.searches.joints import anew
from onnxq.pipeline.searches.repair import Refit, refitting
from onnxq.quant.heads import eligible_heads
from onnxq.quant.plan import QuantPlan
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.task.known import NO_TASK, KnownTask

_NAMED = 3  # loud sources, of each view


@dataclass(frozen=True, slots=True)
class _Effort:
    """How far a search goes: `auto` as far as it pays, by default only where outputs are poor.

    Attributes:
        asked: how the noise is measured.
        samples: how many samples choose and confirm, at most.
        sets: how many sets are tried, at most: each has a decision more than the one before.
        most: which share of the eligible multiply-accumulates may go to float, 0 to 1;
        most_of_bad: and where an output is bad without, for twice the price of what is beyond.
        good_db: the SQNR of the worst output from which on nothing is looked for, dB.
    """

    asked: Asked
    samples: int
    sets: int
    most: float = 1.0
    most_of_bad: float = 1.0
    good_db: float = math.inf


_EFFORTS = {
    "auto": _Effort(Asked(samples=16, most=MOST), 16, 24),
    "default": _Effort(
        Asked(samples=4, most=36, loud=policies.LOUD_SHARE),
        8,
        4,
        policies.LOUD_MOST,
        policies.LOUD_MOST_OF_BAD,
        policies.GOOD_DB,
    ),
}


def stated(model: Model, plan: QuantPlan, asked: str) -> Heads:
    """What is known of the heads where nothing is measured: in int8, or in float by flag.

    Args:
        model: the float model.
        plan: its plan.
        asked: `int8`, `float`, `auto` or `default`.
    """
    names = eligible_heads(model)
    left = tuple(name for name in names if name not in plan.planned) if asked == "float" else ()
    why = noted("loud-not-looked-for.no-samples") if asked in _EFFORTS else ""
    return Heads(asked, names, left, share=_share(plan, left), why=why)


def offered(
    sampling: Sampling,
    built: Built,
    weights: Mapping[str, float] | None,
    asked: str,
    refit: Refit | None = None,
    task: KnownTask = NO_TASK,
) -> tuple[dict[str, Reason], Heads]:
    """Which loud layers are left in float, as that gains the outputs enough, measured.

    The noise model says which layers and tensors make much of the outputs' noise. Of nested sets of them the
    samples that choose say which gains most above its price, half a dB for each percent of the eligible
    multiply-accumulates that it takes from int8. What is fitted made up for their noise: it is fitted anew to
    that set in float, and to each loud source that is named, and what they gain then is told. Other samples
    have to confirm that. An output that is lost is heard alone, too; the worst output is never to be worse.
    By default that is at most 1 % of them, or 5 % for twice the price where an output is bad (below 20 dB).

    Args:
        sampling: gives the samples.
        built: the quantized model.
        weights: what outputs weigh; None: all the same.
        asked: `auto`, or `default`: where an output is poor, and for less than 1 %.
        refit: fits the others anew to layers in float; None: nothing is fitted.
        task: what the model is for: a source whose freeing is shown to keep more answers is named, too.

    Returns:
        Why each layer is in float, and what was found. Where it cannot be measured all stays as it is.
    """
    heads = stated(built.floats.model, built.draft.plan, asked)
    if sampling.parts is None:
        return {}, heads
    heads = replace(heads, why="")
    if asked == "default" and weight_bytes(built.floats.proto) >= LARGE:
        return {}, replace(heads, why=noted("loud-not-looked-for.large"))
    try:
        with built.job.step("loud"), built.job.limit:
            return _Looking(sampling, built, weights, heads, refit, task).run()
    except UserError as error:
        return {}, replace(heads, why=f"not measured: {error}")


@dataclass(frozen=True, slots=True)
class _Loud:
    """A decision, and which part of an output's noise goes with it."""

    decision: FloatDecision
    output: str
    share: float

    @property
    def text(self) -> str:
        """The same in words."""
        several = "they together make" if len(self.decision.nodes) > 1 else "it alone makes"
        return reason("loud-share.output", several=several, share=self.share, output=self.output)


_Set = tuple[FloatDecision, ...]


class _Looking:
    """One look for what is loud."""

    def __init__(
        self,
        sampling: Sampling,
        built: Built,
        weights: Mapping[str, float] | None,
        heads: Heads,
        refit: Refit | None,
        task: KnownTask,
    ) -> None:
        self._sampling, self._built, self._heads, self._refit = sampling, built, heads, refit
        self._effort = _EFFORTS[heads.asked]
        self._asked = replace(self._effort.asked, weights=weights, task=task)
        self._accuracy = Accuracy(sampling, built, self._asked)
        self._anew: dict[tuple[str, ...], Accuracy] = {}
        self._taken: _Set = ()
        self._most = self._effort.most
        self._refused = ""

    def run(self) -> tuple[dict[str, Reason], Heads]:
        """Why each layer is in float, and what was found."""
        now = self._accuracy.levels([()])[0]
        worst = now.of_all.worst_output_db
        if worst is None:
            return {}, replace(self._heads, why=f"not measured: {not_compared()}")
        if worst >= self._effort.good_db:
            return {}, replace(self._heads, why=noted("loud-not-looked-for.good", worst=worst))
        if min(worst, now.answers_db) < policies.BAD_DB:
            self._most = self._effort.most_of_bad
            self._accuracy.asking(replace(self._asked, most=MOST, loud=0.0))  # blocks may hide a layer
        model = self._accuracy.model
        share = max(0.0, float(model.loudness().max()))
        asked = () if model.sources.parts else (policies.BAD_DB, policies.ENOUGH_FOR_ALL_DB)
        goals = tuple(map(self._foreseen, asked))  # of blocks it is not known which layer needs it
        self._heads = replace(self._heads, noise_share=share, foreseen=goals)
        for output, view in model.views().items():
            if not output or view.sqnr_db(_nodes(self._taken)) < policies.LOST_DB:
                self._look(view, output)
        self._heads = replace(self._heads, few=self._sampling.few)
        if not self._taken:
            loud = share >= policies.LOUD_SHARE or self._heads.asked == "auto"
            why = (loud and self._refused) or ("" if self._heads.loud else _spread(model, share))
            return {}, replace(self._heads, why=why)
        heads = replace(self._heads, left_float=_nodes(self._taken), share=self._share(self._taken))
        return self._reasons(model), heads

    def _foreseen(self, goal_db: float) -> GoalForeseen:
        """What a goal would take."""
        found = self._accuracy.search.cheapest(goal_db)
        return GoalForeseen(goal_db, self._accuracy.costs.share(found.floats), found.sqnr_db >= goal_db)

    def _look(self, view: NoiseModel, output: str) -> None:
        """Takes what gains enough in a view of the noise, and names what is loud in it.

        `output`: the one that is heard alone; "": all together.
        """
        nested, loud = self._nested(view), self._loud(view)
        alone = [(*self._taken, one.decision) for one in loud]
        if not nested and not loud:
            return
        before = self._taken
        sets = [before, *nested, *alone]
        base, *levels = self._levels(sets, self._sampling.proposing(), output)
        plain = [Gain.of(base, one) for one in levels]

        def gain(tried: _Set) -> Gain:
            both = (self._refitted(one, self._sampling.proposing(), output) for one in (before, tried))
            return Gain.of(*both)

        if nested:
            above = [one.db - self._price(tried) for one, tried in zip(plain, nested, strict=False)]
            best = int(np.argmax(above))
            self._judge(nested[best], gain(nested[best]) if loud else plain[best], output, anew=bool(loud))
        fresh = {one.name for one in self._heads.loud}
        for place, (one, tried, as_is) in enumerate(zip(loud, alone, plain[len(nested) :], strict=True)):
            told = _name(one.decision) in fresh or one.decision in before
            if told or (place and not _matters(as_is)):  # a fit for the loudest in any case
                continue
            gained = gain(tried)
            if _matters(gained):
                share = self._share((one.decision,))
                named = self._named(one, gained, share, one.decision in self._taken)
                self._heads = replace(self._heads, loud=(*self._heads.loud, named))

    def _levels(
        self,
        sets: Sequence[_Set],
        samples: Iterable[Sample],
        output: str,
        accuracy: Accuracy | None = None,
    ) -> list[Levels]:
        """How near the outputs are with each set on samples, or the one that is heard alone."""
        accuracy = accuracy or self._accuracy
        names = self._accuracy.model.weights
        weights = {name: float(name == output) for name in names} if output else None
        feeds = itertools.islice(self._sampling.feeds(samples), self._effort.samples)
        return accuracy.levels([_nodes(one) for one in sets], feeds, weights, GROUPS)

    def _refitted(self, tried: _Set, samples: Iterable[Sample], output: str) -> Levels:
        """The same of one set, with what is fitted to the others fitted anew: to it in float, not in int8."""
        if self._refit is None:
            return self._levels([tried], samples, output)[0]
        nodes = _nodes(tried)
        if nodes not in self._anew:
            built = self._refit(dict.fromkeys(nodes, reason("loud.tried")))
            self._anew[nodes] = Accuracy(self._sampling, built, self._asked)
        return self._levels([()], samples, output, self._anew[nodes])[0]

    def _judge(self, tried: _Set, chosen: Gain, output: str, *, anew: bool) -> None:
        """Takes a set that is worth its price where it was chosen, and where it is confirmed."""
        both = self._taken, tried
        if anew:
            before, after = (self._refitted(one, self._sampling.confirming(), "") for one in both)
        else:
            before, after = self._levels(both, self._sampling.confirming(), "")
        price = self._price(tried) - self._price(self._taken)
        least = max(policies.LOUD.least_db, price)
        gain = _gain_of(before, after, output)
        if gain is None:
            self._refused = f"not measured: {not_compared()}"
            return
        heads = replace(self._heads, gain_db=gain.nearer_db, chosen_gain_db=chosen.nearer_db)
        refused = replace(policies.LOUD, least_db=least).refusal(chosen)
        refused = refused or replace(policies.LOUD_CONFIRMED, least_db=least).refusal(gain)
        if not refused and not _bears(before, after):
            refused = reason("loud-refused.worst")
        refused = refused or self._too_many_bytes(tried)
        if not refused:
            self._taken, self._heads, self._refused = tried, heads, ""
            return
        if self._taken:  # of what is taken the gain is told
            return
        lesser = min(gain.db, chosen.db)
        if lesser < least:
            share = f"{self._share(tried):.2%} of the eligible multiply-accumulates"
            refused = reason("loud-refused.gain", lesser=lesser, least=least, share=share)
        self._refused, self._heads = f"with {_told(_nodes(tried))} in float: {refused}", heads

    def _too_many_bytes(self, tried: _Set) -> str:
        """That the engine would move more than plain float16, in words; predicted from shapes."""
        built, plain = self._built, engine_bytes(self._built.job.model, QuantPlan())
        if self._heads.asked != "default" or not plain:
            return ""
        model, why = built.floats.model, dict.fromkeys(_nodes(tried), reason("loud.tried"))
        plans = built.draft.plan, built.draft.in_float(why, model).plan
        before, after = (engine_bytes(model, plan) / plain for plan in plans)
        if after <= max(1.0, before):
            return ""
        return reason("loud-refused.bytes", after=after, before=before)

    # -- candidates ----------------------------------------------------------------------------

    def _nested(self, view: NoiseModel) -> list[_Set]:
        """Sets, each with the decision more that gains most above its price, as predicted.

        None takes more than may be taken, which is little once outputs are no longer bad. Where it was asked
        for, the first is there though it gains nothing.
        """
        nested: list[_Set] = []
        current = self._taken
        while len(nested) < self._effort.sets:
            more = [(*current, one) for one in self._accuracy.decisions if one not in current]
            more = [one for one in more if self._share(one) <= self._most]
            if not more:
                break
            now, *levels = limited_db(
                view.noises(view.sources.on_each([_nodes(one) for one in (current, *more)]))
            )
            above = [level - now - self._price(one) for level, one in zip(levels, more, strict=True)]
            if current and now >= policies.BAD_DB:  # no longer bad
                little = [self._share(one) <= self._effort.most for one in more]
                above = [one if may else -math.inf for one, may in zip(above, little, strict=True)]
            best = int(np.argmax(above))
            pays = above[best] + self._price(current) > 0 and (now < policies.GOOD_DB or not current)
            if not pays and (nested or self._heads.asked != "auto"):
                break
            current = more[best]
            nested.append(current)
        return nested

    def _loud(self, view: NoiseModel) -> list[_Loud]:
        """The decisions that a loud source goes with; of several the one that takes least from int8."""
        on = view.sources.on(_nodes(self._taken))
        loud: list[_Loud] = []
        taken: set[str] = set()
        for one in sorted(self._accuracy.decisions, key=lambda one: self._accuracy.costs.share(one.nodes)):
            removed = on & ~view.sources.on((*_nodes(self._taken), *one.nodes))
            if one.removes:
                removed &= np.array([one.removes in source.tensors for source in view.sources.entries])
            if view.share(removed, on) >= policies.LOUD_SHARE and taken.isdisjoint(one.nodes):
                taken.update(one.nodes)
                loud.append(self._heard(view, one, removed, on))
        return sorted(loud, key=lambda one: -one.share)[:_NAMED]

    def _heard(self, view: NoiseModel, one: FloatDecision, removed: np.ndarray, on: np.ndarray) -> _Loud:
        """What goes with a decision, of the output of which that is most in parts of the signal."""

        def noise(output: str) -> float:
            whole, rest = noises(view.by_output[output], np.array([on, on & ~removed]))
            return view.weights[output] * float(whole - rest)

        output = max(view.weights, key=noise)
        return _Loud(one, output, replace(view, weights={output: 1.0}).share(removed, on))

    # -- words and prices ----------------------------------------------------------------------

    @property
    def _format(self) -> str:
        return self._built.draft.plan.format_names

    def _share(self, tried: _Set) -> float:
        return _share(self._built.draft.plan, self._accuracy.costs.along(_nodes(tried)))

    def _price(self, tried: _Set) -> float:
        """What a set has to gain, dB."""
        of_each, share = policies.LOUD_PRICE_OF_ONE_DB * len(_nodes(tried)), self._share(tried)
        return policies.LOUD_PRICE_DB * (share + max(0.0, share - self._effort.most)) + of_each

    def _reasons(self, model: NoiseModel) -> dict[str, Reason]:
        """Why each layer is in float."""
        on = model.sources.on(())
        share, gain = self._share(self._taken), self._heads.gain_db
        worth = noted(
            "loud-worth.together" if len(self._taken) > 1 else "loud-worth",
            gain=gain, spread="", share=share, format=self._format, layers=len(_nodes(self._taken)),
        )  # fmt: skip
        reasons: dict[str, Reason] = {}
        for one in self._taken:
            heard = self._heard(model, one, on & ~model.sources.on(one.nodes), on)
            for name in one.nodes:
                reasons.setdefault(name, reason("loud", source=heard.text, worth=worth))
        return reasons

    def _named(self, one: _Loud, gain: Gain, share: float, left_float: bool) -> LoudSource:
        nodes, spread = one.decision.nodes, within_db(gain.interval)
        told = _told(nodes)
        worth = noted("loud-worth", gain=gain.db, spread=spread, share=share, format=self._format)
        if gain.answers is not None and gain.answers.shown > 0:
            worth = f"it {gain.answers.said}, {worth}"
        if left_float:
            why = f"{told} in float: {one.text}; {worth}"
        else:
            flags = " ".join(f"--keep-float {name!r}" for name in nodes)
            why = f"{told} in {self._format}: {one.text}; in float {worth} ({flags})"
        return LoudSource(
            _name(one.decision), nodes, one.output, one.share, gain.db, share, left_float, why, gain.interval,
            gain.answers,
        )  # fmt: skip


def _name(decision: FloatDecision) -> str:
    return decision.removes or decision.nodes[0]


def _nodes(decisions: _Set) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for one in decisions for name in one.nodes))


def _gain_of(before: Levels, after: Levels, output: str) -> Gain | None:
    """That of all outputs, or of one; None where it is not known."""
    if before.sqnr_db is None or after.sqnr_db is None:
        return None
    gain, was, now = Gain.of(before, after), before.of_all.levels, after.of_all.levels
    if not output:
        return gain
    if output not in was or output not in now:
        return None
    return replace(gain, db=now[output] - was[output], outputs_db=None)


def _matters(gain: Gain) -> bool:
    """Whether what freeing a loud source gains is worth its name: in dB, or in answers."""
    more_answers = gain.answers is not None and gain.answers.shown > 0
    return gain.db >= policies.LOUD.least_db or more_answers


def _bears(before: Levels, after: Levels) -> bool:
    """Whether the worst output is no worse."""
    was, now = before.of_all.worst_output_db, after.of_all.worst_output_db
    return was is not None and now is not None and now > was - LEAST_DB


def _spread(model: NoiseModel, most: float) -> str:
    """That nothing is loud; `most`: which part of the noise is the greatest."""
    blocks = len(model.sources.parts)
    if most < policies.LOUD_SHARE:
        return reason("spread-noise.none" if blocks else "spread-noise", parts=blocks, share=most)
    one = model.sources.entries[int(np.argmax(model.loudness()))]
    readers = sorted({edge.node for edge in one.edges})
    if one.kind == "block":
        return reason("spread-noise.parts", count=len(readers), layers=_told(readers), share=most)
    reads = "reads" if len(readers) == 1 else "read"
    return reason("spread-noise.tensor", tensor=one.name, layers=_told(readers), reads=reads, share=most)


def _share(plan: QuantPlan, nodes: Collection[str]) -> float:
    """Which share of the eligible multiply-accumulates is that of nodes."""
    total = sum(layer.macs or 0 for layer in plan.layers if layer.eligible)
    taken = sum(layer.macs or 0 for layer in plan.layers if layer.eligible and layer.node in nodes)
    return taken / total if total else 0.0


def _told(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"{nodes[0]!r}{more}"


def _offered(run: Run) -> Run:
    """What is loud in float where that is measured to be worth it; or heads as they are asked for."""
    built = run.built
    if run.request.loud not in _EFFORTS:
        return replace(run, heads=stated(built.floats.model, built.draft.plan, run.request.loud))
    with refitting(run) as refit:
        why, heads = offered(run.sampling, built, run.request.weights, run.request.loud, refit, run.task)
    if why:  # without repair the scales stay what the outputs chose
        repaired = run.unrepaired is not None
        run = anew(run, why) if repaired else run.of(built.in_float(why))
    return replace(run, heads=heads)


def _left_out(run: Run, why: Reason) -> Run:
    heads = stated(run.built.floats.model, run.built.draft.plan, run.request.loud)
    heads = replace(heads, why=f"not measured: {why}" if heads.why else "")
    return replace(run, heads=heads, unrepaired=None)


LOUD = ModelSearch("loud", lambda run: not run.request.states_repair, _offered, _left_out)

"""Which number format each layer has, where several are asked for: each alone, and a mix of them.

The model is quantized in each format alone, with all that a run searches for. What a layer makes of the noise
in each of them both noise models say; what the engine moves is predicted from shapes. So a mix is found. It
is repaired like any model, and takes the place of the better one where the outputs are nearer by its price.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.advice.worth import Worth, worth_of
from onnxq.base.errors import UserError
from onnxq.base.grouped import Joined
from onnxq.base.reason import Reason, noted, reason
from onnxq.documents.plan import FormatsTried, FormatTried
from onnxq.judge.acceptance import LEAST_DB, Gain, Levels
from onnxq.judge.comparable import not_compared
from onnxq.judge.policies import BYTES_PRICE_DB, MIXED
from onnxq.judge.sqnr import limited_db
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.building import Built
from onnxq.pipeline.run import ModelSearch, Run, searched
from onnxq.pipeline.searches.body import BODY
from onnxq.pipeline.searches.bytes import BYTES
from onnxq.pipeline.searches.compile import COMPILE
from onnxq.pipeline.searches.repair import REPAIR
from onnxq.pipeline.searches.scales import with_scales
from onnxq.quant.plan import QuantPlan
from onnxq.repair.engine_bytes import engine_bytes

_SAMPLES, _SOURCES = 8, 96  # with which the noise is measured, and how many sources are told apart
_JUDGES = 32  # samples that confirm, at most
_LEAST = 1e-6  # dB: what a layer has to promise beside others that may drown it

Unit = frozenset[str]
"""Layers that have one format, as they read one tensor, or are one kernel."""


def in_formats(searches: Sequence[ModelSearch], run: Run) -> Run:
    """The run in each number format that is asked for, and in a mix; the one that is best.

    Args:
        searches: what is searched for in each of them.
        run: what it starts from, all in the first format.
    """
    job, names = run.built.job, [*run.built.job.target.formats]
    starts = [run, *(_all_in(name, run) for name in names[1:])]
    alone = []
    for name, start in zip(names, starts, strict=True):
        _in_graph(start)
        job.observe(f"all in {name}", None, None)
        alone.append(searched(searches, start))
        if job.limit.is_over:
            break
    choosing = ModelSearch("formats", lambda *_: True, lambda _: _Choosing(starts, alone).run(), _left_out)
    found = searched((choosing,), alone[0])
    _in_graph(found)
    return found


def _left_out(run: Run, why: Reason) -> Run:
    name = run.built.draft.plan.format_names
    return replace(run, formats=FormatsTried(why=reason("one-format.not-compared", format=name, why=why)))


def _all_in(name: str, run: Run) -> Run:
    """What a run in one format starts from."""
    return _of_formats({layer.node: name for layer in run.built.draft.plan.layers}, run)


def _of_formats(formats: Mapping[str, str], run: Run) -> Run:
    """What a run starts from whose layers have these formats, by name."""
    draft, rules = run.prepared.drafted(formats)
    ranges = replace(run.ranges, plan=draft.plan, layers=rules)
    built = with_scales(run.built.job, run.request.options, draft, run.built.floats, ranges)
    return replace(run.of(built), ranges=ranges)


def _in_graph(run: Run) -> None:
    """Tells the graph the formats of the plan: rules and layers ask it."""
    plan = run.built.draft.plan
    formats = {x.node: x.format if x.quantized else plan.formats[0].name for x in plan.layers}
    for model in (run.built.job.model, run.built.floats.model):
        model.layer_formats = formats


@dataclass(frozen=True, slots=True)
class _Judged:
    """A candidate, how near it is on the samples that confirm, and what its engine moves."""

    run: Run
    levels: Levels
    bytes: float

    def gained_by(self, other: _Judged) -> float:
        """By how much another one is better, dB: less the price of what its engine moves more."""
        return Gain.of(self.levels, other.levels).db - BYTES_PRICE_DB * (other.bytes - self.bytes)

    def told(self, verdict: str, why: str) -> FormatTried:
        """What is said of it."""
        plan, of_all = self.run.built.draft.plan, self.levels.of_all
        layers = {one.name: sum(x.format == one.name for x in plan.layers) for one in plan.formats}
        return FormatTried(
            plan.format_names, layers, of_all.sqnr_about_mean_db, of_all.worst_output_db, self.bytes,
            verdict, why,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _UnitNoise:
    """What a unit makes of the outputs' noise, in parts of the signal.

    Attributes:
        gone: what goes with it, beside all others; less than nothing where it undoes some of theirs.
        most: that, or what it makes alone, where that is more: others need not undo it.
    """

    gone: float
    most: float


class _Choosing:
    """The choice between formats."""

    def __init__(self, starts: Sequence[Run], alone: Sequence[Run]) -> None:
        self._first, self._starts, self._alone = starts[0], starts, alone
        self._sampling = starts[0].sampling
        self._plain = max(1, engine_bytes(starts[0].built.job.model, QuantPlan()))

    def run(self) -> Run:
        """The best of all."""
        first, job = self._alone[0], self._alone[0].built.job
        names = [*job.target.formats]
        if len(self._alone) < len(names):
            return _left_out(first, reason("late", limit=job.limit))
        quantized = [run for run in self._alone if run.built.draft.plan.pairs]
        if len(quantized) < len(names):
            if not quantized:  # the model's own pairs say it, or there is nothing to quantize
                return first
            only = quantized[0]
            alone = reason("one-format.alone", format=only.built.draft.plan.format_names)
            return replace(only, formats=FormatsTried(why=alone))
        with job.step("formats"):
            try:
                judged = [self._judged(run) for run in self._alone]
            except UserError as error:
                return _left_out(first, Reason("not-measured", str(error)))
            if any(one.levels.sqnr_db is None for one in judged):
                return _left_out(first, Reason("not-measured", not_compared()))
            best = functools.reduce(lambda one, other: other if one.gained_by(other) > 0 else one, judged)
            other = next(one for one in judged if one is not best)
            start, why = self._mix(best.run, other.run)
        name, behind = best.run.built.draft.plan.format_names, other.told("dropped", _behind(other, best))
        if start is None:
            told = FormatsTried(
                (best.told("chosen", ""), behind), reason("one-format.no-mix", format=name, why=why)
            )
            return replace(best.run, formats=told)
        mixed = searched((REPAIR,), start)
        with job.step("formats"):
            mix = self._judged(mixed)
        refused = _refused(best, mix)
        if refused:
            tried = best.told("chosen", ""), behind, mix.told("dropped", refused)
            told = FormatsTried(tried, reason("one-format.mix-refused", format=name, why=refused))
            return replace(best.run, formats=told)
        gain = Gain.of(best.levels, mix.levels).db
        lost = best.told("dropped", reason("mix.gains", gain=gain))
        why = reason("mix", why=why, gain=gain, format=name, bytes=mix.bytes - best.bytes)
        told = FormatsTried((mix.told("chosen", ""), lost, behind), why)
        return replace(mixed, formats=told, alone=best.run, mixed_db=gain)

    def _judged(self, run: Run) -> _Judged:
        """How near a candidate is, on samples that chose nothing of it."""
        accuracy = Accuracy(
            self._sampling, run.built, Asked(weights=self._first.request.weights, task=self._first.task)
        )
        samples = self._sampling.feeds(self._sampling.confirming())
        (levels,) = accuracy.levels([()], itertools.islice(samples, _JUDGES))
        return _Judged(run, levels, self._bytes(run.built, run.built.draft.plan))

    def _bytes(self, built: Built, plan: QuantPlan) -> float:
        return engine_bytes(built.floats.model, plan) / self._plain

    # -- the mix ---------------------------------------------------------------------------------

    def _mix(self, base: Run, other: Run) -> tuple[Run | None, str]:
        """What the mix starts from that promises most, and why; None where none promises anything."""
        units = self._units()
        (noise, ours), (_, theirs) = (self._noise_of(run, units) for run in (base, other))
        before = self._bytes(self._first.built, self._plan(base, other, ()))
        quieter = {unit: theirs[place].most - ours[place].gone for place, unit in enumerate(units)}
        more: dict[Unit, float] = {}
        for unit in units:
            differs = {
                (was, now) for node in unit if (was := _runs(base, node)) != (now := _runs(other, node))
            }
            if differs and all(now == "float" for _, now in differs):
                continue  # whether it gains anything in float is another question
            if any("float" in one for one in differs):
                more[unit] = self._bytes(self._first.built, self._plan(base, other, [unit])) - before
            elif differs:  # a code is a byte in any format
                more[unit] = 0.0
        taken: list[Unit] = []
        worth = _worth(noise, 0.0)
        while left := [unit for unit in more if unit not in taken]:
            sets = [[*taken, unit] for unit in left]
            worths = [
                _worth(noise + sum(quieter[one] for one in some), sum(more[one] for one in some))
                for some in sets
            ]
            place = int(np.argmax(worths))
            if worths[place] <= worth + _LEAST:
                break
            taken, worth = sets[place], worths[place]
        promised = worth - _worth(noise, 0.0)
        if not taken or promised < LEAST_DB:
            return None, reason("mix.none")
        if len(taken) == len(more):
            return None, reason("mix.each")
        names = [node for unit in taken for node in sorted(unit)]
        name = other.built.draft.plan.format_names
        verb = "are" if len(names) > 1 else "is"
        why = reason("mix.noise", layers=_few(names), verb=verb, format=name)
        return self._start(base, other, taken), why

    def _units(self) -> list[Unit]:
        """The layers that go together, in the order of the model."""
        together = Joined[str]()
        for start in self._starts:
            plan = start.built.draft.plan
            layers = [layer.node for layer in plan.layers if layer.quantized]
            for name in layers:
                together.add(name)
            readers: dict[int, list[str]] = {}
            for site in plan.sites:
                readers.setdefault(site.group, []).extend(edge.node for edge in site.readers)
            beside = [[need.edge.node, need.beside] for need in plan.needs if need.beside]
            for nodes in (*readers.values(), *(joint.nodes for joint in plan.together), *beside):
                held = [name for name in nodes if name in layers]
                for name in held[1:]:
                    together.join(held[0], name)
        return [frozenset(names) for names in together.members().values()]

    def _noise_of(self, run: Run, units: Sequence[Unit]) -> tuple[float, list[_UnitNoise]]:
        """The outputs' noise in a candidate, and what each unit makes of it."""
        asked = Asked(samples=_SAMPLES, most=_SOURCES, weights=self._first.request.weights)
        model = Accuracy(self._sampling, run.built, asked).model
        on = model.sources.on_each([(), *units])
        whole, *rest = map(float, model.noises(on))
        alone = map(float, model.noises(on[0] & ~on[1:]))
        return whole, [
            _UnitNoise(whole - left, max(one, whole - left)) for left, one in zip(rest, alone, strict=True)
        ]

    def _formats(self, base: Run, other: Run, taken: Sequence[Unit]) -> dict[str, str]:
        """The format of each layer, with some as in the other candidate; float ones have a format, too."""
        theirs = {node for unit in taken for node in unit}
        names = [run.built.draft.plan.formats[0].name for run in (base, other)]
        return {layer.node: names[layer.node in theirs] for layer in self._first.built.draft.plan.layers}

    def _floats(self, plan: QuantPlan, base: Run, other: Run, taken: Sequence[Unit]) -> dict[str, str]:
        """The layers that the candidate leaves in float from which they are, with why."""
        theirs = {node for unit in taken for node in unit}
        why: dict[str, str] = {}
        for run, own in ((base, False), (other, True)):
            kept = {entry.node: entry.because for entry in run.built.draft.plan.kept_float}
            why |= {n: kept[n] for n in plan.planned if n in kept and (n in theirs) == own}
        return why

    def _plan(self, base: Run, other: Run, taken: Sequence[Unit]) -> QuantPlan:
        draft, _ = self._first.prepared.drafted(self._formats(base, other, taken))
        model = self._first.built.floats.model
        return draft.in_float(self._floats(draft.plan, base, other, taken), model).plan

    def _start(self, base: Run, other: Run, taken: Sequence[Unit]) -> Run:
        """What the mix starts from: the scales of each layer as the outputs chose them in its candidate."""
        start = _of_formats(self._formats(base, other, taken), self._first)
        built = start.built
        draft = built.draft.in_float(self._floats(built.draft.plan, base, other, taken), built.floats.model)
        known = {}
        for run in (base, other):
            scaled = run.unrepaired or run
            if not scaled.built.draft.edits:
                known[scaled.built.draft.plan.formats[0].name] = scaled.built.draft.ranges
        numbers = draft.plan.numbers_of_tensors
        chosen = {
            name: known.get(numbers[name].name, {}).get(name, one) for name, one in draft.ranges.items()
        }
        draft = replace(draft, ranges=chosen)
        ranges = replace(start.ranges, plan=draft.plan)
        _in_graph(start)
        made = Built.of(built.job, draft, built.floats)
        return replace(start.of(made), ranges=ranges, choice=base.choice, heads=base.heads, repair=None)


def _compiled(mix: Run) -> Run:
    """The mix, or what it took the place of, where that is better by what its engine moves, too."""
    assert mix.alone is not None
    assert mix.formats is not None
    alone = searched((BODY, COMPILE, BYTES), mix.alone)
    before, after = (_moved(one) for one in (alone, mix))
    (now, was, *others), name = mix.formats.tried, alone.built.draft.plan.format_names
    if before is None or after is None or mix.mixed_db > BYTES_PRICE_DB * (after.ratio - before.ratio):
        return mix
    moves = {"after": after.ratio, "before": before.ratio}
    dropped = replace(now, verdict="dropped", why=noted("mix-undone.mix", gain=mix.mixed_db, **moves))
    _in_graph(alone)
    tried = replace(was, verdict="chosen", why=""), *others, dropped
    return replace(alone, formats=FormatsTried(tried, noted("mix-undone", format=name, **moves)))


def _not_held(run: Run, why: Reason) -> Run:
    body = run.built.draft.body.noting(noted("no-mix-by-engine", why=why))
    return replace(run, built=run.built.with_body(body))


def _moved(run: Run) -> Worth | None:
    return None if run.compiled is None else worth_of(run.compiled.verdict)


def _is_mixed(run: Run) -> bool:
    """Whether a mix was taken, and compiled, and nothing was left in float for a goal since."""
    pursued = run.request.pursues
    return run.alone is not None and not pursued and _moved(run) is not None


MIX = ModelSearch("mix", _is_mixed, _compiled, _not_held)
"""Whether what the engine moves bears out a mix."""


def _runs(run: Run, node: str) -> str:
    """What a layer runs in."""
    return next((layer.format for layer in run.built.draft.plan.layers if layer.node == node), "float")


def _worth(noise: float, more: float) -> float:
    """In dB: a noise, less the price of more bytes."""
    return float(limited_db(max(noise, 0.0))) - BYTES_PRICE_DB * more


def _behind(other: _Judged, best: _Judged) -> str:
    """Why a format alone is behind another one."""
    db = Gain.of(other.levels, best.levels).db
    return reason("mix.beside", format=best.run.built.draft.plan.format_names, gain=db, moved=best.bytes)


def _refused(best: _Judged, mix: _Judged) -> str:
    """Why a mix is not taken; "" where it is."""
    if mix.levels.sqnr_db is None:
        return not_compared()
    least = max(LEAST_DB, BYTES_PRICE_DB * (mix.bytes - best.bytes))
    return replace(MIXED, least_db=least).refusal(Gain.of(best.levels, mix.levels))


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]!r}{more}"

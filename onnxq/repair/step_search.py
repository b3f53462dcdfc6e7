"""The steps of repair, one after another: what each proposes, and whether the outputs are nearer with it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from onnxq.base.errors import cause_of
from onnxq.base.reason import reason
from onnxq.base.registry import at
from onnxq.base.time_limit import TimeIsUp, TimeLimit
from onnxq.graph.model import Model
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import Judgement, Levels, Policy, judged
from onnxq.judge.comparable import not_compared
from onnxq.judge.policies import BEST_OF_SEVERAL, BYTES_PRICE_DB, FITTED, NEAR_DB, STEP
from onnxq.options.step import Step, steps
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap, edited
from onnxq.quant.patches import Patches
from onnxq.quant.plan import Edge, QuantPlan
from onnxq.repair.allowed import apart, heads, of_even, permitted
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.repair.fit import Fitted
from onnxq.repair.found_edits import FoundEdits
from onnxq.repair.ledger import LayerSkipped, RepairStep, Verdict, taking
from onnxq.repair.statistics import Channels, followed
from onnxq.repair.turn import Proposal, Turn
from onnxq.repair.waves import Waves
from onnxq.repair.workload import Workload

_ROWS_EACH = 4  # rows for each number that is fitted: with so many a loss is likely chance


class Refused(Exception):
    """An edited float model is another one; the text says how."""


class TooDear(Exception):
    """A step may take more runs than are left; the text says how many."""


class Tools(Protocol):
    """What the steps are measured and fitted with.

    Attributes:
        waves: which samples fit, and which judge what these fit.
    """

    waves: Waves

    @property
    def runs(self) -> float:
        """How many runs of the model there were so far."""

    def heard(self, model: Model, draft: Draft, patches: Patches, wave: int) -> list[AboutMeanMeter]:
        """How near the outputs of a quantized model are, on groups of a wave's samples."""

    def nearness(self, model: Model) -> float:
        """How near an edited float model is to the one without edits, dB.

        Raises:
            Refused: it is another one.
        """

    def fit(
        self,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
        fold: int | None,
    ) -> Fitted:
        """The patches of a draft, fitted to a fold of the samples; None: to as many as there are."""

    def values(self, model: Model, tensor: str) -> Iterable[np.ndarray]:
        """What a tensor near the inputs of a float model holds, for the samples that fit."""

    def channels(self) -> Channels:
        """The greatest magnitude of each channel, in the model without edits."""

    def shares(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        """How much of the outputs' noise edges make alone, by name; those of next to none are left out."""

    def refined(self, state: Version) -> Mapping[str, float]:
        """Other ranges of measured tensors, with which the outputs seem nearer."""

    def begin(self, step: str) -> None:
        """Is told what is tried."""


class Crossed(NamedTuple):
    """What some samples fitted, and others that may judge it.

    Attributes:
        patches: what was fitted.
        samples: those that judge it, by number.
    """

    patches: Patches
    samples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A draft, and what was made of it.

    Attributes:
        draft: it.
        model: the edited float model.
        maps: what became of the values of its tensors.
        near_db: how near the edited float model is to the one without edits; None: it was not edited.
        fits: its patches, and how they were fitted, to the samples of each fold that has fitted so far.
        heard: how near it is, on groups of the samples of each wave that has judged so far.
        said: the same as levels, by how many waves they are of.
    """

    draft: Draft
    model: Model
    maps: Mapping[str, ChannelMap]
    near_db: float | None = None
    fits: dict[int, Fitted] = field(default_factory=dict)
    heard: list[list[AboutMeanMeter]] = field(default_factory=list)
    said: dict[int, Levels] = field(default_factory=dict)

    @property
    def fitted(self) -> Fitted:
        """What the first fold fitted."""
        return self.fits[0]

    def crossed(self, waves: Waves) -> list[Crossed]:
        """What each fold fitted, and the samples that judge that; of folds that have fitted so far."""
        judging = {fold: [one.places for one in waves.waves if one.fold == fold] for fold in self.fits}
        return [
            Crossed(self.fits[fold].patches, tuple(sorted(place for some in each for place in some)))
            for fold, each in judging.items()
        ]

    def levels(self, waves: int | None = None) -> Levels:
        """How near it is, on the samples of the first waves; None: of all that have judged so far."""
        heard = self.heard[:waves]
        if len(heard) not in self.said:  # outputs may be large
            groups = zip(*heard, strict=True)
            self.said[len(heard)] = Levels.of([one.joined(others) for one, *others in groups])
        return self.said[len(heard)]


def is_there(step: Step, model: Model, draft: Draft) -> bool:
    """Whether a step has something to do, as far as looking at the model tells.

    Args:
        step: it.
        model: with the draft's edits.
        draft: what it would begin with.
    """
    try:
        return step.there is None or bool(at(step.there)(model, draft))
    except Exception:  # of the step alone: its turn says so
        return True


class StepSearch:
    """The way from the quantized model as it is to the repaired one.

    Attributes:
        ledger: what was tried.
        started: the version without steps, once it runs.
    """

    def __init__(
        self,
        model: Model,
        draft: Draft,
        tools: Tools,
        names: Sequence[str],
        effort: Workload,
        allowed: Mapping[str, Sequence[str]] | None = None,
        limit: TimeLimit | None = None,
        most_bytes: float = math.inf,
    ) -> None:
        """Nothing is run yet.

        Args:
            model: the float model without edits.
            draft: what it starts from.
            tools: what measures and fits.
            names: those of the steps that are tried.
            effort: what they may take.
            allowed: the steps that may change a layer, by node; others may have all.
            limit: when its time is up, the steps that are left are not tried; None: there is no limit.
            most_bytes: what the engine may move with what a step changes, predicted, as a share of what plain
                float16 moves.
        """
        self._limit = limit or TimeLimit(None)
        self._model, self._tools, self._effort = model, tools, effort
        self._steps = [step for step in steps().values() if step.name in names]
        self._names = [step.name for step in self._steps]
        barred = {node: frozenset(steps()) - {*some} for node, some in (allowed or {}).items()}
        self._first = replace(draft, barred=barred)
        self._spent = self._told = tools.runs
        self._most_bytes = most_bytes
        self._charged = 0.0  # runs of steps that fit nothing
        self._known: Version | None = None  # a candidate that was measured before it is proposed
        self.ledger: list[RepairStep] = []
        self.started: Version | None = None

    def run(self) -> tuple[Version, Fitted]:
        """All steps; what they come to, fitted to as many samples as there are."""
        state = self._made(self._first)
        self.started = state
        levels = self._levels(state, 1)
        self._told = self._tools.runs
        if levels.sqnr_db is None:
            text = not_compared(levels.of_all.left_out)
            self.ledger += [RepairStep(step, "not-applicable", text) for step in self._names]
            return state, state.fitted
        with self._limit:
            for _, group in itertools.groupby(self._steps, lambda step: step.fits or step.name):
                steps = list(group)
                state = self._together(steps, state) or functools.reduce(self._tried, steps, state)
        return state, self._ended(state)

    def before(self, version: Version) -> float | None:
        """How near the model without steps is, on the samples that have judged a version, dB."""
        return None if self.started is None else self._levels(self.started, len(version.heard)).sqnr_db

    @property
    def spent(self) -> float:
        """How many runs it took so far."""
        return self._tools.runs - self._spent

    def _ended(self, state: Version) -> Fitted:
        """What the steps that are kept fit, now to all samples; whatever the time: it is what is written.

        Each fold has fitted it then, so that all samples can judge it by what others fitted.
        """
        folds = range(len(self._tools.waves.folds))
        if not state.draft.fitted:  # each of them would have the same
            state.fits.update(dict.fromkeys(folds, state.fitted))
            return state.fitted
        fitted = self._fit(state, None)
        for fold in folds[: 0 if self._limit.is_over else None]:
            if fold not in state.fits:
                state.fits[fold] = self._fit(state, fold)
        for place, entry in enumerate(self.ledger):
            if entry.verdict == "kept" and entry.rows:
                counts = {what: fitted.changed[what] for what in entry.changed if what in fitted.changed}
                self.ledger[place] = replace(entry, changed={**entry.changed, **counts}, rows=fitted.rows)
        return fitted

    # -- a step --------------------------------------------------------------------------------

    def _together(self, steps: Sequence[Step], state: Version) -> Version | None:
        """Steps fitted and judged once; None where they do not gain, or one of them cannot be had."""
        if not steps[1:]:
            return None
        version, proposals = state, dict[str, Proposal]()
        try:
            for step in steps:
                self._limit.check()
                proposals[step.name] = proposal = self._proposed(step, version)
                version = self._made(proposal.drafts[0], version) if proposal.drafts else version
            tried = [name for name, proposal in proposals.items() if proposal.drafts]
            decision = self._judged(None, state, version) if tried[1:] else None
        except Exception:  # its own turn says which one, and why
            return None
        if decision is None or not decision.kept:
            return None
        for step in steps:
            others = " and ".join(name for name in tried if name != step.name)
            why = reason("together-with", why=decision.why, others=others)
            self._judged_entry(step, proposals[step.name], state, version, replace(decision, why=why))
        return version

    def _proposed(self, step: Step, version: Version) -> Proposal:
        """What a step would change; without candidates where it cannot be tried."""
        self._tools.begin(step.name)
        self._known = None
        if self._unfit(step, version.draft) or not is_there(step, version.model, version.draft):
            return Proposal()
        proposal: Proposal = step.propose(_Turn(self, step, version))
        return proposal

    def _entry(
        self,
        step: Step, verdict: Verdict, why: str, before: float | None,
        skipped: Mapping[str, str] | None = None, **parts: Any,
    ) -> None:  # fmt: skip
        """Tells of a step; its runs are those since the one before it."""
        runs, self._told = round(self._tools.runs - self._told, 2), self._tools.runs
        self._charged += 0.0 if step.fits else runs
        left = tuple(LayerSkipped(*one) for one in (skipped or {}).items())
        self.ledger.append(RepairStep(step.name, verdict, why, before, runs=runs, skipped=left, **parts))

    def _judged_entry(
        self, step: Step, proposal: Proposal, state: Version, best: Version, decision: Judgement
    ) -> None:
        """Tells of a step what is said of what it proposes; or that it proposes nothing."""
        if not proposal.drafts:
            why = self._unfit(step, state.draft) or proposal.too_many_bytes or step.nothing
            verdict: Verdict = "dropped" if why == proposal.too_many_bytes else "not-applicable"
            self._entry(step, verdict, why, state.levels().sqnr_db, proposal.skipped)
            return
        why, both = decision.why, min(len(state.heard), len(best.heard))
        if step.edit and best.near_db is not None and best.draft.edits != state.draft.edits:
            why = reason("edited-near", why=why, near=best.near_db)
        self._entry(
            step,
            "kept" if decision.kept else "dropped",
            why,
            state.levels(both).sqnr_db,
            {**proposal.skipped, **best.fitted.skipped},
            after_db=best.levels(both).sqnr_db,
            worst=decision.worst,
            answers=decision.answers,
            changed={**proposal.changed, **best.fitted.changed},
            rows=best.fitted.rows,
            more_bytes=round(self._more_bytes(state, best), 4),
        )

    def _tried(self, state: Version, step: Step) -> Version:
        """A step; where it ends in a fault of ours, it is as if it had not been."""
        verdict: Verdict = "left-out"
        try:
            self._limit.check()
            proposal = self._proposed(step, state)
            best, decision = state, Judgement(False, "", 0.0)
            if proposal.drafts:
                if not step.search:  # others ask before they search
                    while (why := self._too_dear(step, len(proposal.drafts))) and proposal.drafts[1:]:
                        proposal.drafts.pop()
                    if why:
                        raise TooDear(why)
                best, decision = self._decided(step, proposal, state)
        except Refused as error:
            verdict, why = "dropped", str(error)
        except TooDear as error:
            why = str(error)
        except TimeIsUp:
            why = reason("late", limit=self._limit)
        except Exception as error:
            whose = "onnxq" if step.ours else "its file"
            verdict, why = "failed", reason("fault.of", whose=whose, cause=cause_of(error))
        else:
            self._judged_entry(step, proposal, state, best, decision)
            return best if decision.kept else state
        self._entry(step, verdict, why, state.levels().sqnr_db)
        return state

    def _decided(self, step: Step, proposal: Proposal, state: Version) -> tuple[Version, Judgement]:
        """The best of what a step proposes, and what is said of it.

        Raises:
            Refused: the float model of each candidate is another one.
        """
        best = self._best(self._each(proposal.drafts, state))
        searched = step.search > 0 or len(proposal.drafts) > 1
        decision = self._judged(step, state, best, several=searched)
        part = None if decision.kept else self._apart(step, proposal, state, best)
        return part or (best, decision)

    def _apart(
        self, step: Step, proposal: Proposal, state: Version, best: Version
    ) -> tuple[Version, Judgement] | None:
        """What is refused, without the layers of outputs that lose too much; None: that is refused, too.

        The proposal is told what is left as it is.
        """
        if self._effort.cost(step.name) > self._left(step):
            return None
        both = min(len(state.heard), len(best.heard))
        before, after = (version.levels(both).of_all.levels for version in (state, best))
        changes = {name: after[name] - level for name, level in before.items() if name in after}
        draft, skipped = apart(best.draft, state.draft, best.model, heads(best.model, changes))
        if not skipped:
            return None
        try:
            part = self._made(draft, best)
            decision = self._judged(step, state, part, several=True)
        except (Refused, TimeIsUp):
            return None
        if not decision.kept:
            return None
        proposal.skipped.update(skipped)
        if draft.edits != best.draft.edits:
            proposal.changed["tensors"] = len(draft.edits) - len(state.draft.edits)
        return part, decision

    def _judged(
        self, step: Step | None, state: Version, best: Version, *, several: bool = False
    ) -> Judgement:
        """Whether a version takes the place of another one: on the fewest samples that make it clear.

        Args:
            step: what it is of; None: several are judged together, by samples of the first fold alone.
            state: what is there.
            best: the version.
            several: it is the best of several, or found by a search.
        """
        every = self._tools.waves.waves
        more = 0.0 if math.isinf(self._most_bytes) else self._more_bytes(state, best)
        for waves in range(1, 1 + (len(every) if step else sum(wave.fold == 0 for wave in every))):
            before, after = self._levels(state, waves), self._levels(best, waves)
            policy = STEP if step is None else _policy(step, state, best, several=several)
            decision = judged(before, after, self._priced(policy, step, more))
            if decision.clear or not self._affords(step, state, best, waves):
                break
        moved = self.bytes_of(best.model, best.draft.plan) if decision.kept and more > 0 else 0.0
        if moved <= self._most_bytes:
            return decision
        why = reason(
            "moved-bytes", why=decision.why, moved=moved, before=moved - more, flag=self._taking(step)
        )
        return replace(decision, kept=False, why=why)

    def _priced(self, policy: Policy, step: Step | None, more: float) -> Policy:
        """A policy, where the engine moves so many more bytes, as a share of plain float16's."""
        if BYTES_PRICE_DB * more <= max(0.0, policy.least_db):
            return policy
        cost = reason("bytes-for-gain", bytes=more, flag=self._taking(step))
        return replace(policy, least_db=BYTES_PRICE_DB * more, cost=cost)

    def _taking(self, step: Step | None) -> str:
        """The flag with which a step is taken whatever the engine moves."""
        return "" if step is None else taking(step.name, self.ledger)

    def bytes_of(self, model: Model, plan: QuantPlan) -> float:
        """What the engine moves with an edited model and a plan, as a share of plain float16's: predicted."""
        return engine_bytes(model, plan) / max(1, self._plain)

    @functools.cached_property
    def _plain(self) -> int:
        return engine_bytes(self._model, QuantPlan())

    def _more_bytes(self, state: Version, best: Version) -> float:
        if best.draft.edits == state.draft.edits and best.draft.plan is state.draft.plan:
            return 0.0
        after, before = (self.bytes_of(one.model, one.draft.plan) for one in (best, state))
        return after - before

    def _affords(self, step: Step | None, state: Version, best: Version, wave: int) -> bool:
        """Whether runs are left for two versions to be judged by another wave."""
        waves = self._tools.waves
        if wave == len(waves.waves):
            return False
        following, cost = waves.waves[wave], 0.0
        for version in (state, best):
            cost += len(following.places) if len(version.heard) <= wave else 0
            if version.draft.fitted and following.fold not in version.fits:
                cost += self._effort.fit_of(len(waves.folds[following.fold]))
        return cost <= self._left(step)

    def _left(self, step: Step | None) -> float:
        """How many runs are left for a step; None: for fits that are tried together, which nothing bounds."""
        if step is None or step.fits or self._effort.most is None:
            return math.inf
        return self._effort.most - self._charged - (self._tools.runs - self._told)

    def _unfit(self, step: Step, draft: Draft) -> str:
        """Why a step cannot be tried at all; "" where it can."""
        if step.even and not any(one.even for one in draft.plan.formats):
            return reason("uneven", format=draft.plan.format_names)
        missing = [name for name in step.goes_with if name not in self._names]
        return reason("goes-with", steps=", ".join(missing)) if missing else ""

    def _too_dear(self, step: Step, candidates: int) -> str:
        """Why a step is left out for its effort; "" where it is not."""
        cost, left = self._effort.cost(step.name, candidates), self._left(step)
        if cost <= left or (candidates == 1 and self._effort.is_sure(step.name)):
            return ""
        return reason("too-dear", cost=cost, left=max(0.0, left), flag=taking(step.name, self.ledger))

    def _each(self, drafts: Sequence[Draft], before: Version) -> list[Version]:
        """What candidates are, without those whose float model is another one.

        Raises:
            Refused: it is of each of them.
        """
        versions: list[Version] = []
        refused = Refused()
        for draft in drafts:
            try:
                versions.append(self._made(draft, before))
            except Refused as error:
                refused = error
        if not versions:
            raise refused
        return versions

    def _best(self, states: Sequence[Version]) -> Version:
        def lost(state: Version) -> tuple[float, float]:
            loss = self._levels(state, 1).loss
            return (math.inf, math.inf) if loss is None else loss.order

        return min(states, key=lost)

    def _made(self, draft: Draft, before: Version | None = None) -> Version:
        """What a draft is: edited; fitted, and judged, when that is asked for."""
        if self._known is not None and self._known.draft is draft:
            return self._known
        if before is not None and draft.edits == before.draft.edits:
            return Version(draft, before.model, before.maps, before.near_db)
        model, maps = edited(self._model, draft.edits)
        near = self._tools.nearness(model) if draft.edits else None
        if near is not None and near < NEAR_DB:
            raise Refused(reason("edited-differs", near=near))
        return Version(draft, model, maps, near)

    def _fit(self, version: Version, fold: int | None) -> Fitted:
        """The patches of a version, fitted to a fold; None: to all samples."""
        draft = version.draft
        if not draft.fitted:
            return Fitted(draft.patches)
        return self._tools.fit(version.model, version.maps, draft, fold)

    def _levels(self, version: Version, waves: int) -> Levels:
        """How near a version is, on the samples of the first waves; those that have not judged it do so."""
        for place in range(len(version.heard), waves):
            fold = self._tools.waves.waves[place].fold
            if fold not in version.fits:
                version.fits[fold] = self._fit(version, fold)
            patches = version.fits[fold].patches
            version.heard.append(self._tools.heard(version.model, version.draft, patches, place))
        return version.levels(waves)


def _policy(step: Step, before: Version, after: Version, *, several: bool) -> Policy:
    """What is asked of a fitted version; `several`: it is the best of several, or found by a search."""
    if after.draft.fitted != before.draft.fitted and after.fitted.rows_each >= _ROWS_EACH:
        return FITTED
    policy = BEST_OF_SEVERAL if several else STEP
    return policy if step.least_db is None else replace(policy, least_db=step.least_db)


class _Turn(Turn):
    """The turn of a step.

    Attributes:
        version: what it begins with.
    """

    def __init__(self, search: StepSearch, step: Step, version: Version) -> None:
        self._search, self._step, self.version = search, step, version

    @property
    def model(self) -> Model:
        return self.version.model

    @property
    def draft(self) -> Draft:
        return self.version.draft

    def permitted(self, proposed: FoundEdits) -> FoundEdits:
        barred = {node for node, names in self.draft.barred.items() if self._step.name in names}
        left = permitted(proposed, self.model, self.draft.plan, barred)
        return of_even(left, self.draft.plan) if self._step.even else left

    def edits(self, *proposed: FoundEdits, draft: Draft | None = None) -> Proposal:
        every = [self.permitted(one) for one in proposed]
        skipped = {name: why for one in every for name, why in one.skipped.items()}
        sets = [one.edits for one in every if one.edits]
        drafts = [(draft or self.draft).extended(edits) for edits in sets]
        return Proposal(drafts, skipped, {"tensors": max(map(len, sets))} if sets else {})

    def channels(self) -> Channels:
        return followed(self._search._tools.channels(), self.version.maps)

    def values(self, tensor: str) -> Iterable[np.ndarray]:
        return self._search._tools.values(self.model, tensor)

    def shares(self, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        return self._search._tools.shares(self.version, edges)

    def refined(self) -> Mapping[str, float]:
        return self._search._tools.refined(self.version)

    def gain_db(self, draft: Draft) -> float:
        search = self._search
        version = search._known = search._made(draft, self.version)
        return judged(search._levels(self.version, 1), search._levels(version, 1), STEP).gain_db

    @functools.cached_property
    def _bytes(self) -> float:
        return self._search.bytes_of(self.model, self.draft.plan)

    def more_bytes(self, draft: Draft) -> float:
        made = len(self.draft.edits)
        model = edited(self.model, draft.edits[made:])[0] if draft.edits[made:] else self.model
        return self._search.bytes_of(model, draft.plan) - self._bytes

    @property
    def bytes_left(self) -> float:
        most = self._search._most_bytes
        return most if math.isinf(most) else max(0.0, most - self._bytes)

    @property
    def taking(self) -> str:
        return taking(self._step.name, self._search.ledger)

    def affordable(self, candidates: int = 1) -> int:
        why = ""
        for count in range(candidates, 0, -1):
            why = self._search._too_dear(self._step, count)
            if not why:
                return count
        raise TooDear(why)

"""The steps of repair, one after another: what each proposes, and whether the outputs are nearer with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from onnxq.base.errors import cause_of
from onnxq.base.reason import Reason
from onnxq.base.registry import at
from onnxq.base.time_limit import TimeIsUp, TimeLimit
from onnxq.draft.affine import ChannelMap
from onnxq.draft.draft import Draft
from onnxq.draft.edits import edited
from onnxq.graph.model import Model
from onnxq.judge.acceptance import Levels, judged
from onnxq.judge.comparable import not_compared
from onnxq.judge.policies import BEST_OF_SEVERAL, NEAR_DB, NOT_AGAINST, STEP
from onnxq.options.step import Step, steps
from onnxq.quant.patches import Patches
from onnxq.quant.plan import Edge, QuantPlan
from onnxq.repair.allowed import permitted
from onnxq.repair.fit import Fitted
from onnxq.repair.found_edits import FoundEdits
from onnxq.repair.ledger import LayerSkipped, RepairStep, Verdict
from onnxq.repair.statistics import Channels, followed
from onnxq.repair.turn import Proposal, Turn
from onnxq.repair.workload import Workload

_ROWS_EACH = 8  # rows for each number that is fitted: with fewer the samples that fit judge it too well
_TELL = 16  # of fewer samples that choose it is not known by how much they may speak against a fit


class Refused(Exception):
    """An edited float model is another one; the text says how."""


class TooDear(Exception):
    """A step may take more runs than are left; the text says how many."""


class Tools(Protocol):
    """What the steps are measured and fitted with."""

    @property
    def runs(self) -> float:
        """How many runs of the model there were so far."""
        ...

    def levels(self, model: Model, draft: Draft, patches: Patches, *, wide: bool = False) -> Levels:
        """How near the outputs of a quantized model are, on the samples that choose; `wide`: and that fit."""
        ...

    def nearness(self, model: Model) -> float:
        """How near an edited float model is to the one without edits, dB.

        Raises:
            Refused: it is another one.
        """
        ...

    def fit(
        self,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
        steps_of: Callable[[str], frozenset[str]],
    ) -> Fitted:
        """The patches of a draft, fitted."""
        ...

    def values(self, model: Model, tensor: str) -> Iterable[np.ndarray]:
        """What a tensor near the inputs of a float model holds, for the samples that fit."""
        ...

    def channels(self) -> Channels:
        """The greatest magnitude of each channel, in the model without edits."""
        ...

    def shares(self, state: Version, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        """How much of the outputs' noise edges make alone, by name; those of next to none are left out."""
        ...

    def refined(self, state: Version) -> Mapping[str, float]:
        """Other ranges of measured tensors, with which the outputs seem nearer."""
        ...

    def begin(self, step: str) -> None:
        """Is told what is tried."""
        ...


@dataclass(frozen=True, slots=True)
class Version:
    """A draft, and what was made of it.

    Attributes:
        draft: it.
        model: the edited float model.
        maps: what became of the values of its tensors.
        fitted: its patches, and how they were fitted.
        levels: how near it is.
        near_db: how near the edited float model is to the one without edits; None: it was not edited.
    """

    draft: Draft
    model: Model
    maps: Mapping[str, ChannelMap]
    fitted: Fitted
    levels: Levels
    near_db: float | None = None


def there(names: Sequence[str], model: Model, draft: Draft) -> list[str]:
    """Those of the steps that have something to do, as far as looking at the model tells.

    Args:
        names: their names.
        model: with the draft's edits.
        draft: what they would begin with.
    """
    return [name for name in names if _is_there(steps()[name], model, draft)]


def _is_there(step: Step, model: Model, draft: Draft) -> bool:
    try:
        return step.there is None or bool(at(step.there)(model, draft))
    except Exception:  # of the step alone: its turn says so
        return True


class StepSearch:
    """The way from the quantized model as it is to the repaired one.

    Attributes:
        ledger: what was tried.
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
        """
        self._limit = limit or TimeLimit(None)
        self._model, self._tools, self._effort = model, tools, effort
        self._steps = [step for step in steps().values() if step.name in names]
        self._names = [step.name for step in self._steps]
        self._allowed = dict(allowed or {})
        self._first = draft
        self._spent = tools.runs
        self._wide = False  # whether drafts are judged on the samples that fit, too
        self._seen = False  # whether the float model ran on the samples that fit
        self._looked: tuple[Model, QuantPlan, frozenset[str]] | None = None
        self._known: Version | None = None  # a candidate that was measured before it is proposed
        self.ledger: list[RepairStep] = []

    def run(self) -> Version:
        """All steps; what they come to."""
        state = self._made(self._first)
        if state.levels.sqnr_db is None:
            text = not_compared(state.levels.of_all.left_out)
            self.ledger += [RepairStep(step, "not-applicable", text) for step in self._names]
            return state
        with self._limit:
            for place, step in enumerate(self._steps):
                state = self._tried(step, state, self._names[place + 1 :])
        return state

    @property
    def spent(self) -> float:
        """How many runs it took so far."""
        return self._tools.runs - self._spent

    # -- a step --------------------------------------------------------------------------------

    def _tried(self, step: Step, state: Version, later: Sequence[str]) -> Version:
        """A step; where it ends in a fault of ours, it is as if it had not been."""
        before, start = state.levels.sqnr_db, self._tools.runs

        def entry(verdict: Verdict, why: str, skipped: Mapping[str, str] | None = None, **parts: Any) -> None:
            runs = round(self._tools.runs - start, 2)
            left = tuple(LayerSkipped(*one) for one in (skipped or {}).items())
            self.ledger.append(RepairStep(step.name, verdict, why, before, runs=runs, skipped=left, **parts))

        self._tools.begin(step.name)
        self._known = None
        turn = _Turn(self, step, state)
        try:
            self._limit.check()
            unfit = self._unfit(step, state.draft)
            proposal: Proposal = Proposal() if unfit else step.propose(turn)
            if not proposal.drafts:
                entry("not-applicable", unfit or step.nothing, skipped=proposal.skipped)
                return state
            self._wide = self._on_all(step, proposal.drafts, state, later)
            state = self._widened(turn.version)
            if not step.search:  # others ask before they search
                after = self._there(later, state)
                while (why := self._too_dear(step, len(proposal.drafts), after)) and proposal.drafts[1:]:
                    proposal.drafts.pop()
                if why:
                    raise TooDear(why)
            best = self._best(self._each(proposal.drafts, state))
        except Refused as error:
            entry("dropped", str(error))
            return state
        except TooDear as error:
            entry("left-out", str(error))
            return state
        except TimeIsUp:
            entry("left-out", Reason("late", f"{self._limit} is reached"))
            return state
        except Exception as error:
            whose = "onnxq" if step.ours else "its file"
            entry("failed", f"it ends in a fault of {whose}, and is undone ({cause_of(error)})")
            return state
        searched = step.search > 0 or len(proposal.drafts) > 1
        policy = BEST_OF_SEVERAL if searched else STEP
        if step.least_db is not None:
            policy = replace(policy, least_db=step.least_db)
        fits = best.draft.fitted != state.draft.fitted
        decision = judged(state.levels, best.levels, policy, NOT_AGAINST if fits else None)
        why = decision.why
        if best.near_db is not None and best.draft.edits != state.draft.edits:
            why += f"; the edited float model is within {best.near_db:.0f} dB of the one without edits"
        entry(
            "kept" if decision.kept else "dropped",
            why,
            after_db=best.levels.sqnr_db,
            worst=decision.worst,
            changed={**proposal.changed, **best.fitted.changed},
            rows=best.fitted.rows,
            skipped={**proposal.skipped, **best.fitted.skipped},
        )
        return best if decision.kept else state

    def _unfit(self, step: Step, draft: Draft) -> str:
        """Why a step cannot be tried at all; "" where it can."""
        if step.even and not draft.plan.format.even:
            return f"the numbers of {draft.plan.format.name} are not evenly spaced"
        missing = [name for name in step.goes_with if name not in self._names]
        return f"it goes with {', '.join(missing)} only, which is not asked for" if missing else ""

    def _there(self, names: Sequence[str], state: Version) -> list[str]:
        """Those of the steps that have something to do; looked at once for each edited model and plan."""
        if self._effort.most is None:  # nobody asks
            return []
        model, plan = state.model, state.draft.plan
        if self._looked is None or self._looked[0] is not model or self._looked[1] is not plan:
            self._looked = model, plan, frozenset(there(self._names, model, state.draft))
        return [name for name in names if name in self._looked[2]]

    def _too_dear(self, step: Step, candidates: int, later: Sequence[str]) -> str:
        """Why a step is left out for its effort; "" where it is not."""
        most = self._effort.most
        if most is None:
            return ""
        left = most - self.spent
        cost = self._effort.cost(step.name, candidates)
        kept = 0.0 if step.fits else self._effort.reserved(later, floats=not self._seen)
        if cost + kept <= left:
            return ""
        beside = " for it" if kept else ""
        return f"it may take {cost:.0f} runs of the model, and {max(0.0, left - kept):.0f} are left{beside}"

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
        def level(state: Version) -> float:
            sqnr_db = (state.levels.wider or state.levels).sqnr_db
            return -1e9 if sqnr_db is None else sqnr_db

        return max(states, key=level)

    def _made(self, draft: Draft, before: Version | None = None) -> Version:
        """What a draft is: edited, fitted, run."""
        if self._known is not None and self._known.draft is draft:
            return self._known
        if before is not None and draft.edits == before.draft.edits:
            model, maps, near = before.model, before.maps, before.near_db
        else:
            model, maps = edited(self._model, draft.edits)
            near = self._tools.nearness(model) if draft.edits else None
            if near is not None and near < NEAR_DB:
                raise Refused(f"the edited float model is only within {near:.1f} dB of the one without edits")
        fitted = Fitted(draft.patches)
        if draft.fitted:
            fitted = self._tools.fit(model, maps, draft, lambda node: self._of(node, draft.fitted))
        levels = self._levels(model, draft, fitted)
        return Version(draft, model, maps, fitted, levels, near)

    def _levels(self, model: Model, draft: Draft, fitted: Fitted) -> Levels:
        """How near a draft is, on as many samples as tell anything of it, and as runs are left for."""
        wide = self._wide and fitted.rows_each >= _ROWS_EACH
        return self._tools.levels(model, draft, fitted.patches, wide=wide)

    def _widened(self, state: Version) -> Version:
        """A version, judged on as many samples as the candidates that follow it."""
        if not self._wide or state.levels.wider is not None:
            return state
        return replace(state, levels=self._levels(state.model, state.draft, state.fitted))

    def _on_all(self, step: Step, drafts: Sequence[Draft], state: Version, later: Sequence[str]) -> bool:
        """Whether drafts are judged on the samples that fit, too.

        Where something is fitted, that is no part of what a step costs: it is where runs are left for it.
        """
        if not self._effort.wide or not drafts or state.fitted.rows_each < _ROWS_EACH:
            return False
        most = self._effort.most
        if not any(draft.fitted for draft in (*drafts, state.draft)):
            return True
        if self._effort.judging < _TELL:
            return False
        if most is None:
            return True
        again = len(drafts) + (state.levels.wider is None)
        cost = self._effort.cost(step.name, len(drafts)) + again * self._effort.fitting
        kept = self._effort.reserved(self._there(later, state), floats=not self._seen)
        return self.spent + cost + kept <= most

    def _of(self, node: str, steps: frozenset[str]) -> frozenset[str]:
        """Those of the steps that a layer may have."""
        return steps & frozenset(self._allowed[node]) if node in self._allowed else steps


class _Turn(Turn):
    """The turn of a step.

    Attributes:
        version: what it begins with; judged on more samples where the step measured a draft on them.
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
        barred = {node for node, names in self._search._allowed.items() if self._step.name not in names}
        return permitted(proposed, self.model, self.draft.plan, barred)

    def edits(self, *proposed: FoundEdits, draft: Draft | None = None) -> Proposal:
        every = [self.permitted(one) for one in proposed]
        skipped = {name: why for one in every for name, why in one.skipped.items()}
        sets = [one.edits for one in every if one.edits]
        drafts = [(draft or self.draft).extended(edits) for edits in sets]
        return Proposal(drafts, skipped, {"tensors": max(map(len, sets))} if sets else {})

    def channels(self) -> Channels:
        channels = followed(self._search._tools.channels(), self.version.maps)
        self._search._seen = True
        return channels

    def values(self, tensor: str) -> Iterable[np.ndarray]:
        return self._search._tools.values(self.model, tensor)

    def shares(self, edges: Mapping[str, Sequence[Edge]]) -> Mapping[str, float]:
        return self._search._tools.shares(self.version, edges)

    def refined(self) -> Mapping[str, float]:
        return self._search._tools.refined(self.version)

    def gain_db(self, draft: Draft) -> float:
        search = self._search
        search._wide = search._on_all(self._step, [draft], self.version, ())
        self.version = search._widened(self.version)
        search._known = search._made(draft, self.version)
        return judged(self.version.levels, search._known.levels, STEP).gain_db

    def affordable(self, candidates: int = 1) -> int:
        why = ""
        for count in range(candidates, 0, -1):
            why = self._search._too_dear(self._step, count, ())
            if not why:
                return count
        raise TooDear(why)

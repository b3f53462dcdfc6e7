"""The steps of repair, one after another: what each proposes, and whether the outputs are nearer with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from onnxq.base.errors import OnnxqError
from onnxq.draft.affine import ChannelMap
from onnxq.draft.draft import Draft
from onnxq.draft.edits import FloatEdit, edited
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.options.settings import REPAIR_STEPS
from onnxq.quant.patches import Patches
from onnxq.quant.plan import Edge, QuantPlan
from onnxq.repair import degenerate, lattice, residual, scale, shift, smooth, split
from onnxq.repair.acceptance import LEAST_DB, Levels, judged
from onnxq.repair.budget import affordable
from onnxq.repair.fit import Fitted
from onnxq.repair.found import FoundEdits
from onnxq.repair.ledger import LayerSkipped, RepairStep, Verdict
from onnxq.repair.statistics import Channels, followed
from onnxq.repair.workload import REFITS, SEARCHING, Workload
from onnxq.run.about_mean import not_compared

ALPHAS = (0.5, 0.65)
"""How much of the range of channels smoothing moves into the weights: which are tried, the first first."""

NEAR_DB = 60.0
"""By less an edited float model may not differ from the one without edits, on samples that choose."""

_MOST_SPLIT = 0.1
"""Of the int8 multiply-accumulates: what all splits together may add."""

_MOST_MOVED = 0.1
"""Of the bytes of activations that the engine reads and writes: what sums in float may move more."""

_WORTH_DB = 1.0
"""By so much the outputs are to be nearer for an engine that moves more."""


_WORTH = 1 - 10 ** (-_WORTH_DB / 10)
_EVEN = ("lattice", "shift", "split")
"""Steps that give each step of a scale a meaning of its own."""

_ROWS_EACH = 8  # rows for each number that is fitted: with fewer the samples that fit judge it too well
_TELL = 16  # of fewer samples that choose it is not known by how much they may speak against a fit
_UNSURE = 2.0  # so many times the noise that something makes alone it may make beside others


class Refused(Exception):
    """An edited float model is another one; the text says how."""


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

    def thresholds(self, state: Version) -> Mapping[str, float]:
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


@dataclass(slots=True)
class _Proposal:
    """What a step proposes.

    Attributes:
        drafts: the candidates, of which the best is judged.
        skipped: what is left as it is, and why.
        changed: what a candidate changes beside what is fitted.
        why_not: why there is none.
        too_dear: why the search for one is left out.
        before: the version they follow, where the search measured it on more samples.
    """

    drafts: list[Draft] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    why_not: str = ""
    too_dear: str = ""
    before: Version | None = None


def there(steps: Sequence[str], model: Model, draft: Draft) -> list[str]:
    """Those of the steps that have something to do, as far as looking at the model tells.

    Args:
        steps: their names.
        model: with the draft's edits.
        draft: what they would begin with.
    """
    looked: dict[str, Callable[[], bool | Collection[Any]]] = {
        "lattice": lambda: lattice.there(model, draft),
        "shift": lambda: shift.find(model, draft).edits,
        "residual": lambda: residual.find(model, draft.plan).edges,
        "split": lambda: split.find(model, draft).edits,
    }
    return [step for step in steps if step not in looked or looked[step]()]


class Course:
    """The way from the quantized model as it is to the repaired one.

    Attributes:
        ledger: what was tried.
    """

    def __init__(
        self,
        model: Model,
        draft: Draft,
        tools: Tools,
        steps: Sequence[str],
        effort: Workload,
        allowed: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Nothing is run yet.

        Args:
            model: the float model without edits.
            draft: what it starts from.
            tools: what measures and fits.
            steps: the names of those that are tried.
            effort: what they may take.
            allowed: the steps that may change a layer, by node; others may have all.
        """
        self._model, self._tools, self._effort = model, tools, effort
        self._steps = [step for step in REPAIR_STEPS if step in steps]
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
            self.ledger += [RepairStep(step, "not-applicable", text) for step in self._steps]
            return state
        for place, step in enumerate(self._steps):
            state = self._tried(step, state, self._steps[place + 1 :])
        return state

    @property
    def spent(self) -> float:
        """How many runs it took so far."""
        return self._tools.runs - self._spent

    # -- a step --------------------------------------------------------------------------------

    def _tried(self, step: str, state: Version, later: Sequence[str]) -> Version:
        """A step; where it ends in a fault of ours, it is as if it had not been."""
        before, start = state.levels.sqnr_db, self._tools.runs

        def entry(verdict: Verdict, why: str, skipped: Mapping[str, str] | None = None, **said: Any) -> None:
            runs = round(self._tools.runs - start, 2)
            left = tuple(LayerSkipped(*one) for one in (skipped or {}).items())
            self.ledger.append(RepairStep(step, verdict, why, before, runs=runs, skipped=left, **said))

        self._tools.begin(step)
        self._known = None
        try:
            proposal = self._proposal(step, state)
            if not proposal.drafts and not proposal.too_dear:
                entry("not-applicable", proposal.why_not, skipped=proposal.skipped)
                return state
            self._wide = self._on_all(step, proposal.drafts, state, later)
            state = self._widened(proposal.before or state)
            why = proposal.too_dear
            if step not in SEARCHING:  # these are asked before they search
                after = self._there(later, state)
                while (why := self._too_dear(step, len(proposal.drafts), after)) and proposal.drafts[1:]:
                    proposal.drafts.pop()
            if why:
                entry("left-out", why)
                return state
            best = self._best(self._each(proposal.drafts, state))
        except Refused as error:
            entry("dropped", str(error))
            return state
        except Exception as error:
            what = str(error) if isinstance(error, OnnxqError) else f"{type(error).__name__}: {error}"
            entry("failed", f"it ends in a fault of onnxq, and is undone ({what})")
            return state
        searched = step in SEARCHING or len(proposal.drafts) > 1
        least = _WORTH_DB if step == "residual" else LEAST_DB
        fits = best.draft.fitted != state.draft.fitted
        found = judged(state.levels, best.levels, of_several=searched, least_db=least, seen=fits)
        why = found.why
        if best.near_db is not None and best.draft.edits != state.draft.edits:
            why += f"; the edited float model is within {best.near_db:.0f} dB of the one without edits"
        entry(
            "kept" if found.kept else "dropped",
            why,
            after_db=best.levels.sqnr_db,
            worst=found.worst,
            changed={**proposal.changed, **best.fitted.changed},
            rows=best.fitted.rows,
            skipped={**proposal.skipped, **best.fitted.skipped},
        )
        return best if found.kept else state

    def _there(self, steps: Sequence[str], state: Version) -> list[str]:
        """Those of the steps that have something to do; looked at once for each edited model and plan."""
        if self._effort.most is None:  # nobody asks
            return []
        known, plan = state.model, state.draft.plan
        if self._looked is None or self._looked[0] is not known or self._looked[1] is not plan:
            self._looked = known, plan, frozenset(there(self._steps, known, state.draft))
        return [step for step in steps if step in self._looked[2]]

    def _too_dear(self, step: str, candidates: int, later: Sequence[str]) -> str:
        """Why a step is left out for its effort; "" where it is not."""
        most = self._effort.most
        if most is None:
            return ""
        left = most - self.spent
        cost = self._effort.cost(step, candidates)
        kept = 0.0 if step in REFITS else self._effort.reserved(later, floats=not self._seen)
        if cost + kept <= left:
            return ""
        beside = " for it" if kept else ""
        return f"it may take {cost:.0f} runs of the model, and {max(0.0, left - kept):.0f} are left{beside}"

    def _each(self, drafts: Sequence[Draft], before: Version) -> list[Version]:
        """What candidates are, without those whose float model is another one.

        Raises:
            Refused: it is of each of them.
        """
        found: list[Version] = []
        refused = Refused()
        for draft in drafts:
            try:
                found.append(self._made(draft, before))
            except Refused as error:
                refused = error
        if not found:
            raise refused
        return found

    def _best(self, states: Sequence[Version]) -> Version:
        def level(state: Version) -> float:
            found = (state.levels.wider or state.levels).sqnr_db
            return -1e9 if found is None else found

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

    def _on_all(self, step: str, drafts: Sequence[Draft], state: Version, later: Sequence[str]) -> bool:
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
        cost = self._effort.cost(step, len(drafts)) + again * self._effort.fitting
        kept = self._effort.reserved(self._there(later, state), floats=not self._seen)
        return self.spent + cost + kept <= most

    def _of(self, node: str, steps: frozenset[str]) -> frozenset[str]:
        """Those of the steps that a layer may have."""
        return steps & frozenset(self._allowed[node]) if node in self._allowed else steps

    # -- what steps propose --------------------------------------------------------------------

    def _proposal(self, step: str, state: Version) -> _Proposal:
        draft = state.draft
        if step in _EVEN and not draft.plan.format.even:
            return _Proposal(why_not=f"the numbers of {draft.plan.format.name} are not evenly spaced")
        if step == "lattice":
            seen = lattice.find(state.model, draft, lambda name: self._tools.values(state.model, name))
            return self._of_edits(step, draft, [self._permitted(step, state, seen)])
        if step in ("scale", "smooth"):
            return self._scaled(step, state)
        if step == "bias":
            return _Proposal([replace(draft, fitted=draft.fitted | {"bias"})])
        if step == "gptq":
            if "bias" not in self._steps:
                return _Proposal(why_not="it goes with bias only, which is not asked for")
            return _Proposal([replace(draft, fitted=draft.fitted | {"bias", "gptq"})])
        if step == "shift":
            if "bias" not in self._steps:
                return _Proposal(why_not="it goes with bias only, which is not asked for")
            found = self._permitted(step, state, shift.find(state.model, draft))
            return self._of_edits(step, replace(draft, fitted=draft.fitted | {"bias"}), [found])
        if step == "residual":
            return self._residual(state)
        if step == "split":
            return self._split(state)
        too_dear = self._too_dear(step, 1, ())
        if too_dear:
            return _Proposal(too_dear=too_dear)
        amax = dict(self._tools.thresholds(state))
        if not amax:
            return _Proposal(why_not="no other range of a single tensor surely gains anything")
        return _Proposal([draft.with_amax(amax)], changed={"ranges": len(amax)})

    def _scaled(self, step: str, state: Version) -> _Proposal:
        channels = followed(self._tools.channels(), state.maps)
        self._seen = True
        if step == "smooth":
            founds = [smooth.find(state.model, state.draft, channels, ALPHAS[0])]
            if founds[0].edits:  # what stands in the way is the same for any of them
                founds += [smooth.find(state.model, state.draft, channels, alpha) for alpha in ALPHAS[1:]]
            return self._of_edits(step, state.draft, [self._permitted(step, state, one) for one in founds])
        found = self._permitted(step, state, scale.find(state.model, state.draft, channels))
        weak = degenerate.find(state.model, state.draft)
        draft = state.draft
        if weak.told:
            amax = {**draft.patches.amax, **weak.patches.amax}
            draft = replace(draft, patches=replace(draft.patches, amax=amax))
        proposal = self._of_edits(step, draft, [found])
        if weak.told:
            proposal.drafts = proposal.drafts or [draft]
            proposal.changed["weights"] = len(weak.told)
            proposal.skipped.update(weak.told)
        return proposal

    def _of_edits(self, step: str, draft: Draft, founds: Sequence[FoundEdits]) -> _Proposal:
        skipped = {name: why for found in founds for name, why in found.skipped.items()}
        some = [found for found in founds if found.edits]
        if not some:
            return _Proposal(skipped=skipped, why_not=_NOTHING[step])
        count = max(len(found.edits) for found in some)
        drafts = [draft.extended(found.edits) for found in some]
        return _Proposal(drafts, skipped, {"tensors": count})

    def _residual(self, state: Version) -> _Proposal:
        """As many sums as may be in float, most noise for the bytes first."""
        found = residual.find(state.model, state.draft.plan)
        skipped = dict(found.skipped)
        if not found.edges:
            return _Proposal(skipped=skipped, why_not=_NOTHING["residual"])
        too_dear = self._too_dear("residual", 1, ())
        if too_dear:
            return _Proposal(skipped=skipped, too_dear=too_dear)
        every = tuple(name for name in found.edges if found.costs[name] <= _MOST_MOVED)
        if not every:
            return _Proposal(skipped=skipped, why_not=_NOTHING["residual"])
        best = state.draft.in_float(dict.fromkeys(every, residual.IN_FLOAT), state.model)
        self._wide = self._on_all("residual", [best], state, ())
        state = self._widened(state)
        self._known = self._made(best, state)
        if judged(state.levels, self._known.levels).gain_db < _WORTH_DB:  # some of them gain less than all
            return _Proposal(skipped=skipped, why_not=_NOTHING["residual"])
        if sum(found.costs[name] for name in every) <= _MOST_MOVED:
            return _Proposal([best], skipped, {"sums": len(every)}, before=state)
        shares = self._tools.shares(state, found.edges)
        sets = affordable(shares, found.costs, _MOST_MOVED)[-1:]  # one sum alone gains less
        sets = [names for names in sets if _UNSURE * sum(map(shares.__getitem__, names)) > _WORTH]
        drafts = [
            state.draft.in_float(dict.fromkeys(names, residual.IN_FLOAT), state.model) for names in sets
        ]
        count = max(map(len, sets), default=0)
        return _Proposal(drafts, skipped, {"sums": count}, _NOTHING["residual"], before=state)

    def _split(self, state: Version) -> _Proposal:
        """The tensor that makes most noise; and as many as may be, the most noise for the work first."""
        draft = state.draft
        found = self._permitted("split", state, split.find(state.model, draft))
        total = sum(layer.macs or 0 for layer in draft.plan.layers if layer.quantized)
        work = {edit.tensor: found.macs.get(edit.tensor, 0) / max(total, 1) for edit in found.edits}
        dear = {
            name: f"it adds {100 * share:.1f} % of int8 work"
            for name, share in work.items()
            if share > _MOST_SPLIT
        }
        edits = {edit.tensor: edit for edit in found.edits if edit.tensor not in dear}
        skipped = {**found.skipped, **dear}
        if not edits:
            return _Proposal(skipped=skipped, why_not=_NOTHING["split"])
        tried, too_dear = self._sets("split")
        if too_dear:
            return _Proposal(skipped=skipped, too_dear=too_dear)
        sites = {site.tensor: site.readers for site in draft.plan.sites if site.tensor in edits}
        sets = affordable(self._tools.shares(state, sites), work, _MOST_SPLIT)[-tried:]
        drafts = [draft.extended([edits[name] for name in names]) for names in sets]
        count = max(map(len, sets), default=0)
        return _Proposal(drafts, skipped, {"tensors": count}, _NOTHING["split"])

    def _sets(self, step: str) -> tuple[int, str]:
        """How many sets a step may try: two, or the largest alone; and why none, where that is too dear."""
        return (1, self._too_dear(step, 1, ())) if self._too_dear(step, 2, ()) else (2, "")

    def _permitted(self, step: str, state: Version, found: FoundEdits) -> FoundEdits:
        """What is found but for edits at layers that may not have the step."""
        barred = {node for node, steps in self._allowed.items() if step not in steps}
        if not barred:
            return found
        layers = {layer.node for layer in state.draft.plan.layers}
        nodes = {raw.name: Node(state.model, raw) for raw in state.model.graph.nodes}
        out = {
            edit.tensor: "a [[layer]] says that it is not to be changed so"
            for edit in found.edits
            if not barred.isdisjoint(_around(nodes.values(), edit.tensor, layers))
        }
        edits: tuple[FloatEdit, ...] = tuple(edit for edit in found.edits if edit.tensor not in out)
        return replace(found, edits=edits, skipped={**found.skipped, **out})


_NOTHING = {
    "lattice": "no int8 layer reads an input of 8-bit pixels whose values have no codes of their own yet",
    "scale": "no channel is so much larger than the others that powers of two would help",
    "smooth": "there is no normalization or gate in front of int8 layers that a factor could go into",
    "residual": "no sum reads what int8 layers read, or what they make of the noise is not worth float",
    "shift": "no Relu or Clip is read by int8 layers without padding alone",
    "split": "no small tensor is read by int8 layers that could have it twice",
}


def _around(nodes: Iterable[Node], tensor: str, layers: set[str]) -> set[str]:
    """The layers around a tensor: those that make it, and those that read it, with others between them."""
    makers: dict[str, Node] = {}
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for out in node.outputs:
            if out is not None:
                makers[out.name] = node
        for read in node.inputs:
            if read is not None and not read.is_constant:
                readers.setdefault(read.name, []).append(node)
    found: set[str] = set()
    for back in (True, False):
        todo, seen = [tensor], {tensor}
        while todo:
            name = todo.pop()
            ends = [makers[name]] if back and name in makers else [] if back else readers.get(name, [])
            for node in ends:
                if node.name in layers:
                    found.add(node.name)
                    continue
                beyond = node.inputs if back else node.outputs
                names = {t.name for t in beyond if t is not None and not t.is_constant} - seen
                seen |= names
                todo.extend(names)
    return found

"""The Q/DQ pairs that a file came with: what becomes of them, and what is said of that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from onnxq.advice.causes import STAY_FLOAT
from onnxq.base.reason import noted, reason
from onnxq.graph.model import Model
from onnxq.graph.pairs import Pair
from onnxq.graph.unquantized import StatedPair
from onnxq.quant.plan import QuantPlan
from onnxq.quant.ranges import Range
from onnxq.quant.scales import weight_amax
from onnxq.quant.weights import Weights
from onnxq.repair.engine_bytes import engine_bytes
from onnxq.run.compare import OutputAccuracy

SCALING = frozenset({"lattice", "scale", "smooth", "shift", "split", "thresholds"})
"""The steps of repair that give tensors other ranges than a file states: not tried unless they are named."""

_TOLD = 0.05
"""So many bits are told of."""


def in_whole_numbers(pair: Pair) -> bool:
    """Whether the codes of a pair are whole numbers, with a scale for a tensor or a channel."""
    seen = Pair(pair.quantizer) if pair.dequantizes and pair.quantizer is not None else pair
    return seen.ends is not None and not pair.block


def not_in_blocks(pair: Pair) -> bool:
    """Whether a pair has a scale for a tensor or a channel."""
    return not pair.block


@dataclass(frozen=True, slots=True, eq=False)
class TakenPairs:
    """The pairs that were taken out of a file.

    Attributes:
        adopted: whether their ranges are those of the run.
        stated: what they said.
        file: the file with them, repaired; it is what `adopt` is compared with.
        floats: the model without them.
    """

    adopted: bool
    stated: tuple[StatedPair, ...]
    file: onnx.ModelProto
    floats: onnx.ModelProto

    @property
    def exact(self) -> bool:
        """Whether int8 around 0 holds all numbers of their codes."""
        return all(one.exact for one in self.stated)

    def ends(self, plan: QuantPlan, model: Model) -> Iterator[tuple[str, tuple[float, float]]]:
        """The least and the greatest value that readers get of tensors whose pair is written again.

        What has no pair any more, or is read in front of it too, may be greater: nothing clips it.

        Args:
            plan: the plan of the model without the pairs.
            model: that model.
        """
        ranges, tensors = self.ranges(plan), model.tensors()
        outputs = {tensor.name for tensor in model.outputs}
        for site in plan.sites:
            if site.kind != "activation" or site.tensor not in ranges or site.tensor in outputs:
                continue
            if tensors[site.tensor].times_read == len(site.readers):
                most = ranges[site.tensor].amax
                yield site.tensor, (-most, most)

    def ranges(self, plan: QuantPlan) -> dict[str, Range]:
        """The ranges of the activations of a plan, as the pairs said."""
        found: dict[str, Range] = {}
        for one in self.stated:
            if not one.constant:
                said = Range(float(np.max(one.amax)), reason("pair", "model", pair=_told(one)))
                found[one.tensor] = max(found.get(one.tensor, said), said, key=lambda entry: entry.amax)
        return of_groups(found, plan)

    def weights(self, plan: QuantPlan, model: Model) -> Weights:
        """What quantized constants of a plan cover, where int8 around 0 holds them with the file's scales."""
        stated = {one.tensor: one for one in self.stated if one.constant and one.on_grid}
        tensors, weights = model.tensors() if stated else {}, Weights()
        for site in plan.sites:
            one = stated.get(site.tensor) if site.kind == "weight" else None
            if one is None or one.axis not in (None, site.axis):
                continue
            top = weight_amax(np.asarray(tensors[site.tensor].constant, np.float32), site.axis)
            weights[site.tensor, site.axis] = np.broadcast_to(one.amax.astype(np.float32), top.shape)
        return weights

    def told(self, plan: QuantPlan, ranges: Mapping[str, Range], *, judged: bool) -> Iterator[str]:
        """What is said of a run that adopts or drops them.

        Args:
            plan: the plan of the model without them.
            ranges: those that were adopted, by tensor.
            judged: whether there are samples, so that the accuracy is measured.
        """
        if not self.stated:
            yield noted("file-pairs.none-out")
            return
        if not self.adopted:
            yield noted("file-pairs.dropped", pairs=self._count)
            return
        inexact = [one for one in self.stated if not one.exact]
        same, other = (
            ("file-pairs.judged-same", "file-pairs.judged-other")
            if judged
            else ("file-pairs.same", "file-pairs.other")
        )
        yield noted(other if inexact else same, pairs=self._count, inexact=len(inexact))
        if inexact:
            worst = max(inexact, key=lambda one: (not one.constant, one.lost))
            yield noted("file-pairs.inexact", tensor=worst.tensor, what=_told(worst))
        if new := [name for name in plan.measured if name not in ranges]:
            yield noted("file-pairs.lacks", tensors=len(new), tensor=new[0])

    @property
    def _count(self) -> str:
        return "1 pair" if len(self.stated) == 1 else f"{len(self.stated)} pairs"


def of_groups(ranges: Mapping[str, Range], plan: QuantPlan) -> dict[str, Range]:
    """Ranges, and those of a group's sources by any member."""
    found = dict(ranges)
    for group in plan.groups:
        members = [found[name] for name in group.tensors if name in found]
        if members:
            widest = max(members, key=lambda entry: entry.amax)
            found.update((name, widest) for name in group.sources if name not in found)
    return found


def _told(one: StatedPair) -> str:
    """What a pair was, and what int8 around 0 makes of it."""
    zeros = np.unique(one.zero)
    around = f"around {zeros[0]}" if len(zeros) == 1 else "around several zero points"
    text = f"{one.format.name} {around}"
    if one.exact:
        return f"{text}, the same numbers"
    if one.on_grid:
        return noted("file-pair.same", pair=text)
    if one.constant:
        return noted("file-pair.anew", pair=text)
    less = f", {one.lost:.1f} bits less" if one.lost >= _TOLD else ""
    return noted("file-pair.coarser", pair=text, times=2**one.lost, less=less)


def as_measured(pairs: str, near: Sequence[OutputAccuracy], model: Model, plan: QuantPlan) -> str:
    """What `--pairs` with another value comes to.

    Args:
        pairs: that value.
        near: how near its outputs are to the file's.
        model: its float model.
        plan: its plan.
    """
    figures = [one.sqnr_db for one in near if one.sqnr_db is not None]
    plain, moved = engine_bytes(model, QuantPlan()), engine_bytes(model, plan)
    parts = [f"{min(figures):.1f} dB"] if figures else []
    parts += [f"{moved / plain:.0%} of float16's bytes"] if plain else []
    return f"--pairs {pairs}: {', '.join(parts)}" if parts else f"--pairs {pairs}"


def kept_inexact(count: int, measured: Sequence[str]) -> str:
    """What is said where pairs are kept that int8 around 0 does not hold.

    Args:
        count: how many.
        measured: what else could be done with them, see `as_measured`.
    """
    what = "; ".join(measured) or noted("file-pairs.choices")
    return f"{count} {STAY_FLOAT}. {what}"

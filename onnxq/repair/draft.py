"""A quantized model in the making: what each step starts from, and what it proposes instead."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxq.quant.patches import NONE, Patches
from onnxq.quant.plan import QuantPlan
from onnxq.quant.scales import activation_scales
from onnxq.repair.edits import FloatEdit


@dataclass(frozen=True, slots=True)
class Draft:
    """All that the written file is made of, beside the sanitized float model.

    Attributes:
        plan: which tensors have pairs; edits do not change it.
        amax: the range of each tensor that the plan measures, by name, after the edits.
        edits: those of the float model, in order.
        patches: other constants, biases, codes and ranges of weights, of the edited model.
        fitted: the steps whose result depends on all others, which fit again what they patch: of `bias`,
            `gptq`.
    """

    plan: QuantPlan
    amax: Mapping[str, float]
    edits: tuple[FloatEdit, ...] = ()
    patches: Patches = NONE
    fitted: frozenset[str] = field(default_factory=frozenset)

    @property
    def scales(self) -> dict[int, np.float32]:
        """The scale of each group of activations."""
        return activation_scales(self.plan, self.amax)

    def extended(self, edits: Iterable[FloatEdit]) -> Draft:
        """The draft with further edits, which ranges follow."""
        more, amax = tuple(edits), dict(self.amax)
        for edit in more:
            amax.update(edit.ranges(amax))
        return dataclasses.replace(self, edits=(*self.edits, *more), amax=amax)

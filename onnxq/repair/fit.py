"""Fits: biases and codes of weights that follow from what runs through the quantized model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from onnxq.graph.model import Model
from onnxq.quant.patches import Patches
from onnxq.quant.plan import QuantPlan
from onnxq.repair.affine import ChannelMap
from onnxq.repair.draft import Draft
from onnxq.repair.rows import ChannelEnds
from onnxq.run.ort import Feeds

STEPS = ("bias", "gptq")
"""What can be fitted."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit gives.

    Attributes:
        patches: those of the draft, and what was fitted.
        runs: how many runs of the model it took.
        rows: the most rows of activations that a layer was fitted with.
        changed: `biases`: how many layers have another bias; `codes`: how many codes of weights are not the
            nearest ones.
        skipped: layers for which less was fitted than was asked for, and why.
    """

    patches: Patches
    runs: float = 0.0
    rows: int = 0
    changed: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)


class Fitter:
    """Fits drafts of one model to the same samples."""

    def __init__(
        self,
        model: Model,
        plan: QuantPlan,
        samples: Callable[[], Iterable[Feeds]],
        *,
        ends: Mapping[str, int] | None = None,
        runnable: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda proto: proto,
        threads: int | None = None,
        budget_bytes: int = 1 << 28,
        rows: int = 8192,
        most_terms: int = 1152,
        progress: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> None:
        """Nothing is run yet."""
        raise NotImplementedError

    def __enter__(self) -> Fitter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def channels(self) -> Mapping[str, ChannelEnds]:
        """The ends of channels that were asked for."""
        raise NotImplementedError

    @property
    def runs(self) -> float:
        """How many runs of the model there were so far."""
        raise NotImplementedError

    def fit(
        self,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
        steps_of: Callable[[str], frozenset[str]] | None = None,
    ) -> Fitted:
        """Fits biases and codes to the quantized model that a draft is."""
        raise NotImplementedError

    def close(self) -> None:
        """Removes what is kept."""

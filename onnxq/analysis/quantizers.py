"""The pairs of a stage: what quantizes which tensor, with which steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxq.analysis.stages import Stage


@dataclass(frozen=True, slots=True)
class Quantizer:
    """A QuantizeLinear with constant scales.

    Attributes:
        node: its name.
        tensor: what it quantizes, casts looked through.
        scale: float64, one or one for each channel.
        low: the least value that it holds, of the channel that holds least.
        high: likewise the greatest.
    """

    node: str
    tensor: str
    scale: np.ndarray
    low: float
    high: float

    @property
    def step(self) -> float:
        """The smallest step."""
        return float(self.scale.min())


def quantizers_of(stage: Stage) -> dict[str, list[Quantizer]]:
    """What quantizes each tensor that is computed or fed, by the tensor's name."""
    quantizers: dict[str, list[Quantizer]] = {}
    for pair in stage.pairs.quantizing:
        source, ends, scales = pair.source, pair.ends, pair.scales
        if source is None or source.name in stage.fixed or ends is None or scales is None:
            continue
        scale = scales.reshape(-1)
        if not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
            continue
        zeros = pair.zero.constant if pair.zero is not None else None
        zero = np.zeros(1) if zeros is None else zeros.astype(np.float64).reshape(-1)
        low, high = ((end - zero) * scale for end in ends)
        tensor = stage.base(source.name)
        made = Quantizer(pair.node.name, tensor, scale, float(low.max()), float(high.min()))
        quantizers.setdefault(tensor, []).append(made)
    return quantizers

"""Bias: what the layers' codes add to the mean of each channel is taken off."""

from dataclasses import replace

from onnxq.repair.steps import Proposal, Turn, step


@step(place=5, fits=True, reserved="always")
def bias(turn: Turn) -> Proposal:
    """See `onnxq.repair.fit`."""
    return Proposal([replace(turn.draft, fitted=turn.draft.fitted | {"bias"})])

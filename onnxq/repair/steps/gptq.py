"""GPTQ: weights are rounded so that what one code adds, the next ones take off."""

from dataclasses import replace

from onnxq.repair.steps import Proposal, Turn, step


@step(place=7, goes_with=("bias",), fits=True, reserved="always")
def gptq(turn: Turn) -> Proposal:
    """See `onnxq.repair.fit` and `onnxq.repair.rounding`; biases are fitted with it."""
    return Proposal([replace(turn.draft, fitted=turn.draft.fitted | {"bias", "gptq"})])

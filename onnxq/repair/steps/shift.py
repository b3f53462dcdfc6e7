"""Shift: what a Relu gives is moved to both sides of zero, so that it spends all codes."""

from dataclasses import replace

from onnxq.repair.steps import Proposal, Turn, step


@step(
    place=6, even=True, goes_with=("bias",), fits=True, reserved="always",
    edit="onnxq.repair.shift:Shift", there="onnxq.repair.shift:there",
    nothing="no Relu or Clip is read by quantized layers without padding alone",
)  # fmt: skip
def shift(turn: Turn) -> Proposal:
    """See `onnxq.repair.shift`; biases are fitted with it."""
    from onnxq.repair import shift

    draft = replace(turn.draft, fitted=turn.draft.fitted | {"bias"})
    return turn.edits(shift.find(turn.model, turn.draft), draft=draft)

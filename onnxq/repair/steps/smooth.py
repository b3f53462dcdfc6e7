"""Smooth: what is hard to quantize in a tensor moves into the weights that read it (SmoothQuant)."""

from onnxq.repair.steps import Proposal, Turn, step

ALPHAS = (0.5, 0.65)
"""How much of the range of channels moves into the weights: which are tried, the first first."""


@step(
    place=3, edit="onnxq.repair.scale:Scale",
    nothing="there is no normalization or gate in front of quantized layers that a factor could go into",
)  # fmt: skip
def smooth(turn: Turn) -> Proposal:
    """See `onnxq.repair.smooth`."""
    from onnxq.repair import smooth

    channels = turn.channels()
    tried = [smooth.find(turn.model, turn.draft, channels, ALPHAS[0])]
    if tried[0].edits:  # what stands in the way is the same for any of them
        tried += [smooth.find(turn.model, turn.draft, channels, alpha) for alpha in ALPHAS[1:]]
    return turn.edits(*tried)

"""Thresholds: other ranges of single tensors, with which the outputs are nearer."""

from onnxq.repair.steps import Proposal, Turn, step


@step(place=9, search=100, nothing="no other range of a single tensor surely gains anything")
def thresholds(turn: Turn) -> Proposal:
    """See `onnxq.quant.choice.refined_ranges`."""
    turn.affordable()
    amax = dict(turn.refined())
    return Proposal([turn.draft.with_amax(amax)] if amax else [], changed={"ranges": len(amax)})

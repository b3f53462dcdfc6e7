"""Scale: powers of two move from channels far larger than the others into the weights behind them."""

from dataclasses import replace

from onnxq.repair.steps import Proposal, Turn, step


@step(
    place=2, edit="onnxq.repair.scale:Scale", reserved="always",
    nothing="no channel is so much larger than the others that powers of two would help",
)  # fmt: skip
def scale(turn: Turn) -> Proposal:
    """See `onnxq.repair.scale` and `onnxq.repair.degenerate`."""
    from onnxq.repair import degenerate, scale

    proposed = scale.find(turn.model, turn.draft, turn.channels())
    weak = degenerate.find(turn.model, turn.draft)
    if not weak.told:
        return turn.edits(proposed)
    patches = turn.draft.patches
    draft = replace(turn.draft, patches=replace(patches, amax={**patches.amax, **weak.patches.amax}))
    proposal = turn.edits(proposed, draft=draft)
    proposal.drafts = proposal.drafts or [draft]
    proposal.changed["weights"] = len(weak.told)
    proposal.skipped.update(weak.told)
    return proposal

"""Split: layers read a tensor twice, half a step apart, which is a bit more."""

from onnxq.base.reason import reason
from onnxq.repair.steps import Proposal, Turn, step

_MOST_SPLIT = 0.1
"""Of the int8 multiply-accumulates: what all splits together may add."""


@step(
    place=8, even=True, edit="onnxq.repair.split:HalfSteps", there="onnxq.repair.split:there",
    search=60, reserved="many",
    nothing="no small tensor is read by quantized layers that could have it twice",
)  # fmt: skip
def split(turn: Turn) -> Proposal:
    """As many tensors as may be, the most noise for the work first.

    See `onnxq.repair.split`.
    """
    from onnxq.repair import split
    from onnxq.repair.budget import affordable

    draft = turn.draft
    splits = turn.permitted(split.find(turn.model, draft))
    total = sum(layer.macs or 0 for layer in draft.plan.layers if layer.quantized)
    work = {edit.tensor: splits.macs.get(edit.tensor, 0) / max(total, 1) for edit in splits.edits}
    dear = {
        name: reason("split-work", percent=100 * share) for name, share in work.items() if share > _MOST_SPLIT
    }
    edits = {edit.tensor: edit for edit in splits.edits if edit.tensor not in dear}
    proposal = Proposal(skipped={**splits.skipped, **dear})
    if not edits:
        return proposal
    turn.affordable()
    sites = {site.tensor: site.readers for site in draft.plan.sites if site.tensor in edits}
    shares = turn.shares(sites)
    costs = {name: (work[name], turn.more_bytes(draft.extended([edits[name]]))) for name in shares}
    sets = affordable(shares, costs, (_MOST_SPLIT, turn.bytes_left))[-1:]
    wide = {name: share for name, share in shares.items() if costs[name][1] > turn.bytes_left}
    proposal.skipped.update({name: reason("more-bytes", share=share) for name, share in wide.items()})
    if wide and not sets:
        most = max(wide.values())
        proposal.too_many_bytes = reason("more-bytes.one", share=most, flag=turn.taking)
    proposal.drafts = [draft.extended([edits[name] for name in names]) for names in sets]
    proposal.changed = {"tensors": max(map(len, sets), default=0)}
    return proposal

"""Split: layers read a tensor twice, half a step apart, which is a bit more."""

import math
from collections.abc import Sequence

from onnxq.base.reason import reason
from onnxq.repair.steps import Proposal, Turn, step

_MOST_SPLIT = 0.1
"""Of the int8 multiply-accumulates: what all splits together may add."""

_GAINED = 0.6
"""Of the noise that tensors make alone, what halves of their steps take away, about.

Three quarters of a rounding's, less what is clipped, and what was fitted already. Measured on 12 nets, of 64
samples: 0.35 to 1.0 of ten of them, whose median is this; one lost by it, and one gained far more."""


@step(
    place=8, even=True, edit="onnxq.repair.split:HalfSteps", there="onnxq.repair.split:there",
    search=60, reserved="many",
    nothing="no small tensor is read by quantized layers that could have it twice",
)  # fmt: skip
def split(turn: Turn) -> Proposal:
    """As many tensors as may be, the most noise for the work first.

    See `onnxq.repair.split`.
    """
    from onnxq.judge.policies import BYTES_PRICE_DB
    from onnxq.judge.sqnr import limited_db
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
    price = 0.0 if math.isinf(turn.bytes_left) else BYTES_PRICE_DB

    def worth(share: float, cost: Sequence[float]) -> float:
        return limited_db(1 - _GAINED * min(share, 1.0)) - price * cost[1]

    names = affordable(shares, costs, (_MOST_SPLIT, turn.bytes_left), worth)
    wide = {name: share for name, share in shares.items() if costs[name][1] > turn.bytes_left}
    proposal.skipped.update({name: reason("more-bytes", share=share) for name, share in wide.items()})
    if names:
        proposal.drafts = [draft.extended([edits[name] for name in names])]
    elif shares:
        most, name = max((share, name) for name, share in shares.items())
        why = "more-bytes.one" if name in wide else "more-bytes.unworth"
        proposal.too_many_bytes = reason(why, share=most, bytes=costs[name][1], flag=turn.taking)
    proposal.changed = {"tensors": len(names)}
    return proposal

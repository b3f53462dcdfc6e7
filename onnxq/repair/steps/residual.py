"""Residual: sums read tensors as they are, in the place of the int8 that layers read."""

from onnxq.repair.steps import Proposal, Turn, step

_MOST_MOVED = 0.05
"""Of the bytes that plain float16 moves: what sums in float may move more."""

_WORTH_DB = 1.0
"""By so much the outputs are to be nearer for an engine that moves more."""

_WORTH = 1 - 10 ** (-_WORTH_DB / 10)
_UNSURE = 2.0  # so many times the noise that something makes alone it may make beside others


@step(
    place=4, there="onnxq.repair.residual:there", search=60, reserved="many", least_db=_WORTH_DB,
    nothing="no sum reads what quantized layers read, or what they make of the noise is not worth float",
)  # fmt: skip
def residual(turn: Turn) -> Proposal:
    """As many sums as may be in float, most noise for the bytes first; see `onnxq.repair.residual`."""
    from onnxq.repair import residual
    from onnxq.repair.budget import affordable

    sums = residual.find(turn.model, turn.draft.plan)
    proposal = Proposal(skipped=dict(sums.skipped))
    if not sums.edges:
        return proposal
    turn.affordable()

    most = min(_MOST_MOVED, turn.bytes_left)
    every = [name for name in sums.edges if sums.costs[name] <= most]
    if not every:
        return proposal
    best = turn.draft.in_float(dict.fromkeys(every, residual.IN_FLOAT), turn.model)
    if turn.gain_db(best) < _WORTH_DB:  # some of them gain less than all
        return proposal
    if sum(sums.costs[name] for name in every) <= most:
        proposal.drafts, proposal.changed = [best], {"sums": len(every)}
        return proposal
    shares = turn.shares(sums.edges)
    costs = {name: (cost,) for name, cost in sums.costs.items()}
    names = affordable(shares, costs, (most,))
    if _UNSURE * sum(map(shares.__getitem__, names)) > _WORTH:
        proposal.drafts = [turn.draft.in_float(dict.fromkeys(names, residual.IN_FLOAT), turn.model)]
        proposal.changed = {"sums": len(names)}
    return proposal

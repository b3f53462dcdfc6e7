"""What is worth trying where each costs something and all together may cost so much."""

from __future__ import annotations

from collections.abc import Mapping


def affordable(gains: Mapping[str, float], costs: Mapping[str, float], most: float) -> list[tuple[str, ...]]:
    """What gains most, alone; and as many as may be, what gains most for its cost first.

    Args:
        gains: what the outputs gain by each, any unit.
        costs: what each costs, any unit.
        most: of the same unit, what all of them together may cost.

    Returns:
        One or two sets of names; none where nothing gains.
    """
    worth = {name: gain for name, gain in gains.items() if gain > 0 and costs[name] <= most}
    if not worth:
        return []
    best = max(worth, key=lambda name: (worth[name], name))
    taken, spent = [], 0.0
    for name in sorted(worth, key=lambda name: (-worth[name] / max(costs[name], 1e-9), name)):
        if spent + costs[name] <= most:
            taken.append(name)
            spent += costs[name]
    return list(dict.fromkeys([(best,), tuple(sorted(taken))]))

"""What is worth trying where each costs something and all together may cost so much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


def affordable(
    gains: Mapping[str, float], costs: Mapping[str, Sequence[float]], most: Sequence[float]
) -> list[tuple[str, ...]]:
    """What gains most, alone; and as many as may be, what gains most for its cost first.

    Args:
        gains: what the outputs gain by each, any unit.
        costs: what each costs, in each of some units.
        most: in these units, what all of them together may cost.

    Returns:
        One or two sets of names; none where nothing gains.
    """
    left = np.asarray(most, float)
    each = {name: np.asarray(costs[name], float) for name, gain in gains.items() if gain > 0}
    worth = {name: cost for name, cost in each.items() if np.all(cost <= left)}
    if not worth:
        return []
    best = max(worth, key=lambda name: (gains[name], name))
    dear = {name: float(np.max(cost / np.maximum(left, 1e-9))) for name, cost in worth.items()}
    taken: list[str] = []
    for name in sorted(worth, key=lambda name: (-gains[name] / max(dear[name], 1e-9), name)):
        if np.all(worth[name] <= left):
            taken.append(name)
            left = left - worth[name]
    return list(dict.fromkeys([(best,), tuple(sorted(taken))]))

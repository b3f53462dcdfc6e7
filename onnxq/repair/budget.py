"""What is worth trying where each costs something and all together may cost so much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np


def affordable(
    gains: Mapping[str, float],
    costs: Mapping[str, Sequence[float]],
    most: Sequence[float],
    worth: Callable[[float, Sequence[float]], float] = lambda gain, cost: gain,
) -> tuple[str, ...]:
    """As many as may be and are worth it, what gains most for its cost first.

    Args:
        gains: what the outputs gain by each, any unit.
        costs: what each costs, in each of some units.
        most: in these units, what all of them together may cost.
        worth: what a gain is worth less what it costs, of some together; by default all that gain are.

    Returns:
        Their names; none where nothing is worth what it costs.
    """
    left = np.asarray(most, float)
    each = {name: np.asarray(costs[name], float) for name, gain in gains.items() if gain > 0}
    dear = {
        name: float(np.max(cost / np.maximum(left, 1e-9)))
        for name, cost in each.items()
        if np.all(cost <= left)
    }
    gain, cost = 0.0, np.zeros(len(left))
    taken, count, best = list[str](), 0, 0.0
    for name in sorted(dear, key=lambda name: (-gains[name] / max(dear[name], 1e-9), name)):
        if np.all(cost + each[name] <= left):
            taken.append(name)
            gain, cost = gain + gains[name], cost + each[name]
            if (value := worth(gain, cost.tolist())) > best:
                best, count = value, len(taken)
    return tuple(sorted(taken[:count]))

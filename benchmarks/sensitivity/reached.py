"""Goals on trained nets: whether the sets that meet them do what is predicted, on samples that chose nothing.

    python -m benchmarks.sensitivity.reached [--nets digits,...] [--seeds 1] [--samples 32] [--rows out.jsonl]

Three goals a net: a quarter, a half and three quarters of the way from all in int8 to all in float, at most
20 dB above the default. What is predicted has to be within 1 dB of what is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.sensitivity.measuring import Opened, flags, printed, trained

PARTS = (0.25, 0.5, 0.75)
MOST = 20.0  # dB above the default
WITHIN = 1.0  # dB


@dataclass(frozen=True, slots=True)
class Row:
    """A goal.

    Attributes:
        net: its name.
        seed: of the samples.
        default: measured with all in int8 on the samples that choose, dB.
        goal: what was asked for.
        layers: how many nodes are float in what was found.
        share: which share of the int8 multiply-accumulates that is, in percent.
        trials: how many sets were measured.
        predicted: by the model.
        chosen: measured on the samples that chose.
        unseen: on samples that chose nothing.
        default_unseen: what the default measures there: how far the samples are apart by themselves.
        holds: whether predicted is within 1 dB of measured.
    """

    net: str
    seed: int
    default: float
    goal: float
    layers: int
    share: float
    trials: int
    predicted: float
    chosen: float
    unseen: float
    default_unseen: float
    holds: bool


def main() -> None:
    given = flags(__doc__)
    for seed in range(given.seeds):
        for net in trained(given.nets, seed, given.samples):
            printed(rows(net, seed), given.rows)


def rows(net: Opened, seed: int) -> Iterator[Row]:
    """The goals of a net."""
    found = net.found
    default, most = found.sqnr_db([(), tuple(found.search.nodes)])
    for part in PARTS:
        goal = default + part * min(most - default, MOST)
        met = found.for_sqnr(goal)
        best = met.best
        base, unseen = net.unseen_db([(), best.nodes])
        yield Row(
            net.name, seed, default, goal, len(best.nodes), 100 * found.costs.share(best.nodes),
            len(met.trials), best.predicted_sqnr_db, best.measured, unseen, base,
            met.met and within(best.predicted_sqnr_db, unseen),
        )  # fmt: skip


def within(predicted: float, measured: float) -> bool:
    """Whether a prediction is near enough; no noise is predicted by no noise."""
    return predicted == measured or abs(predicted - measured) <= WITHIN


if __name__ == "__main__":
    main()

"""Planted causes: whether a goal finds the layer that is to blame, and no other.

    python -m benchmarks.sensitivity.planted [--seeds 3] [--rows out.jsonl]

The goal is 0.5 dB below what leaving the planted layers float measures, which has to be 5 dB above the
default. What is found is measured again on samples that chose nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx

from benchmarks.sensitivity.measuring import FRESH, GIVEN, flags, opened, printed
from benchmarks.sensitivity.planted_nets import MAKERS, Planted, loud_in_digits, samples
from benchmarks.sensitivity.trained import Feeds, Subject, subjects

SHORT, LEAST_GAIN = 0.5, 5.0  # dB


@dataclass(frozen=True, slots=True)
class Row:
    """What a planted net showed.

    Attributes:
        net: what is planted.
        seed: of its weights and samples.
        default: measured with all in int8, dB.
        planted: with the planted layers float.
        goal: what was asked for.
        first: the decision that is ranked first.
        found: the layers that were found.
        chosen: what they measure on the samples that chose.
        verified: on samples that chose nothing.
        predicted: what the model says of them.
        holds: whether they are the planted ones, ranked first, and the goal is met.
    """

    net: str
    seed: int
    default: float
    planted: float
    goal: float
    first: str
    found: str
    chosen: float
    verified: float
    predicted: float
    holds: bool


def main() -> None:
    given = flags(__doc__, seeds=3)
    printed(rows(range(given.seeds), given.samples), given.rows)


def rows(seeds: range, measuring: int = 32) -> Iterator[Row]:
    """All planted nets."""
    for make in MAKERS:
        for seed in seeds:
            yield sought(make(seed), samples(seed + 1000, GIVEN + FRESH), seed, measuring)
    for seed in seeds:
        (digits,) = subjects(["digits"], seed, GIVEN + FRESH)
        yield sought(loud_in_digits(onnx.load(digits.model), seed), digits.samples, seed, measuring)


def sought(net: Planted, given: Sequence[Feeds], seed: int, measuring: int) -> Row:
    """Searches one: the cause is known, the tool is only given the goal."""
    subject = Subject(net.name, net.model, given)
    with opened(subject, measuring) as opening:
        found = opening.found
        default, planted = found.sqnr_db([(), tuple(net.layers)])
        goal = planted - SHORT
        met = found.for_sqnr(goal)
        first = found.ranked(verify=0)[0].nodes
        (verified,) = opening.unseen_db([met.best.nodes])
    named = frozenset(met.best.nodes)
    right = named == frozenset(first) == net.layers and met.met and planted - default >= LEAST_GAIN
    return Row(
        net.name, seed, default, planted, goal, " ".join(first), " ".join(sorted(named)), met.best.measured,
        verified, met.best.predicted_sqnr_db, right,
    )  # fmt: skip


if __name__ == "__main__":
    main()

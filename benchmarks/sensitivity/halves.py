"""How many samples are enough: rankings from one half of the samples against those from the other.

    python -m benchmarks.sensitivity.halves [--nets digits,...] [--seeds 1] [--counts 4,16] [--rows out.jsonl]

The sources are measured on so many samples, and on so many others; decisions are ranked by what they gain.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.sensitivity.measuring import Opened, printed, trained
from benchmarks.sensitivity.trained import NAMES
from onnxq.noise.measure import measure_noise
from onnxq.noise.ranking import DecisionRanked, ranked
from onnxq.noise.sources import Sources

COUNTS = (4, 16)
TOP = 5


@dataclass(frozen=True, slots=True)
class Row:
    """Two rankings.

    Attributes:
        net: its name.
        seed: of the samples.
        samples: of each half.
        decisions: how many are ranked.
        spearman: the correlation of their ranks.
        top: how many of the first 5 are the same.
        first: whether the first is the same: 1 or 0.
        base: the difference of what the halves predict of all in int8, dB.
    """

    net: str
    seed: int
    samples: int
    decisions: int
    spearman: float
    top: int
    first: int
    base: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nets", type=lambda text: text.split(","), default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--counts", type=lambda text: [int(n) for n in text.split(",")], default=COUNTS)
    parser.add_argument("--rows", type=Path)
    given = parser.parse_args()
    for seed in range(given.seeds):
        for net in trained(given.nets, seed, 2 * max(given.counts)):
            printed(rows(net, seed, given.counts), given.rows)


def rows(net: Opened, seed: int, counts: Sequence[int]) -> Iterator[Row]:
    """A net, by number of samples."""
    found = net.found
    every = [dict(feeds) for feeds in islice(found.samples(), 2 * max(counts))]
    sources = Sources.of(found.plan)
    for count in counts:
        if 2 * count > len(every):
            continue
        models = [
            measure_noise(found.copy, sources, half) for half in (every[:count], every[count : 2 * count])
        ]
        one, other = ([*ranked(model, found.decisions, found.costs)] for model in models)
        yield Row(
            net.name, seed, count, len(one), spearman(*gains(one, other)), shared(one, other),
            int(one[0].nodes == other[0].nodes), abs(models[0].sqnr_db() - models[1].sqnr_db()),
        )  # fmt: skip


def gains(one: Sequence[DecisionRanked], other: Sequence[DecisionRanked]) -> tuple[np.ndarray, np.ndarray]:
    """What the same decisions gain in both, dB, float64 [decisions]."""
    theirs = {entry.nodes: entry.gain_db for entry in other}
    pairs = np.array([(entry.gain_db, theirs[entry.nodes]) for entry in one])
    return pairs[:, 0], pairs[:, 1]


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """The correlation of ranks; of equal values the ranks are their mean. 1 where there is one value."""
    ranks = [_ranks(values) - (len(values) - 1) / 2 for values in (one, other)]
    power = float(np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum()))
    return float(ranks[0] @ ranks[1]) / power if power > 0 else 1.0


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(np.round(values, 9), return_inverse=True, return_counts=True)
    first = np.cumsum(counts) - counts
    found: np.ndarray = (first + (counts - 1) / 2)[inverse]
    return found


def shared(one: Sequence[DecisionRanked], other: Sequence[DecisionRanked], top: int = TOP) -> int:
    """How many of the first are the same."""
    return len({entry.nodes for entry in one[:top]} & {entry.nodes for entry in other[:top]})


if __name__ == "__main__":
    main()

"""What the tables share: flags, nets with their noise measured, rows that are printed as they come."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.sensitivity.trained import NAMES, Feeds, Subject, subjects
from onnxq.pipeline.accuracy import Accuracy, Asked
from onnxq.pipeline.jobs import accuracy

GIVEN = 256
"""Samples that calibrate and choose: a quarter chooses; more where more are to measure the sources."""

FRESH = 128
"""Others, that only judge, at most: a quarter of all where there are few."""


def flags(about: str | None, nets: Sequence[str] = NAMES, seeds: int = 1) -> argparse.Namespace:
    """The flags of a table."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--nets", type=lambda text: text.split(","), default=list(nets))
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--samples", type=int, default=32, help="that measure the sources")
    parser.add_argument("--rows", type=Path, help="a file that rows are appended to, as JSON")
    return parser.parse_args()


def printed(rows: Iterator[Any], path: Path | None) -> list[Any]:
    """Prints rows, which are dataclasses of one kind, one by one, and appends them to a file."""
    found = []
    for row in rows:
        values = dataclasses.asdict(row)
        if not found:
            print("  ".join(f"{name:>{_wide(name, value)}}" for name, value in values.items()))
        print("  ".join(f"{_text(v):>{_wide(name, v)}}" for name, v in values.items()), flush=True)
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps({"table": type(row).__module__, **values}) + "\n")
        found.append(row)
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "ok" if value else "MISSED"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _wide(name: str, value: Any) -> int:
    return max(len(name), 24 if isinstance(value, str) else 6)


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """A net whose scales are known.

    Attributes:
        name: its name.
        found: its noise, measured when it is asked for.
        fresh: samples that neither calibrated nor chose.
    """

    name: str
    found: Accuracy
    fresh: Sequence[Feeds]

    def unseen_db(self, sets: Sequence[Collection[str]]) -> list[float]:
        """The SQNR about the mean with each set of nodes in float, on samples that chose nothing."""
        found = (one.sqnr_about_mean_db for one in self.found.about_mean(sets, self.fresh))
        return [float("inf") if level is None else level for level in found]


@contextlib.contextmanager
def opened(subject: Subject, samples: int) -> Iterator[Opened]:
    """A net, quantized by default with a float body; `samples` measure its sources at most."""
    fresh = min(FRESH, len(subject.samples) // 4)
    given, rest = subject.samples[:-fresh], subject.samples[-fresh:]
    with accuracy(
        subject.model, given, Asked(samples=samples), body="fp32", prove="never", repair="none"
    ) as found:
        yield Opened(subject.name, found, rest)


def trained(names: Sequence[str], seed: int, samples: int) -> Iterator[Opened]:
    """Trained nets, one after another."""
    for subject in subjects(names, seed, max(GIVEN, 4 * samples) + FRESH):
        with opened(subject, samples) as net:
            yield net

"""Dividing samples: those that calibrate, that choose, that confirm what was chosen, and that verify."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import TypeVar

from onnxq.base.errors import UserError
from onnxq.data.samples import Sample
from onnxq.data.sources import Source

_HOLD_EVERY, _CHOOSE_EVERY = 8, 4
HELD_OUT, CHOOSING = 64, 128
"""How many samples verify, and choose, at most, of those that could also calibrate."""

VERIFYING = 128
"""How many verify at most with those that are left over, no more of these than calibrate. An interval of 128
is 0.7 as wide as that of 64; 256 cost a fifth of a run."""

BLOCKS = (16, 64)
"""After how many samples that choose, hopeless candidates are left out, and what is clear is decided."""

_LEAST_HALVED = 8  # that calibrate: from so many on each half of them may judge what the other fitted


_LEAST_PARTED = 4  # of those that choose: from so many on, half of them may confirm


T = TypeVar("T")


class Split(ABC):
    """Samples divided into those that calibrate, choose and verify; what verifies does nothing else.

    Those that choose calibrate as well, unless others did before or there are more than are asked for:
    ranges of all of them hold more of what is rare, and next to nothing of which method is best. Where
    decisions are to be confirmed, samples that do nothing else do so; where these are too few, half of
    those that choose scales, and the other half proposes.

    Attributes:
        shared: whether samples that calibrate verify too, because there are no others; of an iterator,
            known after the calibration pass.
        used: how many samples calibrate; of an iterator, None.
        chosen_with: how many choose; of an iterator, known after the calibration pass.
        either: how many calibrate or choose; of an iterator, None.
        choosing: which choose, where they can be read again.
        confirming: which confirm; of an iterator, known after the calibration pass. None of them verifies.
        proposing_with: how many of those that choose do not confirm; likewise.
        held: how many verify; likewise.
        left_over: how many of these do so because nothing else needs them.
        held_indices: which verify, where they can be read again.
        calibrating: which calibrate, in the order in which they are read; of an iterator, none.
        halves: two halves of these, so that each may judge what the other fitted; none of few, or of an
            iterator. Samples of the same content are in one.
        indices: all that are read; likewise.
    """

    shared = False
    calibrating: tuple[int, ...] = ()
    halves: tuple[tuple[int, ...], ...] = ()
    indices: tuple[int, ...] = ()
    used: int | None = None
    chosen_with: int | None = None
    either: int | None = None
    choosing: frozenset[int] = frozenset()
    confirming: frozenset[int] = frozenset()
    proposing_with: int | None = None
    held: int | None = None
    left_over: int = 0
    held_indices: tuple[int, ...] | None = None

    @property
    def room(self) -> int:
        """How many of the others may judge beside those that verify."""
        return max(0, HELD_OUT - (self.held or 0))

    @abstractmethod
    def calibration(self) -> Iterator[Sample]:
        """The samples that calibrate; of an iterator, a second time: some, if none choose."""

    @abstractmethod
    def choice(self) -> Iterator[Sample]:
        """The samples that choose among scales; of an iterator, after the calibration pass.

        There may be none: of a few samples, or where all of these are bad and left out.
        """

    @abstractmethod
    def proposal(self) -> Iterator[Sample]:
        """Those that choose, and do not confirm."""

    @abstractmethod
    def confirmation(self) -> Iterator[Sample]:
        """The samples that say whether what others propose is kept; of an iterator, after the calibration.

        There may be none, as of those that choose.
        """

    @abstractmethod
    def held_out(self) -> Iterator[Sample]:
        """The samples that verify; of an iterator, after the calibration pass."""


def split(
    source: Source,
    samples: int,
    seed: int,
    *,
    choose: bool = False,
    confirm: bool = False,
    seen: Collection[int] | None = None,
) -> Split:
    """Divides a source, so that no sample that verifies does anything else.

    Of N samples, the content of each and `seed` decide: an eighth, at least 1 and at most 64, verifies; a
    quarter, at most 128, chooses where `choose` is set; and at most `samples` of the others calibrate.
    Those that choose calibrate as well where there are no more than `samples` with them. What is left over
    verifies, too, up to 128 in all, and no more of it than calibrate. Samples of the same content are in
    one part, where there are others for the other parts. Of an iterator, samples 0, 8, 16, ... verify and,
    where `choose` is set, 4, 12, 20, ... choose, at most as many (they are kept in memory), and all but
    those that verify calibrate, at most `samples`: there it is read no further.

    Where `confirm` is set, as many as verify without what is left over confirm, of those that do nothing
    else; where there are not so many, or of an iterator, every other one of those that choose does, if these
    are 4 at least. Which calibrate and choose does not depend on it.

    Args:
        source: the samples.
        samples: how many calibrate at most.
        seed: with the contents, it decides which are for what.
        choose: whether some are to choose among scales.
        confirm: whether some are to say whether what others propose is kept.
        seen: indices of the samples that calibrated before, which do not verify, and choose only where they
            would have; None: calibration is still to come.

    Raises:
        UserError: `samples` is less than 1, or there are others to be had once only that were seen.
    """
    if samples < 1:
        raise UserError(f"{samples} calibration samples were asked for", hint="there must be at least 1")
    if source.count is None:
        _refuse_seen(seen)
        return _StreamSplit(source, samples, choose, confirm)
    if source.count == 1:
        return _IndexSplit(source, [0], [0] if choose else [], [], [0])
    by_content = source.order
    keys = by_content.keys
    order = _good_last(source, by_content.shuffled(seed))
    held = min(HELD_OUT, max(1, source.count // _HOLD_EVERY))
    chosen = min(CHOOSING, source.count // _CHOOSE_EVERY) if choose else 0
    used, seen_keys = None, {keys[i] for i in seen or ()}

    def ends() -> tuple[int, int]:
        """Where those that choose begin, and those that verify: some are left to calibrate."""
        verifies = by_content.between(order, len(order) - held)
        least = max(used is None, verifies - chosen)
        return by_content.between(order[:verifies], least) if chosen else verifies, verifies

    chooses, verifies = ends()
    if seen is not None:
        used = [i for i in order if i in seen]
        chose = all(keys[i] in seen_keys for i in order[chooses:verifies])
        if not chose or any(keys[i] in seen_keys for i in order[verifies:]):  # they were others
            order = _good_last(source, [i for i in order if keys[i] not in seen_keys] or used)
            chooses, verifies = ends()
    if used is None:
        used = order[: min(samples, chooses)]
    choosing, confirming = order[chooses:verifies], list[int]()
    decided = {keys[i] for i in used}
    idle = [i for i in order[:chooses] if keys[i] not in decided]
    if confirm:
        fewest = max(2, held)
        confirming = idle[-fewest:] if len(idle) >= fewest else _every_other(choosing)
    decided |= {keys[i] for i in (*choosing, *confirming)}
    left = [i for i in idle if keys[i] not in decided]
    more = max(0, min(VERIFYING - len(order[verifies:]), len(used)))
    calibrating = list(dict.fromkeys((*used, *choosing)))
    calibrating = calibrating if seen is None and len(calibrating) <= samples else used
    return _IndexSplit(source, calibrating, choosing, confirming, order[verifies:], left[:more])


def given_for(judging: int) -> int:
    """How many samples are to be given, at least, for so many to judge.

    Up to `HELD_OUT` all of them do, each by what others fitted; of more an eighth verifies.
    """
    return judging if judging <= HELD_OUT else _HOLD_EVERY * judging


def _halves(source: Source, calibrating: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    keys = source.order.keys
    rank = {key: place for place, key in enumerate(dict.fromkeys(keys[index] for index in calibrating))}
    if len(rank) < _LEAST_HALVED or source.skip_bad:
        return ()
    return tuple(tuple(index for index in calibrating if rank[keys[index]] % 2 == half) for half in (0, 1))


def _refuse_seen(seen: Collection[int] | None) -> None:
    """Refuses samples that calibrated before, of data that are to be had once only."""
    if seen is not None:
        raise UserError(
            "the data is an iterator: which of its samples calibrated before is not known",
            hint="give a path or a list, or calibrate anew",
        )


def _every_other(choosing: list[T]) -> list[T]:
    return choosing[1::2] if len(choosing) >= _LEAST_PARTED else []


def _good_last(source: Source, order: list[int]) -> list[int]:
    """The order with a good sample at its end, for verification; bad ones from there come first."""
    if not source.skip_bad:
        return order
    bad = next((n for n, index in enumerate(reversed(order)) if any(source.good([index]))), 0)
    return order[len(order) - bad :] + order[: len(order) - bad]


class _IndexSplit(Split):
    """Chosen indices of a source that can be read again."""

    def __init__(
        self,
        source: Source,
        used: Sequence[int],
        chosen: Sequence[int],
        confirming: Sequence[int],
        held: Sequence[int],
        left: Sequence[int] = (),
    ) -> None:
        self._source = source
        self.calibrating = source.order.sorted(used)
        self.indices = source.order.sorted({*used, *chosen, *confirming, *held, *left})
        self.halves = _halves(source, self.calibrating)
        self.used = len(used)
        self._chosen = chosen
        self.chosen_with, self.either = len(chosen), len({*used, *chosen})
        self.choosing, self.confirming = frozenset(chosen), frozenset(confirming)
        self.proposing_with = len(self.choosing - self.confirming)
        self._held, self.left_over = source.order.sorted([*held, *left]), len(left)
        self.held, self.held_indices = len(self._held), self._held
        self.shared = not set(used).isdisjoint(held)

    def calibration(self) -> Iterator[Sample]:
        any_good = False
        for sample in self._source.good(self.calibrating):
            any_good = True
            yield sample
        if not any_good:
            self.shared = True
            yield from self._source.read(self._held)

    def choice(self) -> Iterator[Sample]:
        return self._in_blocks(self._chosen)

    def proposal(self) -> Iterator[Sample]:
        return self._in_blocks([index for index in self._chosen if index not in self.confirming])

    def _in_blocks(self, indices: Sequence[int]) -> Iterator[Sample]:
        for start, end in itertools.pairwise((0, *BLOCKS, len(indices))):
            if start < end:
                yield from self._source.good(indices[start:end])

    def confirmation(self) -> Iterator[Sample]:
        return self._source.good(self._source.order.sorted(self.confirming))

    def held_out(self) -> Iterator[Sample]:
        return self._source.read(self._held)


class _StreamSplit(Split):
    """One pass over an iterator, which keeps the samples that do not calibrate."""

    def __init__(self, source: Source, samples: int, choose: bool, confirm: bool) -> None:
        self._source = source
        self._samples = samples
        self._confirm = confirm
        places = (0, _CHOOSE_EVERY) if choose else (0,)
        self._kept: dict[int, list[Sample]] = {place: [] for place in places}
        self._first: list[Sample] | None = None  # of those that calibrate, until one is there to choose

    def calibration(self) -> Iterator[Sample]:
        if self._first is not None:
            yield from self._first
            return
        self._first = []
        used = 0
        for sample in self._source:
            place = sample.index % _HOLD_EVERY if self._kept[0] else 0
            kept = None if place and not used else self._kept.get(place)  # without one there is no scale
            if kept is not None and len(kept) < (CHOOSING if kept is not self._kept[0] else HELD_OUT):
                kept.append(sample)
                if not place:
                    continue
            if any(not samples for samples in self._kept.values()) and len(self._first) < CHOOSING:
                self._first.append(sample)
            yield sample
            used += 1
            if used == self._samples:
                return
        if not used:  # there was one sample
            self.shared = True
            self._first = self._kept[0][:1]
            yield self._first[0]

    def choice(self) -> Iterator[Sample]:
        kept = self._kept.get(_CHOOSE_EVERY, [])
        self.confirming = frozenset(sample.index for sample in self.confirmation())
        self.chosen_with, self.held = len(kept), len(self._kept[0])
        self.proposing_with = len(kept) - len(self.confirming)
        return iter(kept)

    def proposal(self) -> Iterator[Sample]:
        return (sample for sample in self.choice() if sample.index not in self.confirming)

    def confirmation(self) -> Iterator[Sample]:
        return iter(_every_other(self._kept.get(_CHOOSE_EVERY, [])) if self._confirm else ())

    def held_out(self) -> Iterator[Sample]:
        self.held = len(self._kept[0])
        return iter(self._kept[0])

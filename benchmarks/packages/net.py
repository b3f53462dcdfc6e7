"""A net of a package: its file, its samples, and what its answers are worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.packages.running import Feeds, Noise, Outputs, Runner

MOST = 64
"""How many samples fit, at most: these never judge, however many of them are used."""

_MEASURED = 32  # samples whose outputs are compared number by number


@dataclass(frozen=True, slots=True)
class Sample:
    """What a net is fed.

    Attributes:
        feeds: its inputs.
        truth: what is known of it: boxes, a mask, a text; None where nothing is.
    """

    feeds: Feeds
    truth: Any = None


@dataclass(frozen=True, slots=True)
class Pool:
    """All samples that there are of a net, made when they are asked for.

    Attributes:
        sources: what each is made of.
        make: a sample of a source.
        groups: of which photograph or recording each is: those of one never both fit and judge.
    """

    sources: Sequence[Any]
    make: Callable[[Any], Sample]
    groups: Sequence[Any]

    @staticmethod
    def of(sources: Sequence[Any], make: Callable[[Any], Sample], group: Callable[[Any], Any] = id) -> Pool:
        """The pool of sources, which are grouped by what `group` says of each."""
        return Pool(sources, make, [group(source) for source in sources])

    def divided(self, split: int, most: int) -> tuple[list[int], list[int]]:
        """The places of those that may fit, so many or half of all, and of the others."""
        groups = list(dict.fromkeys(self.groups))
        order = np.random.default_rng(split).permutation(len(groups))
        members: dict[Any, list[int]] = {}
        for place, group in enumerate(self.groups):
            members.setdefault(group, []).append(place)
        fitting: list[int] = []
        used, least = 0, min(most, len(self.sources) // 2)
        while len(fitting) < least:
            fitting += members[groups[order[used]]]
            used += 1
        judging = [place for number in order[used:] for place in members[groups[number]]]
        return fitting, judging


@dataclass(slots=True)
class Judges(Sequence[Sample]):
    """Samples that judge, and what the float model answers to them.

    Attributes:
        pool: what they are of.
        places: their places in it.
        exact: the float model's answers, once they were asked for.
    """

    pool: Pool
    places: Sequence[int]
    exact: list[Any] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Judges(self.pool, self.places[place])
        return self.pool.make(self.pool.sources[self.places[place]])

    def __iter__(self) -> Iterator[Sample]:
        return (self[place] for place in range(len(self)))


Figure = dict[str, float]
"""What answers are worth: the first is the figure of the task; `of` is how many the float net has."""


@dataclass(frozen=True, slots=True)
class Net:
    """A net of a package.

    Attributes:
        name: its name.
        package: what holds it, with its version.
        licence: of the package, as it says.
        task: what it is for.
        model: gives the float model's file, which it fetches.
        pool: gives all samples.
        answer: what is read of its outputs and a sample.
        score: the figure of the float model's answers, a candidate's, and the truths.
        judges: how many samples judge, at most.
        most: how many fit, at most.
    """

    name: str
    package: str
    licence: str
    task: str
    model: Callable[[], Path]
    pool: Callable[[], Pool]
    answer: Callable[[Outputs, Sample], Any]
    score: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Figure]
    judges: int = 200
    most: int = MOST

    def samples(self, split: int = 0, fitting: int = 24) -> tuple[list[Feeds], Judges]:
        """What fits, and what judges: of other photographs, files or recordings.

        The same judge however many fit; where fewer fit, these are the first of the more.

        Args:
            split: the seed by which they are divided.
            fitting: how many fit.
        """
        pool = self.pool()
        fit, judge = pool.divided(split, self.most)
        return [pool.make(pool.sources[place]).feeds for place in fit[:fitting]], Judges(
            pool, judge[: self.judges]
        )

    def figure(self, candidate: Path | onnx.ModelProto, judges: Judges) -> Figure:
        """What a candidate's answers are worth, and the SQNR of its worst output on some of the samples, dB.

        Of the float model itself it is what that is worth by labels, where there are any.
        """
        runner, noise = Runner(candidate), Noise()
        exact_runner = None if candidate == self.model() else Runner(self.model())
        exact, given, truths = list[Any](), list[Any](), list[Any]()
        for place, sample in enumerate(judges):
            outputs = runner(sample.feeds)
            given.append(self.answer(outputs, sample))
            truths.append(sample.truth)
            if judges.exact is None or place < _MEASURED:
                wanted = outputs if exact_runner is None else exact_runner(sample.feeds)
                exact.append(self.answer(wanted, sample))
                if place < _MEASURED:
                    noise.add(wanted, outputs)
        if judges.exact is None:
            judges.exact = exact
        return {**self.score(judges.exact, given, truths), "SQNR dB": noise.worst()}

    def as_float(self, judges: Judges) -> Figure:
        """The figure of the float model."""
        return self.figure(self.model(), judges)


def share(part: float, whole: float) -> float:
    """Percent; not a number of nothing."""
    return 100 * part / whole if whole else float("nan")


def fixed(source: Path, target: Path, shapes: Mapping[str, Sequence[int]]) -> Path:
    """A model whose inputs have these sizes; those of its other tensors follow from them."""
    if not target.is_file():
        model = onnx.load(source)
        del model.graph.value_info[:]
        for info in model.graph.output:
            info.type.tensor_type.ClearField("shape")
        for info in model.graph.input:
            if info.name in shapes:
                given = onnx.helper.make_tensor_type_proto(info.type.tensor_type.elem_type, shapes[info.name])
                info.type.CopyFrom(given)
        onnx.save(onnx.shape_inference.infer_shapes(model), target)
    return target

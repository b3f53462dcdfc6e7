"""A look at samples that are read anyway, for what is doubtful about them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from onnxq.data.first_norm import FirstNorm, first_norm
from onnxq.data.images import layout_of
from onnxq.data.model_scaling import ModelScaling, model_scaling
from onnxq.data.pictures import Album, PictureSheet
from onnxq.data.samples import InputSpec, Sample
from onnxq.data.sources import Source
from onnxq.data.survey import InputSurvey, Survey
from onnxq.data.warnings import DataDoubts, DataWarning, PreparationLook, data_warnings, doubt
from onnxq.graph.model import Model
from onnxq.graph.recurrence import begins

LOOKED_AT = 16
"""How many samples are looked at: enough to see what is wrong with all of them, and little work."""


class Glance:
    """Looks at the first samples that a source gives, each once, however often it is read.

    Attributes:
        pictures: whether small pictures are kept.
        norms: what the model knows of its inputs from training, by their names.
        look: what the float model says of how its pictures are prepared, found by others.
    """

    def __init__(
        self, model: Model, inputs: list[InputSpec], source: Source, *, pictures: bool = False
    ) -> None:
        """Of a source for these inputs of a model, which is as the user gave it; `pictures`: keep some."""
        self.pictures = pictures
        self._album = Album() if pictures else None
        self._inputs, self._source = inputs, source
        self._known_survey: Survey | None = None
        self._seen: set[int] = set()
        self._shapes: dict[int, tuple[tuple[str, tuple[int, ...]], ...]] = {}  # by the sample's index
        self._known: dict[Any, Any] = {}  # each of these once
        self._own: Mapping[str, ModelScaling] = {}
        self._states: Collection[str] = ()
        self.norms: Mapping[str, FirstNorm] = {}
        self.look = PreparationLook()
        self._fault = ""
        try:
            self._own, self._states = model_scaling(model), begins(model)
            self.norms = norms(model, inputs)
        except Exception as error:  # a fault of ours here costs the look, not the run
            self._fault = _text(error)
        source.look = self._add

    @property
    def inputs(self) -> Sequence[InputSurvey]:
        """What each input was fed in the samples that were looked at."""
        return self._survey.inputs

    @property
    def _survey(self) -> Survey:
        """What samples look like; how images became inputs is known as soon as one was read."""
        if self._known_survey is None:
            self._known_survey = Survey(self._inputs, self._source.images)
        return self._known_survey

    def doubts(self, *, count: int | None) -> DataDoubts:
        """What is doubtful, and how many samples were looked at.

        `count`: how many there are, to tell that they are few; None: that is not told.
        """
        doubts: list[DataWarning] = []
        if not self._fault:
            try:
                doubts = data_warnings(
                    self._survey, self._own, count=self._source.count if count is None else count,
                    batch=self._source.batch, bad=0, few=count is not None, states=self._states,
                )  # fmt: skip
            except Exception as error:  # as above
                self._fault = _text(error)
        if self._fault:
            doubts = [doubt("not-looked-at", fault=self._fault)]
        return DataDoubts(tuple(self.look.beside(doubts)), self._survey.samples)

    def sizes(self, without: Collection[int] = ()) -> Sequence[Mapping[str, tuple[int, ...]]]:
        """The shapes of the inputs in each sample that was read, but those of these indices."""
        return [dict(shapes) for index, shapes in sorted(self._shapes.items()) if index not in without]

    def sheets(self) -> tuple[PictureSheet, ...]:
        """Pictures of samples; none where none are kept, or a fault of ours."""
        try:
            return self._album.sheets() if self._album is not None else ()
        except Exception:  # as above
            return ()

    def _add(self, sample: Sample) -> None:
        shapes = tuple((name, array.shape) for name, array in sample.feeds.items())
        self._shapes[sample.index] = self._known.setdefault(shapes, shapes)
        if self._fault or len(self._seen) == LOOKED_AT or sample.index in self._seen:
            return
        self._seen.add(sample.index)
        try:
            self._survey.add(sample)
        except Exception as error:  # as above
            self._fault = _text(error)
        if self._album is not None:
            try:
                self._album.add(sample)
            except Exception:  # as above
                self._album = None


def norms(model: Model, inputs: Sequence[InputSpec]) -> dict[str, FirstNorm]:
    """What a model knows from training of those of its inputs that may be pictures."""
    found = {one.name: first_norm(model, one.name) for one in inputs if layout_of(one) is not None}
    return {name: norm for name, norm in found.items() if norm is not None}


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

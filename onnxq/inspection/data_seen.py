"""Data as a model will see them: shapes, ranges, what is doubtful, and a contact sheet."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import numpy as np

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.shown import Shown, Words, count, model_name
from onnxq.data.contact_sheet import ContactSheet, is_sheet
from onnxq.data.glance import norms
from onnxq.data.model_scaling import model_scaling
from onnxq.data.samples import InputSpec, named, specs_of, watched
from onnxq.data.sources import DataSource, open_source
from onnxq.data.survey import InputSurvey, Survey
from onnxq.data.understood import DataRead
from onnxq.data.warnings import DataWarning, data_warnings
from onnxq.documents.data import path_of
from onnxq.emit.files import check_output, save_file
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.recurrence import begins
from onnxq.options.call_options import LookOptions
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.options.settings import Inputs, Look
from onnxq.pipeline.preparation import MOST, AsTrained, preparation_seen
from onnxq.task.known import KnownTask

_ROWS = 10


@dataclass(frozen=True, slots=True)
class ShapeFed(DocumentPart):
    """A shape that an input was fed.

    Attributes:
        shape: its sizes.
        samples: in how many samples.
    """

    shape: tuple[int, ...]
    samples: int


@dataclass(frozen=True, slots=True)
class ChannelFed(DocumentPart):
    """A channel of images.

    Attributes:
        mean: the mean of its values.
        std: their standard deviation.
    """

    mean: float
    std: float


@dataclass(frozen=True, slots=True)
class InputSeen(DocumentPart):
    """What an input was fed.

    Attributes:
        name: its name.
        dtype: its type.
        shape: its shape in the model, sizes and symbols; None where it is not known.
        layout: NCHW, NHWC, CHW or HWC of images; None where there are no channels to tell apart.
        shapes: the shapes that it was fed.
        min: the least value; None where there were no numbers, as the following.
        max: the greatest value.
        mean: the mean of all values.
        std: their standard deviation.
        zeros: which share of them is zero, 0 to 1.
        channels: each channel of images; None where there are none to tell apart.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    layout: str | None
    shapes: tuple[ShapeFed, ...]
    min: float | None
    max: float | None
    mean: float | None
    std: float | None
    zeros: float | None
    channels: tuple[ChannelFed, ...] | None

    @classmethod
    def of(cls, entry: InputSurvey) -> InputSeen:
        """What an input was fed; without a mean and all that follows where there were no numbers."""
        channels, spec = entry.channels, entry.spec
        mean, std = (None, None) if channels is None else channels.whole()
        each = None
        if channels is not None and entry.layout:
            pairs = zip(channels.mean.tolist(), channels.std.tolist(), strict=True)
            each = tuple(ChannelFed(*pair) for pair in pairs)
        return cls(
            name=spec.name, dtype=str(spec.dtype), shape=None if spec.shape is None else tuple(spec.shape),
            layout=entry.layout, shapes=tuple(ShapeFed(*one) for one in entry.shapes.items()), min=entry.min,
            max=entry.max, mean=mean, std=std, zeros=None if channels is None else entry.zeros / entry.values,
            channels=each,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sheet(DocumentPart):
    """A contact sheet.

    Attributes:
        file: the PNG file.
        images: how many images it shows.
        captions: what it shows of each input.
    """

    file: str
    images: int
    captions: tuple[str, ...]


@dataclass(frozen=True, slots=True, repr=False)
class DataSeen(Shown, DocumentPart):
    """Data as a model will see them.

    Attributes:
        kind: "data".
        schema: 3.
        model: the path of the model, None for one in memory.
        data: where the data are, and how they were understood; bad samples are under `skipped`.
        count: how many samples there are; None where only a pass over all of them tells.
        samples: how many were read.
        inputs: what each input was fed.
        warnings: what is doubtful, and what to do about it.
        sheet: the contact sheet; None where none was written.
        config: the settings file that the command read, None for none.
    """

    kind: str
    schema: int
    model: str | None
    data: DataRead
    count: int | None
    samples: int
    inputs: tuple[InputSeen, ...]
    warnings: tuple[DataWarning, ...]
    sheet: Sheet | None
    config: str | None = None

    def words(self) -> Words:
        """How much was read, what each input was fed, and what is doubtful."""
        facts = [*self.data.lines, *(f"{one.name}: {_range(one)}" for one in self.inputs)]
        rows = [(one.kind, one.text, one.hint) for one in self.warnings[:_ROWS]]
        doubts = count(len(self.warnings), "warning") if self.warnings else "nothing is doubtful"
        head = f"data of {model_name(self.model)}: {count(self.samples, 'sample')} read, {doubts}"
        return Words(head, facts, ("warning", "what", "do"), rows)


def _range(seen: InputSeen) -> str:
    return "no numbers" if seen.min is None else f"{seen.min:.6g} to {seen.max:.6g}, mean {seen.mean:.4g}"


@takes_options
def look(
    model: ModelSource,
    data: DataSource,
    *,
    samples: int | None = None,
    sheet: str | os.PathLike[str] | bool = False,
    force: bool = False,
    observe: Observer | None = None,
    **options: Unpack[LookOptions],
) -> DataSeen:
    """Shows data as a model will see them; bad samples are left out and warned of.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: as in `onnxq.quantize`.
        samples: how many are read; None: 64.
        sheet: the contact sheet of images to write, `X.png`; True: `MODEL.data.png` in the working folder,
            where an input is an image.
        force: replace a file that is no such sheet.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `skip_bad=True`.

    Raises:
        UserError: the model, the data or an option cannot be used.
        TypeError: there is no such keyword.
    """
    asked = Options.of("look", options)
    feeding = asked.feeding
    most, tell = Look().samples if samples is None else samples, told(observe)
    if most < 1:
        raise UserError(f"--samples {most}: there must be at least 1")
    opened, specs = opened_with(model, asked.inputs)
    specs = named(specs, feeding.input_names)
    # bad samples are what one wants to know of here: all of them, not the first
    source = open_source(data, specs, options=asked.images, skip_bad=True)
    survey = Survey(specs, source.images)
    pictures = ContactSheet(survey.inputs)
    output = None
    if not isinstance(sheet, bool) or (sheet and pictures):
        output = _sheet_path(None if isinstance(sheet, bool) else Path(sheet), opened.path, force)
    if output is not None and not pictures:
        raise UserError("no input is an image of 1 or 3 channels to show", hint="leave --sheet out")
    total = most if source.count is None else min(most, source.count)
    tell("read", None, None)
    for sample in watched(itertools.islice(source, most), lambda done: tell("read", done, total)):
        survey.add(sample)
        pictures.add(sample)
    if output is not None:
        save_file(output, pictures.png())
    understood = source.told(path_of(data))
    number = survey.samples if survey.samples < most else source.count
    bad = 0 if feeding.skip_bad else understood.skipped.count
    doubtful = data_warnings(
        survey, model_scaling(opened), count=number, batch=source.batch, bad=bad, states=begins(opened)
    )
    if source.count is not None:
        tell("data", None, None)
        spread = range(0, source.count, max(1, source.count // MOST))[:MOST]
        trained, good = _as_trained(opened, specs), source.good(spread)
        doubtful = preparation_seen(trained, survey.inputs, good, source.count).beside(doubtful)
    drawn = None if output is None else Sheet(str(output), pictures.tiles, tuple(pictures.captions))
    return DataSeen(
        kind="data",
        schema=3,
        model=None if opened.path is None else str(opened.path),
        data=understood,
        count=source.count,
        samples=survey.samples,
        inputs=tuple(map(InputSeen.of, survey.inputs)),
        warnings=tuple(doubtful),
        sheet=drawn,
    )


def opened_with(source: ModelSource, stated: Inputs) -> tuple[Model, list[InputSpec]]:
    """A model with what the user states about its inputs, and these.

    Raises:
        UserError: the model cannot be read, or a statement does not fit it.
    """
    model = Model.open(source)
    for name, value in (stated.freeze or {}).items():
        model.freeze_input(name, np.asarray(value))
    for name, wanted in (stated.shapes or {}).items():
        model.set_input_shape(name, wanted)
    symbols = model.dim_symbols()
    for name in stated.assume or {}:
        if name not in symbols:
            raise unknown_name("dynamic dimension", name, sorted(symbols))
    model.bind_dims(stated.assume or {})
    model.check_fed()
    return model, specs_of(model)


def _as_trained(model: Model, specs: Sequence[InputSpec]) -> AsTrained:
    outputs = [tensor.name for tensor in model.outputs]
    layout = KnownTask.of(None, model, outputs).layout
    return AsTrained.of(model.to_proto(), model, layout, norms(model, specs))


def _sheet_path(given: Path | None, model: Path | None, force: bool) -> Path:
    """Where the contact sheet goes to; an earlier one is replaced."""
    path = given or Path(f"{'model' if model is None else model.stem}.data.png")
    if path.suffix.lower() != ".png":
        raise UserError(f"the contact sheet {str(path)!r} is not named *.png", hint="it is a PNG file")
    check_output(path, model, force=force or is_sheet(path), record=path)
    return path

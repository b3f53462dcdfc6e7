"""`onnxq data`: shows data as the model will see them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxq import settings
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.errors import UserError, unknown_name

if TYPE_CHECKING:
    from onnxq.data.samples import InputSpec
    from onnxq.graph.model import Model


@takes(
    settings.DataPlace, settings.Look, settings.Feeding, settings.ImageOptions, settings.Inputs, config=True
)
def data(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    sheet: Annotated[
        Path | None,
        typer.Option(
            "-o", "--sheet", metavar="X.png", help="The contact sheet to write; MODEL.data.png by default."
        ),
    ] = None,
    force: flags.Force = False,
) -> None:
    """Show data as the model will see them.

    Shapes and ranges of each input, warnings where they do not look as the model expects, and a
    contact sheet of images. Bad samples are left out and warned of.
    """
    from onnxq.cli.pages.data import data_page
    from onnxq.data.contact_sheet import ContactSheet
    from onnxq.data.model_scaling import model_scaling
    from onnxq.data.samples import named, watched
    from onnxq.data.sources import open_source
    from onnxq.data.survey import Survey
    from onnxq.data.warnings import data_warnings
    from onnxq.emit.files import save_file

    samples = chosen.group(settings.Look).samples
    if samples < 1:
        raise UserError(f"--samples {samples}: there must be at least 1")
    place, feeding = chosen.place, chosen.group(settings.Feeding)
    opened, specs = _open(model, chosen.group(settings.Inputs))
    specs = named(specs, feeding.input_names)
    # bad samples are what one wants to know of here: all of them, not the first
    source = open_source(chosen.source(), specs, options=chosen.images, skip_bad=True)
    survey = Survey(specs, source.images)
    pictures = ContactSheet(survey.inputs)
    output = _sheet_path(sheet, model, force) if pictures or sheet else None
    if sheet and not pictures:
        raise UserError("no input is an image of 1 or 3 channels to show", hint="leave --sheet out")
    total = samples if source.count is None else min(samples, source.count)
    with screen.progress() as observe:
        observe("read", None, None)
        for sample in watched(itertools.islice(source, samples), lambda done: observe("read", done, total)):
            survey.add(sample)
            pictures.add(sample)
        if output is not None:
            save_file(output, pictures.png())
    told = source.to_json()
    known = survey.samples if survey.samples < samples else source.count
    doubtful = data_warnings(
        survey, model_scaling(opened),
        count=known, batch=source.batch, bad=0 if feeding.skip_bad else told["skipped"]["count"],
    )  # fmt: skip
    document = {
        "schema": 1,
        "model": str(model),
        "data": {"path": None if place.path is None else str(place.path), "script": place.script, **told},
        "count": source.count,
        "samples": survey.samples,
        "inputs": [entry.to_json() for entry in survey.inputs],
        "warnings": [doubt.to_json() for doubt in doubtful],
        "sheet": None
        if output is None
        else {"file": str(output), "images": pictures.tiles, "captions": pictures.captions},
    }
    chosen.tell(document)
    screen.show(data_page(document))
    screen.document(document)


def _open(path: Path, stated: settings.Inputs) -> tuple[Model, list[InputSpec]]:
    """A model with what the user states about its inputs, and these."""
    import numpy as np

    from onnxq.data.samples import InputSpec
    from onnxq.graph.model import Model

    model = Model.open(path)
    for name, value in (stated.freeze or {}).items():
        model.freeze_input(name, np.asarray(value))
    for name, wanted in (stated.shapes or {}).items():
        model.set_input_shape(name, wanted)
    symbols = model.dim_symbols()
    for name in stated.assume or {}:
        if name not in symbols:
            raise unknown_name("dynamic dimension", name, sorted(symbols))
    model.bind_dims(stated.assume or {})
    specs = []
    for name, dtype, shape in model.inputs:
        if dtype is None:
            raise UserError(f"the type of input {name!r} is not known")
        specs.append(InputSpec(name, dtype, shape))
    return model, specs


def _sheet_path(given: Path | None, model: Path, force: bool) -> Path:
    """Where the contact sheet goes to; an earlier one is replaced."""
    from onnxq.data.contact_sheet import is_sheet
    from onnxq.emit.files import check_output

    path = given or Path(f"{model.stem}.data.png")
    if path.suffix.lower() != ".png":
        raise UserError(f"the contact sheet {str(path)!r} is not named *.png", hint="it is a PNG file")
    check_output(path, model, force=force or is_sheet(path), record=path)
    return path

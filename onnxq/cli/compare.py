"""`onnxq compare`: the outputs of two models, side by side."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import typer

from onnxq import settings
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.errors import UserError, unknown_name


@takes(
    settings.DataPlace, settings.Feeding, settings.ImageOptions, settings.Goal, settings.Runtime,
    renamed={"path": "--data"}, without=("max_float", "costs", "measure", "time_limit"),
)  # fmt: skip
def compare(
    screen: Screen,
    chosen: Chosen,
    reference: Annotated[Path, typer.Argument(metavar="A", help="The reference.", show_default=False)],
    candidate: Annotated[Path, typer.Argument(metavar="B", help="The model to compare.", show_default=False)],
    samples: Annotated[
        int | None, typer.Option(metavar="N", help="How many samples at most; all by default.")
    ] = None,
) -> int:
    """Compare the outputs of two models on data.

    Exit code 1 where --min-sqnr, --min-agreement or --max-drop is not met; A is the float model there.
    """
    from onnxq.body.emulate import Emulated
    from onnxq.cli.pages.accuracy import accuracy_page
    from onnxq.data.samples import InputSpec, named, watched
    from onnxq.data.sources import open_source
    from onnxq.graph.half import speaks_half
    from onnxq.graph.model import Model
    from onnxq.pipeline.gates import Drawn, drop_of, gates_part
    from onnxq.pipeline.scoring import Score, callable_of
    from onnxq.run import ort
    from onnxq.run.compare import compare_models
    from onnxq.run.versions import unreadable

    if samples is not None and samples < 1:
        raise UserError(f"--samples {samples}: there must be at least 1")
    goal = chosen.group(settings.Goal)
    score = None if goal.eval is None else Score.of(goal.eval)
    models = [Model.open(path) for path in (reference, candidate)]
    for path, model in zip((reference, candidate), models, strict=True):
        why = unreadable(model.source)
        if why is not None:
            raise UserError(f"{str(path)!r} has {why}", hint="export it with an older opset")
    specs = [InputSpec(name, dtype, shape) for name, dtype, shape in models[0].inputs if dtype is not None]
    for name, _, _ in models[1].inputs:
        if name not in [spec.name for spec in specs]:
            raise unknown_name(f"input of {str(reference)!r} named", name, [spec.name for spec in specs])
    place, feeding = chosen.place, chosen.group(settings.Feeding)
    source = open_source(
        chosen.source(),
        named(specs, feeding.input_names),
        options=chosen.images,
        skip_bad=feeding.skip_bad,
    )
    total = source.count if samples is None or source.count is None else min(samples, source.count)
    with screen.progress() as observe:
        observe("compare", None, None)
        read = watched(itertools.islice(source, samples), lambda done: observe("compare", done, total))
        feeds = (sample.feeds for sample in read)
        types = {name: dtype for name, dtype, _ in models[1].inputs}
        half = [speaks_half(model.to_proto(weights=False)) for model in models]
        one, other = (
            Emulated(model.source, data_dir=model.data_dir) if is_half else ort.load(path)
            for path, model, is_half in zip((reference, candidate), models, half, strict=True)
        )
        drawn = Drawn.of(goal, one.outputs, models[0].outputs)
        gauge = drawn.gauge()
        result = compare_models(one, other, feeds, types, gauge.meters)
        scores: dict[str, Any] | None = None
        drop = None
        if score is not None:
            observe("score", None, None)
            ours, theirs = (score(callable_of(runner), "verify") for runner in (one, other))
            scores = {"function": score.name, "same_samples": False, "float": ours, "int8": theirs}
            scores["names"] = ["A", "B"]
            drop = drop_of(ours, theirs, goal.max_drop)
    met = gates_part(drawn.gates(gauge, drop, "" if score is None else score.name), scores)
    about_mean = gauge.about_mean.to_json()
    found = [entry.to_json() for entry in result]
    fed = source.to_json()
    if not screen.quiet:
        page = accuracy_page(
            reference, candidate, found, fed, emulated=any(half), about_mean=about_mean, goal=met
        )
        screen.show(page)
    screen.document(
        {
            "schema": 1,
            "reference": str(reference),
            "candidate": str(candidate),
            "emulated": any(half),
            "data": {"path": place.script or str(place.path), **fed},
            "accuracy": found,
            "about_mean": about_mean,
            "goal": met,
        }
    )
    return int(met is not None and not met["met"])

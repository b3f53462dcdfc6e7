"""`onnxq engine`: what NVIDIA's compiler makes of a model, without a GPU."""

from __future__ import annotations

from dataclasses import asdict

from onnxq import settings
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen
from onnxq.errors import UserError


@takes(settings.Compilation, without=("compile", "fastest"))
def engine(screen: Screen, chosen: Chosen, model: flags.ModelPath) -> int:
    """Compile a model and show each layer's precision.

    NVIDIA's compiler needs no GPU for that. Without --profile it compiles for the profiles in the report
    that onnxq wrote beside the model. The exit code is 1 where it rejects the model.
    """
    from onnxq.cli.pages.engine import engine_page
    from onnxq.compiled.traffic import traffic
    from onnxq.emit.recorded import recorded_profiles
    from onnxq.graph.model import Model
    from onnxq.run import trt

    wanted = chosen.group(settings.Compilation)
    profiles, note = dict(wanted.profiles or {}), ""
    Model.open(model)  # its errors are clearer than the compiler's
    if not profiles:
        profiles, note = recorded_profiles(model)
    with screen.progress() as observe:
        observe("compile", None, None)
        built = trt.compile_engine(model, sm=wanted.sm, profiles=profiles)
    if built.status == "not-installed":
        message, _, hint = built.reason.partition("; ")
        raise UserError(message, hint=hint)
    moved = asdict(traffic(built.layers)) if built.layers else None
    document = {
        "schema": 1,
        "model": str(model),
        "engine": built.to_json(),
        "traffic": moved,
        "profiles_from": note,
    }
    screen.show(engine_page(document))
    screen.document(document)
    return 0 if built.status == "compiled" else 1

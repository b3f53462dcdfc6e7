"""`onnxq sanitize`: repairs the graph."""

from __future__ import annotations

from pathlib import Path

from onnxq import settings
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen, takes
from onnxq.cli.screen import Screen


@takes(settings.Repairs, settings.Inputs, settings.Runtime, config=True)
def sanitize(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: flags.Output = None,
    force: flags.Force = False,
) -> None:
    """Repair a model so that the target takes it.

    What it computes stays the same: each change is proved on sampled inputs. Writes X.onnx and
    X.report.json.
    """
    import onnxq
    from onnxq.cli.pages.end import end_screen
    from onnxq.emit.files import check_output

    path = output or Path(f"{model.stem}.clean.onnx")
    check_output(path, model, force=force)
    with screen.progress() as observe:
        repairs, inputs = chosen.group(settings.Repairs), chosen.group(settings.Inputs)
        result = onnxq.sanitize(model, repairs=repairs, inputs=inputs, observe=observe)
        chosen.tell(result.report)
        result.save(path, force=force)
    if not screen.quiet:
        screen.show(end_screen(result.report))
    screen.document(result.report)

"""`onnxq sanitize`: repairs the graph."""

from __future__ import annotations

from dataclasses import replace

from onnxq.base.errors import UserError
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings


def sanitize(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    output: flags.Output = None,
    force: flags.Force = False,
) -> None:
    """Repair a model so that the target takes it.

    What the model computes stays the same: onnxq proves each change on sampled inputs. It writes X.onnx,
    X.report.json and X.report.html. With --body it also changes float types, as far as data, or without any
    the weights, show that this is safe.
    """
    import onnxq
    from onnxq.cli.pages.end import end_screen
    from onnxq.emit.files import check_output
    from onnxq.emit.serving import check_servers, serving_path
    from onnxq.targets import load_target

    path = flags.written(output, f"{model.stem}.clean.onnx")
    papers, target = chosen.group(settings.Papers), load_target(chosen.group(settings.Repairs).target)
    check_servers(papers.servers, target)
    beside = [serving_path(path, name) for name in papers.servers]
    check_output(path, model, force=force, page=papers.page, beside=beside)
    format = chosen.group(settings.Format)
    typed = format.body is not None or format.io not in (None, "fp32")
    if not typed and (chosen.flags(settings.DataPlace) or chosen.flags(settings.Calibration)):
        raise UserError("sanitize needs data for another body only", hint="give --body fp16, or no data")
    if typed:
        words = chosen.keywords()
    else:  # what the file says of a body is for other verbs
        words = chosen.keywords(calibration=None, format=settings.Format(**chosen.flags(settings.Format)))
    with screen.progress() as observe:
        result = onnxq.sanitize(
            model,
            chosen.source() if typed and chosen.has_data else None,
            **words,
            observe=observe,
        )
        result.report = replace(result.report, config=chosen.settings_file)
        result.save(path, force=force, page=papers.page, deploy=papers.servers or None)
    report = result.report
    screen.result(report, lambda: end_screen(report))

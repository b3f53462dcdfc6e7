"""`onnxq sanitize`: repairs the graph."""

from __future__ import annotations

from pathlib import Path

from onnxq.cli import calib_flags
from onnxq.cli import options as flags
from onnxq.cli.screen import Screen


@flags.takes_ort_ops
def sanitize(
    screen: Screen,
    model: flags.ModelPath,
    output: flags.Output = None,
    force: flags.Force = False,
    target: flags.TargetName = None,
    config: calib_flags.ConfigPath = None,
    shape: flags.Shapes = None,
    assume: flags.Assume = None,
    freeze: flags.Freeze = None,
    rules: flags.RuleFolders = None,
    enable: flags.Enable = None,
    skip: flags.SkipRules = None,
    prove: flags.ProveLevel = "when-possible",
    allow_interface_changes: flags.InterfaceChanges = False,
) -> None:
    """Repair a model so that the target takes it.

    What it computes stays the same: each change is proved on sampled inputs. Writes X.onnx and
    X.report.json.
    """
    import onnxq
    from onnxq.cli.pages.end import end_screen
    from onnxq.emit.files import check_output

    settings = calib_flags.Settings(config)
    target = settings.target(target)
    arguments = flags.edit_arguments(target, shape, assume, freeze, rules, enable, skip, prove)
    arguments["allow_interface_changes"] = allow_interface_changes
    path = output or Path(f"{model.stem}.clean.onnx")
    check_output(path, model, force=force)
    with screen.progress() as observe:
        result = onnxq.sanitize(model, **arguments, observe=observe)
        settings.tell(result.report)
        result.save(path, force=force)
    if not screen.quiet:
        screen.show(end_screen(result.report))
    screen.document(result.report)

"""`onnxq quantize`: repairs the graph and quantizes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from onnxq.cli import options as flags
from onnxq.cli.screen import Screen


@flags.takes_ort_ops
@flags.takes_images
def quantize(
    screen: Screen,
    model: flags.ModelPath,
    calib: Annotated[
        Path,
        typer.Option(
            metavar="PATH",
            help="Calibration data: a folder or file of images, .npy or .npz.",
            show_default=False,
        ),
    ],
    output: flags.Output = None,
    force: flags.Force = False,
    target: flags.TargetName = "tensorrt-11",
    method: Annotated[str, typer.Option(metavar="NAME", help="How ranges are chosen: minmax.")] = "minmax",
    body: Annotated[str, typer.Option(metavar="TYPE", help="Type of what stays in float: fp32.")] = "fp32",
    samples: Annotated[int, typer.Option(metavar="N", help="How many samples calibrate at most.")] = 512,
    seed: Annotated[int, typer.Option(metavar="N", help="Chooses the samples where there are more.")] = 0,
    keep_float: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Names of nodes to keep in float.")
    ] = None,
    shape: flags.Shapes = None,
    assume: flags.Assume = None,
    freeze: flags.Freeze = None,
    rules: flags.RuleFolders = None,
    enable: flags.Enable = None,
    skip: flags.Skip = None,
    prove: flags.ProveLevel = "when-possible",
    sm: flags.ComputeCapability = 89,
    profile: flags.Profiles = None,
    no_engine: Annotated[bool, typer.Option("--no-engine", help="Do not compile the result.")] = False,
    images: dict[str, Any] | None = None,
) -> None:
    """Repair a model and quantize it to INT8.

    Writes X.onnx, with explicit Q/DQ pairs and shared scales, and X.report.json.
    """
    import onnxq
    from onnxq.cli.render import end_screen
    from onnxq.emit.files import check_output

    arguments = flags.edit_arguments(target, shape, assume, freeze, rules, enable, skip, prove)
    profiles = flags.parse_profiles(profile)
    path = output or Path(f"{model.stem}.int8.onnx")
    check_output(path, model, force=force)
    with screen.progress() as observe:
        result = onnxq.quantize(
            model,
            calib,
            **arguments,
            images=images,
            method=method,  # type: ignore[arg-type]  # quantize names what it has
            body=body,  # type: ignore[arg-type]
            samples=samples,
            seed=seed,
            keep_float=tuple(keep_float or ()),
            sm=sm,
            profiles=profiles,
            compile=not no_engine,
            observe=observe,
        )
        result.save(path, force=force)
    if not screen.quiet:
        screen.show(end_screen(result.report))
    screen.document(result.report)

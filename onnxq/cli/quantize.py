"""`onnxq quantize`: repairs the graph and quantizes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxq.cli import calib_flags
from onnxq.cli import options as flags
from onnxq.cli.data_flags import CalibrationData, data_source, takes_data
from onnxq.cli.screen import Screen
from onnxq.errors import UserError

if TYPE_CHECKING:
    from onnxq.target import Target


@flags.takes_ort_ops
@takes_data
def quantize(
    screen: Screen,
    model: flags.ModelPath,
    calib: CalibrationData = None,
    output: flags.Output = None,
    force: flags.Force = False,
    target: flags.TargetName = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How ranges are chosen: auto (default), minmax, average, percentile, entropy or mse.",
        ),
    ] = None,
    percentile: Annotated[
        float | None, typer.Option(metavar="P", help="Of method percentile; 99.99 by default.")
    ] = None,
    constant: Annotated[
        float | None, typer.Option(metavar="C", help="Of the moving average; 0.01 by default.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Choose the percentile by the model's outputs.")
    ] = False,
    exact: calib_flags.Exact = False,
    stats: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What `onnxq calibrate` wrote, or a TensorRT calibration cache."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take --stats that lack samples: those of some shards only.")
    ] = False,
    cache: Annotated[
        bool, typer.Option("--cache", help="Also write X.cache, for TensorRT's implicit quantization.")
    ] = False,
    config: calib_flags.ConfigPath = None,
    body: Annotated[str, typer.Option(metavar="TYPE", help="Type of what stays in float: fp32.")] = "fp32",
    samples: calib_flags.Samples = None,
    seed: calib_flags.Seed = None,
    keep_float: Annotated[
        list[str] | None, typer.Option(metavar="GLOB", help="Names of nodes to keep in float.")
    ] = None,
    shape: flags.Shapes = None,
    assume: flags.Assume = None,
    freeze: flags.Freeze = None,
    rules: flags.RuleFolders = None,
    enable: flags.Enable = None,
    skip: flags.SkipRules = None,
    prove: flags.ProveLevel = "when-possible",
    sm: flags.ComputeCapability = 89,
    profile: flags.Profiles = None,
    no_engine: Annotated[bool, typer.Option("--no-engine", help="Do not compile the result.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 where the original compiles and the result does not.")
    ] = False,
    images: dict[str, Any] | None = None,
    skip_bad: bool = False,
    input_names: dict[str, str] | None = None,
    script: str | None = None,
) -> int:
    """Repair a model and quantize it to INT8.

    Writes X.onnx, with explicit Q/DQ pairs and shared scales, and X.report.json; for a target that takes no
    such pairs, the repaired float model and a calibration cache. Exit code 0 says nothing of the compiler
    without --strict.
    """
    import onnxq
    from onnxq.cli.pages.end import end_screen
    from onnxq.emit.files import check_output
    from onnxq.target import load_target

    calib_flags.refuse_parameters(method, percentile, constant, search=search)
    settings = calib_flags.Settings(config)
    target = settings.target(target)
    arguments = flags.edit_arguments(target, shape, assume, freeze, rules, enable, skip, prove)
    profiles = flags.parse_profiles(profile)
    path = output or Path(f"{model.stem}.int8.onnx")
    if strict:
        _check_strict(load_target(target), no_engine)
    check_output(path, model, force=force, cache=cache or not load_target(target).explicit)
    data_path = settings.data(calib, script)
    without_data = stats is not None and data_path is None and script is None
    if stats is not None:
        on_samples = {"--samples": samples is not None, "--seed": seed is not None, "--exact": exact}
        on_data = {**{f"--{name}": True for name in images or ()}, "--skip-bad": skip_bad}
        on_data["--input-name"] = bool(input_names)
        calib_flags.refuse_with_stats(stats, on_samples, on_data, without_data=without_data)
    with screen.progress() as observe:
        result = onnxq.quantize(
            model,
            None if without_data else data_source(data_path, script, "quantize"),
            **arguments,
            images=settings.images(images) if data_path is not None else images,
            skip_bad=settings.get("skip_bad", skip_bad or None, False),
            input_names=input_names,
            method=settings.method(method, percentile, constant, search=search),
            percentile=settings.get("percentile", percentile, 99.99),
            constant=settings.get("constant", constant, 0.01),
            search=search,
            exact=settings.get("exact", exact or None, False),
            stats=stats,
            partial=partial,
            cache=cache,
            body=body,  # type: ignore[arg-type]  # quantize names what it has
            samples=settings.get("samples", samples, 512),
            seed=settings.get("seed", seed, 0),
            keep_float=tuple(keep_float or ()),
            layers=settings.config.layers if settings.config is not None else (),
            sm=sm,
            profiles=profiles,
            compile=not no_engine,
            observe=observe,
        )
        settings.tell(result.report)
        result.save(path, force=force)
    if not screen.quiet:
        screen.show(end_screen(result.report))
    screen.document(result.report)
    engine = result.report["engine"]
    return int(strict and (engine["regressed"] or engine["status"] == "not-run"))


def _check_strict(target: Target, no_engine: bool) -> None:
    """Refuses --strict where nothing is compiled."""
    from onnxq.run import trt

    why, hint = "", "leave --strict out"
    if no_engine:
        why = "with --no-engine nothing is"
    elif not target.explicit:
        why = f"{target.title} is not here"
    elif trt.installed() is None:
        why, hint = "NVIDIA's compiler is not installed", "pip install 'onnxq[trt]' (no GPU needed)"
    if why:
        raise UserError(f"--strict asks whether the result compiles, but {why}", hint=hint)

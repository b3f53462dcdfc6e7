"""`onnxq calibrate`: takes the statistics that every calibration method asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onnxq import interrupts
from onnxq.cli import calib_flags
from onnxq.cli import options as flags
from onnxq.cli.data_flags import CalibrationData, data_source, takes_data
from onnxq.cli.screen import Screen
from onnxq.cli.verb import Interrupted, report_error
from onnxq.errors import UserError

if TYPE_CHECKING:
    from onnxq.calib.shards import Checkpoints


@flags.takes_ort_ops
@takes_data
def calibrate(
    screen: Screen,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL", help="The ONNX model; with --merge: the files to merge.", show_default=False
        ),
    ],
    calib: CalibrationData = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="X.stats.npz", help="The file to write.")
    ] = None,
    force: flags.Force = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge the statistics of shards: --merge A B ... -o ALL.")
    ] = False,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Take every N-th sample only, from the I-th on (from 1).")
    ] = "1/1",
    workers: Annotated[int, typer.Option(metavar="N", help="How many processes take part.")] = 1,
    exact: calib_flags.Exact = False,
    config: calib_flags.ConfigPath = None,
    samples: calib_flags.Samples = None,
    seed: calib_flags.Seed = None,
    target: flags.TargetName = None,
    shape: flags.Shapes = None,
    assume: flags.Assume = None,
    freeze: flags.Freeze = None,
    rules: flags.RuleFolders = None,
    enable: flags.Enable = None,
    skip: flags.SkipRules = None,
    images: dict[str, Any] | None = None,
    skip_bad: bool = False,
    input_names: dict[str, str] | None = None,
    script: str | None = None,
) -> int:
    """Take statistics for calibration; every method is then chosen in seconds.

    Writes X.stats.npz for `onnxq quantize --stats`. A run that was interrupted goes on when it is repeated.
    """
    import onnxq
    from onnxq.calib.shards import Checkpoints, check_division
    from onnxq.calib.stats_file import SUFFIX
    from onnxq.cli.pages.stats import statistics_page, to_json

    if merge:
        if output is None:
            raise UserError("where the merged statistics go is not said", hint="give -o ALL.stats.npz")
        result = onnxq.merge_stats(paths, output, force=force)
        if not screen.quiet:
            screen.show(statistics_page(output, result, merged=True))
        screen.document(to_json(output, result))
        return 0
    (model, *more) = paths
    if more:
        raise UserError(
            f"{len(paths)} models are given: {', '.join(map(str, paths))}",
            hint="give one, or --merge to merge files of statistics",
        )
    settings = calib_flags.Settings(config)
    arguments = flags.edit_arguments(
        settings.target(target), shape, assume, freeze, rules, enable, skip, "when-possible"
    )
    del arguments["prove"]
    number, count = _shard(shard)
    check_division((number, count), workers)
    path = output or Path(f"{model.stem}{f'.{number}-of-{count}' if count > 1 else ''}{SUFFIX}")
    data_path = settings.data(calib, script)
    source = data_source(data_path, script, "calibrate")
    try:
        with screen.progress() as observe:
            result = onnxq.calibrate(
                model,
                source,
                path,
                force=force,
                **arguments,
                images=settings.images(images) if data_path is not None else images,
                skip_bad=settings.get("skip_bad", skip_bad or None, False),
                input_names=input_names,
                exact=settings.get("exact", exact or None, False),
                samples=settings.get("samples", samples, 512),
                seed=settings.get("seed", seed, 0),
                shard=(number, count),
                workers=workers,
                observe=observe,
            )
    except Interrupted:
        return report_error(screen, "interrupted", _kept(Checkpoints(path)), interrupts.EXIT_CODE)
    if not screen.quiet:
        screen.show(statistics_page(path, result))
    screen.document(to_json(path, result))
    return 0


def _kept(checkpoints: Checkpoints) -> str:
    """What a run that was interrupted leaves for the next one."""
    from onnxq.cli.pages.words import counted

    done = checkpoints.samples()
    return f"what was done is kept ({counted(done, 'sample')}): repeat the command to go on" if done else ""


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    if found is None:
        raise UserError(f"--shard {text!r} is not understood", hint="the form is --shard I/N, as in 1/4")
    return int(found[1]), int(found[2])

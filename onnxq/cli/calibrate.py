"""`onnxq calibrate`: takes the statistics that every calibration method asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxq.base.errors import UserError
from onnxq.base.reason import say
from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.cli.verb import Interrupted, report_interrupt
from onnxq.options import settings

if TYPE_CHECKING:
    from onnxq.calib.shards import Checkpoints


def calibrate(
    screen: Screen,
    chosen: Chosen,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL", help="The ONNX model; with --merge: the files to merge.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="X.stats.npz", help="The file to write.", parser=flags.file_or_folder
        ),
    ] = None,
    force: flags.Force = False,
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge the statistics of shards: --merge A B ... -o ALL.")
    ] = False,
) -> int:
    """Take statistics for calibration; every method is then chosen in seconds.

    It writes X.stats.npz for `onnxq quantize --stats`. If it is interrupted, run it again: it continues.
    """
    import onnxq
    from onnxq.calib.shards import Checkpoints, check_division
    from onnxq.calib.stats_file import SUFFIX
    from onnxq.cli.pages.stats import statistics_page, statistics_taken

    if merge:
        if output is None:
            raise UserError("where the merged statistics go is not said", hint="give -o ALL.stats.npz")
        result = onnxq.merge_stats(paths, output, force=force)
        screen.result(statistics_taken(output, result), lambda: statistics_page(output, result, merged=True))
        return 0
    (model, *more) = paths
    if more:
        raise UserError(
            f"{len(paths)} models are given: {', '.join(map(str, paths))}",
            hint="give one, or --merge to merge files of statistics",
        )
    division = chosen.group(settings.Division)
    (number, count) = division.shard
    check_division((number, count), division.workers)
    part = f".{number}-of-{count}" if count > 1 else ""
    path = flags.written(output, f"{model.stem}{part}{SUFFIX}")
    try:
        with screen.progress() as observe:
            result = onnxq.calibrate(
                model,
                chosen.source(),
                path,
                force=force,
                **chosen.keywords(),
                observe=observe,
            )
    except Interrupted:
        return report_interrupt(screen, _kept(Checkpoints(path)))
    screen.result(statistics_taken(path, result), lambda: statistics_page(path, result))
    return 0


def _kept(checkpoints: Checkpoints) -> str:
    """What a run that was interrupted leaves for the next one."""
    from onnxq.cli.pages.words import counted

    done = checkpoints.samples()
    return say("ended.calibrate", samples=counted(done, "sample")) if done else ""

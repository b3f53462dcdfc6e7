"""`onnxq engine`: what NVIDIA's compiler makes of a model, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxq.cli import options as flags
from onnxq.cli.chosen import Chosen
from onnxq.cli.screen import Screen
from onnxq.options import settings

_LAYER_INFO = "Read the engine from a file of trtexec --exportLayerInfo, and do not compile."
_AGAINST = "Compile it in plain float16, too: what int8 moves, in how many kernels."
_TIMES = "Read times from a file of trtexec --exportProfile, and do not compile."
_RUNS = "Read what runs take from a file of trtexec --exportTimes."
_OTHER = "Compile that too, and show what each lost; with --layer-info another engine's such file."
_OTHER_TIMES = "The --exportProfile of the engine of --compare."
_DOT = "Draw its kernels, for Graphviz: dot -Tsvg E.dot; --match and --op choose."
_OTHER_RUNS = "The --exportTimes of the engine of --compare."


def engine(
    screen: Screen,
    chosen: Chosen,
    model: flags.ModelPath,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="OTHER", help=_OTHER),
    ] = None,
    layer_info: Annotated[
        Path | None, typer.Option("--layer-info", metavar="F.json", help=_LAYER_INFO)
    ] = None,
    profile_times: Annotated[
        Path | None, typer.Option("--profile-times", metavar="F.json", help=_TIMES)
    ] = None,
    run_times: Annotated[Path | None, typer.Option("--run-times", metavar="F.json", help=_RUNS)] = None,
    compare_profile_times: Annotated[
        Path | None, typer.Option("--compare-profile-times", metavar="F.json", help=_OTHER_TIMES)
    ] = None,
    compare_run_times: Annotated[
        Path | None, typer.Option("--compare-run-times", metavar="F.json", help=_OTHER_RUNS)
    ] = None,
    against_fp16: Annotated[bool, typer.Option("--against-fp16", metavar="<bool>", help=_AGAINST)] = False,
    dot: Annotated[Path | None, typer.Option(metavar="E.dot", help=_DOT)] = None,
    force: flags.Force = False,
    *,
    choice: flags.ChoiceFlags,
) -> int:
    """Compile a model and show each node with its precision and kernel, and what the engine moves.

    NVIDIA's compiler needs no GPU for that. Without --profile, onnxq takes the profiles from the report
    beside the model. The exit code is 1 if the compiler rejects the model.
    """
    import onnxq
    from onnxq.cli.pages.engine import engine_page
    from onnxq.cli.pages.verdict import verdict_page
    from onnxq.emit.files import save_file
    from onnxq.inspection.engine_reading import engine as read_engine

    wanted = chosen.group(settings.Compilation)
    if dot is not None:
        flags.check_dot_output(dot, model, force=force)
    with screen.progress() as observe:
        document = read_engine(
            model,
            compare=compare,
            layer_info=layer_info,
            profile_times=profile_times,
            run_times=run_times,
            compare_profile_times=compare_profile_times,
            compare_run_times=compare_run_times,
            against_fp16=against_fp16,
            device=wanted.device,
            profiles=chosen.group(settings.Inputs).profiles,
            observe=observe,
        )
    drawn = dot if document.reading is not None else None
    if drawn is not None:
        save_file(drawn, onnxq.draw(document, match=choice.globs, ops=choice.ops).encode("utf-8"))
    screen.show(engine_page(document, choice, drawn=drawn))
    if document.verdict is not None:
        screen.show(verdict_page(str(model), document.verdict))
    screen.document(document)
    return 0 if document.compiles else 1

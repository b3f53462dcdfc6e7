"""What may be behind outputs that are far off: the causes of a report, the likeliest first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from onnxq.advice.asked import again, asked_of, free_nodes, given
from onnxq.analysis.reports import number, part_of
from onnxq.base.reason import code_of, noted
from onnxq.base.shown import counted, decibels, shorten, within_db
from onnxq.data.warnings import SURER
from onnxq.documents.accuracy import GoalPart
from onnxq.documents.advice import LikelyCause, cause
from onnxq.documents.analysis import LayerErrors
from onnxq.documents.body import BodyPart, OutputOfBody
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.plan import GoalForeseen, Heads, LoudSource, PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.options.command_line import kept
from onnxq.options.option import read_options
from onnxq.options.settings import STEPS, DataPlace, Feeding, ImageOptions, Inputs, Repairs, Runtime

STAY_FLOAT = "of the file's pairs stay float arithmetic"
"""What is noted of a file with pairs that int8 around 0 does not hold."""

MISCOMPUTED = "were seen to compute"
"""What is noted of releases that compute a node wrongly."""

LEAST_HALF = 45.0
"""What a body of float16 leaves of outputs, dB: 90 of 92 nets that int8 leaves 25 dB have more."""

_CLEARLY = 6.0  # dB: half the error
_LOST = 15.0  # dB
_LOST_BY_WEIGHTS = 6.0  # dB: what the configuration costs the weights of a layer
FEW_SAMPLES = 32
"""Fewer that calibrate may be too few."""

_SAYS_UNLIKE = ("alike", "constant-input", "units", "unnormalized", "normalized-twice", "reshaped")
"""Doubts that explain why a model gives all samples the same answer."""

MORE_HELP, MORE_DO_NOT_HELP = "more samples help", "more samples do not help"
"""What is noted where scales of half of the samples were measured beside those of all."""

_OF_SCALES = ("nonfinite", "clipped", "scale", "unexplained")
"""What a layer errs by its scales; weights and biases may be fitted, and differ then."""

MOST_FLOAT = 0.9
"""Of a model of which so much of the int8 work is in float, int8 is no longer worth anything."""

_KEPT = {"--config"}.union(
    flag
    for group in (DataPlace, Feeding, ImageOptions, Repairs, Inputs, Runtime)
    for said in read_options(group).values()
    for flag in said.flag
)
"""Flags that say of the model and its data what every verb has to know."""

_WORST = 2  # layers that are named where the noise is
_SEEN = 8  # nodes of a printed command


def likely(report: Report, goal: tuple[str, ...] = ()) -> tuple[LikelyCause, ...]:
    """Causes of outputs that are far off: first those without which outputs were measured to be nearer.

    Where none is known that is said, and where the noise is. What can be tried follows, then what is only
    suspected, which is said; a goal is the last resort, but for what has no command.

    Args:
        report: the report.
        goal: flags of a goal that leaves layers in float until the outputs are near; the last resort.
    """
    seen, doubts = prepared(report), of_data(report)
    known = (
        *seen, *_body(report), *_stated(report), *_layer(report), *_loud(report), *_magnifies(report, goal),
        *_few(report), *_not_for_int8(report, goal),
    )  # fmt: skip
    tried, last = (*_switched_off(report), *_untried(report)), _everywhere(report, goal)
    suspected = (*mismatched(report), *(one for one in doubts if one not in seen), *_too_few(report))
    told = (replace(one, said=f"not measured: {one.said}") for one in suspected)
    return (*known, *(() if known else _not_known(report)), *sorted((*tried, *told, *last), key=_is_vague))


def _is_vague(cause: LikelyCause) -> bool:
    return not cause.command


def _not_known(report: Report) -> Iterator[LikelyCause]:
    """That no cause is known, and where the noise is."""
    heads, errors = part_of(PlanPart, report.plan).heads, part_of(LayerErrors, report.layer_errors)
    planned = {one.node for one in part_of(PlanPart, report.plan).layers if one.quantized}
    alone = {
        one.layer: level for one in errors.rows if one.layer in planned and one.isolated is not None
        and (level := number(one.isolated.sqnr_about_mean_db)) is not None
    }  # fmt: skip
    worst = sorted(alone, key=alone.__getitem__)[:_WORST]
    layers = " and ".join(f"{shorten(one)!r} ({decibels(alone[one])})" for one in worst)
    output = part_of(AboutMeanPart, report.about_mean).worst_output
    looked = heads is not None and heads.noise_share is not None
    why = (heads.why or _freed(heads)) if heads is not None and looked else noted("noise-not-looked-for")
    yield cause(
        "not-known.alone" if worst else "not-known",
        layers=layers, output=shorten(output or ""), why=f"; {why}" if why else "",
    )  # fmt: skip


def mismatched(report: Report) -> Iterator[LikelyCause]:
    """That the user's function feeds the model otherwise than calibration."""
    yield from (cause("mismatch", how=said) for said in part_of(GoalPart, report.goal).mismatch[:1])


def prepared(report: Report) -> list[LikelyCause]:
    """That images are prepared otherwise than in training, as the float model itself tells."""
    return [one for one in of_data(report) if one.code == "preparation" or SURER in one.said]


def of_data(report: Report) -> Iterator[LikelyCause]:
    """What is doubtful about the data, as causes."""
    doubts = part_of(CalibrationPart, report.calibration).data.doubts
    kinds = {one.kind for one in doubts}
    for doubt in [one for one in doubts if one.kind != "unlike" or kinds.isdisjoint(_SAYS_UNLIKE)]:
        command = again(report, without=doubt.without, more=doubt.more) if doubt.without else ""
        yield LikelyCause(doubt.kind, doubt.text, noted("fed-values"), doubt.hint, command)


def _body(report: Report) -> Iterator[LikelyCause]:
    """That half precision is at fault, and quantization is not."""
    body, format = part_of(BodyPart, report.body), report.number_format
    for one in body.outputs[:1]:
        int8, half, both = number(one.int8_db), number(one.body_db), number(one.together_db)
        if None in (int8, both) or int8 is None or both is None or int8 < both + _CLEARLY:
            continue
        alone = "" if half is None else f", {body.type} alone {decibels(half)}"
        plan, values = part_of(PlanPart, report.plan).file, {"type": body.type, "format": format}
        command = again(report, without=("--body",), more=("--body", "fp32"))
        code, command = ("body", command) if plan is None else ("body.plan", "")  # no flag says otherwise
        yield cause(code, command, int8=decibels(int8), alone=alone, plan=plan, **values)


def of_bytes(report: Report, ratio: float) -> Iterator[LikelyCause]:
    """What has the engine move more bytes than float16's.

    Args:
        report: the report.
        ratio: what it moves, as a share of what float16 moves.
    """
    body = part_of(BodyPart, report.body)
    if body.type == "fp32" and given(report, "--body"):
        yield cause("wide-body", format=report.number_format)
    steps = part_of(RepairPart, report.repair).steps if report.repair is not None else ()
    useful = [one for one in steps if one.verdict == "kept"]
    for step in sorted((one for one in useful if number(one.more_bytes)), key=lambda one: -one.more_bytes):
        before, after = number(step.before_db), number(step.after_db)
        gain = "" if before is None or after is None else f", for {after - before:+.1f} dB"
        rest = [one.step for one in steps if one.step != step.step and one.verdict != "left-out"]
        command = again(report, without=("--repair",), more=("--repair", ",".join(rest))) if rest else ""
        yield cause("step", command, step=step.step, more=step.more_bytes, ratio=ratio, gain=gain)
    wide = {one.node for one in body.float32}
    layers = report.verdict.layers if report.verdict is not None else ()
    more = {one.layers: (number(one.int8_mb) or 0.0) - (number(one.fp16_mb) or 0.0) for one in layers}
    planned = {one.node for one in part_of(PlanPart, report.plan).layers if one.format != "float"}
    for layer in sorted(layers, key=lambda one: -more[one.layers])[:1]:
        if more[layer.layers] <= 0 or planned <= set(layer.layers):  # without them it is a float model
            continue
        name, float32 = layer.layers[0], len(wide.intersection(layer.nodes))
        because = f"; {counted(float32, 'node')} of it stay float32" if float32 else ""
        kernels = f"{counted(layer.kernels_int8, 'kernel')} for {layer.kernels_fp16}{because}"
        yield _in_float(report, layer.layers, cause(
            "bytes-layer", node=shorten(name), kernels=kernels, int8=layer.int8_mb, float16=layer.fp16_mb,
        ))  # fmt: skip


def _switched_off(report: Report) -> Iterator[LikelyCause]:
    """That the user switched off what keeps outputs near."""
    plan, asked = part_of(PlanPart, report.plan), "none" if report.repair is None else report.repair.asked
    few = asked == "none" or 2 * len(asked) <= len(STEPS)  # advice asks for most of them
    if asked != "auto" and few and plan.file is None and plan.sites:
        names = asked if isinstance(asked, str) else ", ".join(asked)
        more = () if given(report, "--repair") else ("--repair", "auto")
        code = "repair-off" if asked == "none" else "repair-off.held"
        yield cause(code, again(report, without=("--repair",), more=more), steps=names)
    heads = None if plan.file or part_of(GoalPart, report.goal).gates else plan.heads  # these settle them
    if heads is not None and heads.asked not in ("auto", "default"):
        yield cause("loud-off")


def _untried(report: Report) -> Iterator[LikelyCause]:
    """That steps of repair were not tried, as they take long or samples are few."""
    part = part_of(RepairPart, report.repair)
    steps = part.steps if report.repair is not None else ()
    untried = [one.step for one in steps if one.verdict == "left-out" and code_of(one.why) != "late"]
    if not untried:
        return
    code = "repair-untried.few" if part.why_not else "repair-untried"  # too few samples
    tried = [one.step for one in steps if one.verdict != "left-out" or one.step in untried]
    command = again(report, without=("--repair",), more=("--repair", ",".join(tried)))
    yield cause(code, command, steps=", ".join(untried), why=part.why_not)


def _stated(report: Report) -> Iterator[LikelyCause]:
    """That an entry of the configuration clips weights."""
    every = part_of(CalibrationPart, report.calibration).weights.values()
    lost = [one for one in every if one.whole_db - one.db > _LOST_BY_WEIGHTS]
    for one in sorted(lost, key=lambda one: one.db)[:1]:
        yield cause(
            "stated-weights", entry=one.because, node=shorten(one.node), lost=one.whole_db - one.db,
            file=report.config or "the configuration",
        )  # fmt: skip


def _layer(report: Report) -> Iterator[LikelyCause]:
    """Layers that err more than their own steps explain."""
    errors = report.layer_errors
    lines = part_of(LayerErrors, errors).rows if errors is not None else ()
    found = [(line, why) for line in lines for why in line.causes if why.code in _OF_SCALES]
    for line, why in found[:2]:
        yield _in_float(
            report, (line.layer,), cause(f"layer-{why.code}", layer=shorten(line.layer), why=why.text)
        )


def _loud(report: Report) -> Iterator[LikelyCause]:
    """Layers or tensors that make much of the noise."""
    heads = part_of(PlanPart, report.plan).heads
    for one in () if heads is None else heads.loud:
        if not one.left_float:
            yield _of_loud(report, one)


def _of_loud(report: Report, one: LoudSource) -> LikelyCause:
    nodes = counted(len(one.nodes), "layer")
    gain, share = number(one.gain_db), number(one.share)
    worth = "" if gain is None or share is None else noted(
        "loud-gain.at-most" if one.interval is None else "loud-gain",
        gain=gain, within=within_db(one.interval), share=share, format=report.number_format,
    )  # fmt: skip
    return _in_float(report, one.nodes, cause("loud", why=one.why, layers=nodes, worth=worth))


def _in_float(report: Report, nodes: tuple[str, ...], why: LikelyCause) -> LikelyCause:
    """The cause with the command that leaves layers in float; or what else is to be done about them.

    Args:
        report: the report.
        nodes: the layers.
        why: the cause, which says that they are to be left in float.
    """
    layers = {one.node for one in part_of(PlanPart, report.plan).layers if one.quantized}
    if layers.intersection(nodes) - free_nodes(report):  # the file's pairs stay, whatever is asked for
        return replace(why, do=noted("adopt-ranges"), command=adopting(report))
    flags = [word for name in nodes for word in ("--keep-float", name)]
    return replace(why, command=again(report, more=flags) if len(nodes) <= _SEEN else "")


def adopting(report: Report) -> str:
    """The command line that takes the ranges of the file's pairs, and not their places."""
    return again(report, without=("--pairs",), more=("--pairs", "adopt"))


def _magnifies(report: Report, goal: tuple[str, ...]) -> Iterator[LikelyCause]:
    """That half precision alone is far off, too: then it is not quantization that does not suit the model."""
    body = part_of(BodyPart, report.body)
    other = next(_everywhere(report, goal), None)
    otherwise = "" if other is None else f"; if they are, {other.do}"
    for one in body.outputs[:1]:
        int8, said = number(one.int8_db), magnified(body, one)
        if said and int8 is not None and int8 < _LOST:  # a trained one may leave 35 dB in half, 25 in int8
            yield cause(
                "magnifies", "" if other is None else other.command,
                how=said, format=report.number_format, otherwise=otherwise,
            )  # fmt: skip


def magnified(body: BodyPart, output: OutputOfBody) -> str:
    """That half precision alone is far off, too, in words; "" where it is not.

    Args:
        body: the body.
        output: an output of it.
    """
    level = number(output.body_db)
    if body.type != "fp16" or level is None or level >= LEAST_HALF:
        return ""
    return noted("half-alone", level=decibels(level), least=LEAST_HALF)


def calibrated(report: Report) -> int:
    """How many samples calibrated."""
    calibration = part_of(CalibrationPart, report.calibration)
    return int((number(calibration.samples) or 0) * (number(calibration.data.batch) or 1))


def _few(report: Report) -> Iterator[LikelyCause]:
    """That few samples calibrated, and more were measured to help."""
    notes = part_of(CalibrationPart, report.calibration).notes
    for note in [one for one in notes if one.startswith(MORE_HELP)]:
        yield cause("few-samples.help", samples=counted(calibrated(report), "sample"), note=note)


def _too_few(report: Report) -> Iterator[LikelyCause]:
    """That few samples calibrated, where it was not measured whether more would help."""
    part = part_of(CalibrationPart, report.calibration)
    told = any(one.kind == "few-samples" for one in part.data.doubts)
    measured = any(one.startswith((MORE_HELP, MORE_DO_NOT_HELP)) for one in part.notes)
    if 0 < calibrated(report) < FEW_SAMPLES and not told and not measured:
        yield cause("few-samples.calibrated", samples=counted(calibrated(report), "sample"))


def _not_for_int8(report: Report, goal: tuple[str, ...]) -> Iterator[LikelyCause]:
    """That a goal would leave next to nothing in int8."""
    format, seen = report.number_format, _foreseen(report, goal)
    if _is_free(report, goal) and seen is not None and (not seen.reached or seen.share >= MOST_FLOAT):
        takes = f"{seen.share:.0%}" if seen.reached else "more than all"
        yield cause("not-for-int8", in_float16(report), format=format, wanted=seen.sqnr_db, takes=takes)


def _everywhere(report: Report, goal: tuple[str, ...]) -> Iterator[LikelyCause]:
    """That only a goal finds what to leave in float where no layer stands out."""
    seen = _foreseen(report, goal)
    if not _is_free(report, goal) or any(_not_for_int8(report, goal)):
        return
    values = {} if seen is None else {"share": seen.share, "format": report.number_format}
    yield cause(
        "everywhere" if seen is None else "everywhere.foreseen", again(report, more=goal),
        goal=shlex.join(goal), **values,
    )  # fmt: skip


def _is_free(report: Report, goal: tuple[str, ...]) -> bool:
    """Whether a goal is to be advised, as none was asked for."""
    asked = bool(part_of(GoalPart, report.goal).gates) or given(report, "--min-agreement")
    return bool(goal) and not asked


def _freed(heads: Heads) -> str:
    """That what was loud is in float already; "" where nothing is."""
    freed = [name for one in heads.loud if one.left_float for name in one.nodes]
    if not freed:
        return ""
    more = f" and {len(freed) - 1} more" if len(freed) > 1 else ""
    return noted("noise-not-looked-for.freed", name=shorten(freed[0]), more=more)


def _foreseen(report: Report, goal: tuple[str, ...]) -> GoalForeseen | None:
    """What a goal would take, where that is known."""
    heads = part_of(PlanPart, report.plan).heads
    found = () if heads is None else heads.foreseen
    return next((one for one in found if goal == ("--min-sqnr", f"{one.sqnr_db:g}")), None)


def in_float16(report: Report) -> str:
    """The command line that writes the float model in plain float16; "" where that is not known."""
    _, *asked = asked_of(report) or [()]
    plan = part_of(PlanPart, report.plan)
    if not asked or plan.own_pairs_read or not plan.layers:  # it may have come quantized
        return ""
    flags = kept([part for part in asked[1:] if part[0] in _KEPT], "sanitize")
    return shlex.join(["onnxq", "sanitize", *asked[0], *flags, "--body", "fp16"])

"""What speaks against a result, or leaves it open: the findings of a report, each with its causes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

from onnxq.advice.answers import answers_lost, near_so_far, read_and_kept
from onnxq.advice.asked import again, given
from onnxq.advice.causes import (
    STAY_FLOAT,
    adopting,
    in_float16,
    likely,
    mismatched,
    of_bytes,
    of_data,
    prepared,
)
from onnxq.advice.lost import LEAST_ABOUT_MEAN, judged, lost_words
from onnxq.advice.worth import HELPS_READING, reading, worth_of
from onnxq.analysis.reports import number, part_of
from onnxq.base.grouped import grouped
from onnxq.base.shown import counted, decibels, shorten, within_db
from onnxq.documents.accuracy import GateMeasured, GoalPart
from onnxq.documents.advice import AdviceFinding, LikelyCause
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.changes import NotTaken
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import NAME, AboutMeanPart
from onnxq.judge.comparable import CONSTANT, STILL, UNCHANGED, not_compared
from onnxq.judge.intervals import LEAST_GROUPS
from onnxq.judge.policies import BAD_DB, ENOUGH_FOR_ALL_DB
from onnxq.task.meter import TaskPart

WIDE = 16
"""So many times the usual size the largest is in a profile that is told."""

_NAME = 40
_LATE = "the time limit"


def findings(report: Report) -> Iterator[AdviceFinding]:
    """All that is found, in the order in which it is to be mended."""
    yield from _compiles(report)
    yield from _mismatch(report)
    yield from _accuracy(report)
    yield from _goal(report)
    yield from _spread(report)
    yield from _quantized(report)
    yield from _doubts(report)
    yield from _near(report)
    yield from _bytes(report)
    yield from _not_asked(report)
    yield from _few(report)
    yield from _still(report)
    yield from _late(report)
    yield from _profile(report)


def _short(name: str) -> str:
    return shorten(name, _NAME)


# -- the compiler --------------------------------------------------------------------------------


def _compiles(report: Report) -> Iterator[AdviceFinding]:
    engine, output = report.engine, report.output or "X.onnx"
    if engine.regressed:
        why = engine.regression.reason if engine.regression is not None else engine.reason
        node = engine.regression.node if engine.regression is not None else ""
        by_pairs = engine.regression is not None and engine.regression.by == "quantization"
        flag = ("--keep-float", node) if by_pairs else ()
        yield AdviceFinding(
            "regressed", "bad",
            f"it does not compile, and the original does: {_first(why)}",
            (LikelyCause("node", f"at {_short(node)!r}" if node else "where is not known",
                         "the original is compiled, too",
                         "leave it in float" if by_pairs else "leave the rule out (--skip), and report this",
                         again(report, more=flag) if node and flag else ""),),
        )  # fmt: skip
    elif engine.status == "failed" and not report.unsupported:  # the target takes what this compiler lacks
        yield AdviceFinding(
            "beyond-compiler", "open", f"nothing compiled it here: {_first(engine.reason)}",
            (LikelyCause("compiler", "", "", f"compile it with {report.target}",
                         next(iter(report.commands), "")),),
        )  # fmt: skip
    elif engine.status == "failed":
        lines = len(report.unsupported[0].reason.splitlines())
        more = f": {_first(engine.reason)}" if lines > 1 else ""
        yield AdviceFinding(
            "not-compiled", "bad", f"it does not compile{more}",  # else the cause says all
            (*_not_taken(report), LikelyCause("compiler", "the compiler says which node it refuses", "",
             "see each node that is refused", shlex.join(["onnxq", "check", output]))),
        )  # fmt: skip
    elif report.unsupported and engine.status != "compiled":
        first = _named(report.unsupported[0])
        causes = (replace(one, said="" if one.said == _first(first) else one.said)
                  for one in _not_taken(report))  # fmt: skip
        yield AdviceFinding(
            "not-taken", "bad", f"{report.target} does not take the model: {_first(first)}", tuple(causes)
        )
    elif engine.status == "compiled" and engine.unread:
        said = f"it compiles, but what runs in {report.number_format} is not known"
        yield AdviceFinding("unread", "open", said)
    if engine.status == "compiled" and engine.regression is not None:
        said = f"{_short(engine.regression.node)!r} is left in float: quantized, it does not compile"
        yield AdviceFinding("left-in-float", "told", f"{said}: {_first(engine.regression.reason)}")


def _not_asked(report: Report) -> Iterator[AdviceFinding]:
    engine = report.engine
    if engine.status in ("not-installed", "not-run") and not report.unsupported:
        without = ("--no-engine",) if given(report, "--no-engine") else ()
        install = engine.status == "not-installed"
        do = "install NVIDIA's compiler: pip install 'onnxq[trt]'" if install else "compile it"
        command = again(report, without=without) if without else ""
        if not report.plan and report.output:  # sanitize, which compiles nothing
            command = shlex.join(["onnxq", "check", report.output])
        reason = ", since --no-engine was given" if without else f": {_first(engine.reason)}"
        said = f"nothing compiled it here{reason}"
        if not report.plan:
            said = f"sanitize does not compile; {report.target} takes each node, as far as its tables tell"
        yield AdviceFinding(
            "compiler-not-asked", "open", said,
            (LikelyCause("compiler", "", "", do, command),),
        )  # fmt: skip


def _not_taken(report: Report) -> Iterator[LikelyCause]:
    for one in report.unsupported[:3]:
        yield LikelyCause("not-taken", _named(one), "", one.advice)


def _named(one: NotTaken) -> str:
    where = f"{_short(one.node)!r} ({one.op}): " if one.node else ""
    return f"{where}{one.reason}"


def _first(text: str) -> str:
    """The first line of what the compiler says, of a length that can be read."""
    lines = text.strip().splitlines() or [""]
    return shorten(lines[0], 200)


# -- accuracy ------------------------------------------------------------------------------------

_COSTLY = ("everywhere", "not-for-int8")
"""Causes that are left where none is seen; what they ask for is much."""


def _accuracy(report: Report) -> Iterator[AdviceFinding]:
    broken = [one for one in report.accuracy if (one.nonfinite or 0) > 0]
    if broken:
        said = f"output {_short(broken[0].output)!r} has NaN or infinities that the float model's has not"
        yield AdviceFinding("nonfinite", "bad", said, likely(report))
        return
    if not report.accuracy:
        if part_of(PlanPart, report.plan).sites:
            yield AdviceFinding("not-measured", "open", "how near its outputs are was not measured",
                                (LikelyCause("no-data", "", "", "give samples (--calib)"),))  # fmt: skip
        return
    answers, kept = answers_lost(report), read_and_kept(report)
    near = [one for one in judged(report.accuracy, report.about_mean) if one.output not in kept]
    lost = lost_words(near, _short)
    task = part_of(TaskPart, report.task)
    figures = task.figures
    if answers is not None:
        goal = ("--min-agreement", f"{answers.least:g}")
        said = answers.said + ("" if answers.sure else "; with so few it may be chance")
        causes = likely(report, goal) if answers.sure else _unsure(report, likely(report, goal))
        yield AdviceFinding("answers", "bad" if answers.sure else "open", said, causes)
    if task.ask and not figures:
        if lost or next(_level(report), None) is not None:  # how far off that is, its task says
            yield _asked(report, task)
        return
    if lost:
        level = near[0].level_db
        figure = "" if near[0].why or level is None else f" ({decibels(level)})"
        yield AdviceFinding("lost", "bad", f"{lost}{figure}", likely(report, ("--min-sqnr", "20")))
    elif not figures:
        yield from _level(report)
    elif figures[0].percent is None:
        yield AdviceFinding(
            "no-answers", "open", figures[0].said,
            (*of_data(report), LikelyCause("unlike", "the samples show nothing that the model knows, or are "
             "prepared differently from training", "onnxq data shows what is fed",
             "give samples like those in use, prepared as in training")),
        )  # fmt: skip


def _asked(report: Report, task: TaskPart) -> AdviceFinding:
    """That what the outputs are is likely, and has to be said: decibels of boxes tell nothing."""
    seen = prepared(report)
    state = LikelyCause("task", "", "", "run it again with that --task, or with what is right")
    said = f"say what the outputs are, likely --task {task.ask}: {task.why}"
    causes = (*seen, state, *(one for one in likely(report) if one not in seen))
    return AdviceFinding("task", "open", said, causes)


def _unjudged(report: Report) -> Iterator[LikelyCause]:
    """That images may be prepared otherwise than in training: the float model cannot be asked."""
    for one in part_of(CalibrationPart, report.calibration).data.images[:1]:
        low, high = one.range
        yield LikelyCause(
            "unjudged",
            f"first see how the model was trained: images are fed {one.color}, {low:.4g} to {high:.4g}; "
            "onnxq cannot tell whether that is right, as nothing says what the outputs are (--task)",
            "the float model is asked of outputs that are known", "",
        )  # fmt: skip


def _level(report: Report) -> Iterator[AdviceFinding]:
    """How near the worst part is, of a model of which nothing says what it is for."""
    about = part_of(AboutMeanPart, report.about_mean)
    level, worst = number(about.worst_output_db), about.worst_output
    if level is None or worst is None:
        flat = [one.output for one in about.left_out if one.why in (CONSTANT, STILL)]
        if flat and not about.outputs:
            said = f"output {_short(flat[0])!r} does not vary from sample to sample: nothing can be judged"
            yield AdviceFinding(
                "constant", "open", said,
                (*of_data(report), LikelyCause("untrained", "the weights are not trained, or the samples are "
                 "of another kind than the model is for", "the float model's outputs are compared by sample",
                 "look at the float model's outputs of two of your samples")),
            )  # fmt: skip
        elif any(one.why != UNCHANGED for one in about.left_out) and not about.outputs:
            why = part_of(TaskPart, report.task).why  # the task is not known, either
            said = "; ".join(filter(None, (not_compared(about.left_out), why)))
            yield AdviceFinding("not-compared", "open", said)
        return
    spread = within_db(about.worst_interval)
    said = f"the worst output, {_short(worst)!r}, has {decibels(level)} of {NAME}{spread}"
    if level >= ENOUGH_FOR_ALL_DB:
        if about.worst_interval is not None and about.worst_interval.low < BAD_DB:
            said += f": other samples may have less than {BAD_DB:g} dB"
            yield AdviceFinding("spread", "open", said, _unsure(report))
        return
    high = about.worst_interval.high if about.worst_interval is not None else level
    bad = high < BAD_DB
    said += f": less than {BAD_DB if bad else ENOUGH_FOR_ALL_DB:g} dB" + (
        "" if bad else ", and the model's task is not known"
    )
    causes = likely(report, ("--min-sqnr", f"{ENOUGH_FOR_ALL_DB:g}"))
    if bad and (not causes or causes[0].code in _COSTLY):
        causes = (*_unjudged(report), *causes)
    elif bad and causes[0].code == "not-known":
        nor = "; ".join([causes[0].said, *(one.said for one in _unjudged(report))])
        causes = (replace(causes[0], said=nor), *causes[1:])
    state = LikelyCause("task", "what its outputs are is not known", "",
                        "name the task (--task), or give a function that scores it (--eval)")  # fmt: skip
    yield AdviceFinding("level", "bad" if bad else "open", said, causes if bad else (*causes, state))


def _unsure(report: Report, causes: tuple[LikelyCause, ...] = ()) -> tuple[LikelyCause, ...]:
    """Causes of what may be chance: first what is doubtful about the data, then that few samples judged."""
    doubts = tuple(of_data(report))
    judged = number(report.accuracy[0].samples) if report.accuracy else None
    said = "" if judged is None else f"{counted(int(judged), 'sample')} judged it"
    more = LikelyCause("few-samples", said, "", "give more samples, like those in use")
    return (*doubts, more, *(one for one in causes if one not in doubts))


def _spread(report: Report) -> Iterator[AdviceFinding]:
    """That other samples may be far off, of a model whose answers are kept."""
    about = part_of(AboutMeanPart, report.about_mean)
    level, interval = number(about.worst_output_db), about.worst_interval
    if level is None or interval is None or not part_of(TaskPart, report.task).figures:
        return
    if about.worst_output in read_and_kept(report):
        return
    if level < BAD_DB and interval.low < LEAST_ABOUT_MEAN and interval.high - interval.low > BAD_DB:
        said = f"the worst output, {_short(about.worst_output or '')!r}, has {decibels(level, interval)}"
        said += ": on other samples it may be below 0 dB, where the error is larger than the signal"
        yield AdviceFinding("spread", "open", said, _unsure(report, likely(report)[:1]))


def _near(report: Report) -> Iterator[AdviceFinding]:
    """That enough answers are kept, but of so few samples that fewer may be on others."""
    near = near_so_far(report)
    if near is not None:
        said, do = near
        more = LikelyCause("few-samples", "", "", do)
        yield AdviceFinding("few-answers", "open", said, (*of_data(report), more))


def _few(report: Report) -> Iterator[AdviceFinding]:
    """That too few samples judge."""
    samples = number(report.accuracy[0].samples) if report.accuracy else None
    if samples is not None and samples < LEAST_GROUPS and part_of(PlanPart, report.plan).sites:
        yield AdviceFinding(
            "few-judge", "open",
            f"{counted(int(samples), 'sample')} judged it: that tells little",
            (LikelyCause("few-samples", "", "", "give 64 samples or more, like those in use"),),
        )  # fmt: skip


def _mismatch(report: Report) -> Iterator[AdviceFinding]:
    goal = part_of(GoalPart, report.goal)
    if goal.mismatch:
        met = all(one.met for one in goal.gates)
        yield AdviceFinding("mismatch", "open" if met else "bad", goal.mismatch[0], tuple(mismatched(report)))


def _goal(report: Report) -> Iterator[AdviceFinding]:
    goal = part_of(GoalPart, report.goal)
    for gate in [one for one in goal.gates if not one.met][:1]:
        of = f" of {_short(gate.of)!r}" if gate.of else ""
        measured, wanted = (number(one) for one in (gate.measured, gate.goal))
        reached = "not measured" if measured is None else f"{measured:.4g}"
        wants = (
            ""
            if wanted is None
            else f", {'at most' if gate.kind == 'drop' else 'at least'} {wanted:g} asked for"
        )
        how = "these samples do not tell whether the goal is met" if gate.undecided else "the goal is missed"
        yield AdviceFinding(
            "goal", "open" if gate.undecided else "bad", f"{how}: {gate.what}{of}: {reached}{wants}",
            (*(one for one in likely(report)[:1] if one.code != "not-known"), *_of_goal(report)),
        )  # fmt: skip


def _of_goal(report: Report) -> Iterator[LikelyCause]:
    goal = part_of(GoalPart, report.goal)
    if all(gate.met or gate.undecided for gate in goal.gates):
        yield LikelyCause("undecided", "", "", "give more samples")
    elif goal.cut:
        yield LikelyCause("cut", "the time limit cut the search for it", "", "let it go on",
                          again(report, without=("--time-limit",)))  # fmt: skip
    elif given(report, "--max-float"):
        yield LikelyCause("max-float", "more layers than --max-float allows would have to stay in float", "",
                          "let more stay in float", again(report, without=("--max-float",)))  # fmt: skip
    elif goal.search is not None and goal.search.met_where_chosen:
        yield LikelyCause(
            "met-where-chosen", "it is met on the samples that chose layers, not on those that verify", "",
            "ask for more, so that it is met on these too; or give more samples", _asking_for_more(report),
        )  # fmt: skip
    else:
        yield LikelyCause("unreachable", "it is missed whichever layers stay in float", "",
                          "give more samples, or a lower goal")  # fmt: skip


def _asking_for_more(report: Report) -> str:
    """The command with a goal in dB that is higher by what is missing, twice; "" where that is not it."""
    short = [one for one in part_of(GoalPart, report.goal).gates if not one.met]
    if [one.kind for one in short] != ["sqnr"] or not given(report, "--min-sqnr"):
        return ""
    wanted, missing = number(short[0].goal), number(short[0].missing)
    if wanted is None or missing is None:
        return ""
    return again(report, without=("--min-sqnr",), more=("--min-sqnr", f"{wanted + 2 * missing:.1f}"))


# -- what quantization is worth -------------------------------------------------------------------


def _quantized(report: Report) -> Iterator[AdviceFinding]:
    plan, engine, format = part_of(PlanPart, report.plan), report.engine, report.number_format
    if report.plan and not plan.own_pairs_read and not any(one.quantized for one in plan.layers):
        met = [one for one in part_of(GoalPart, report.goal).gates if one.met]
        held = sum(one.code == "other-codes" for one in plan.kept_float)
        said = "nothing is quantized: the file is a float model"
        if held:
            said = f"nothing more is quantized: {counted(held, 'layer')} of codes that the model has"
        if met:
            said = (
                f"{format} does not reach the goal{_alone(report, met[0])}: all layers were put back in float"
            )
        act = "ask for less, or make it in plain float16"
        half = LikelyCause("float16", "", "", act, in_float16(report))
        causes = (*_ineligible(report), *_in_bodies(report), *(half,) * bool(met))
        yield AdviceFinding("no-int8", "bad", said, causes)
        return
    if engine.status == "compiled" and engine.not_int8:
        names = engine.not_int8
        are = "layer is planned in {} but does" if len(names) == 1 else "layers are planned in {} but do"
        said = f"{len(names)} {are.format(format)} not run in it, for example {_short(names[0])!r}"
        yield AdviceFinding(
            "not-run", "bad", said,
            (LikelyCause("kernels", f"the compiler has no {format} kernel there",
                         "the engine's list of kernels says what each layer became", "see the kernels",
                         shlex.join(["onnxq", "engine", report.output or "X.onnx"])),),
        )  # fmt: skip


def _alone(report: Report, gate: GateMeasured) -> str:
    """What the model has with all of its plan quantized, of what was asked for."""
    default = part_of(GoalPart, report.goal).default
    had = next((number(one.measured) for one in default if (one.kind, one.of) == (gate.kind, gate.of)), None)
    wanted = number(gate.goal)
    most = "at most" if gate.kind == "drop" else "at least"
    return "" if had is None or wanted is None else f" ({gate.what}: {had:.4g}, {most} {wanted:g} asked for)"


def _bytes(report: Report) -> Iterator[AdviceFinding]:
    """That the engine moves more than float16's; whether it is slower only a GPU tells."""
    worth = worth_of(report.verdict)
    if worth is not None and worth.is_more:
        half = LikelyCause("float16", "float16 moves fewer bytes, and has no loss", "",
                           "make the model in plain float16, and time both engines on your GPU",
                           in_float16(report))  # fmt: skip
        few = [one for one in _ineligible(report) if one.code == "few-rows"]
        causes = (*_float_pairs(report), *of_bytes(report, worth.ratio), *few, half)
        yield AdviceFinding("bytes", "bad", worth.said, causes)


def _float_pairs(report: Report) -> Iterator[LikelyCause]:
    """That what the file has quantized is computed in float, as int8 around 0 has not its numbers."""
    notes = (*report.notes, *part_of(CalibrationPart, report.calibration).notes)
    for note in [one for one in notes if STAY_FLOAT in one]:
        yield LikelyCause("float-pairs", note, "", "take their ranges in int8", adopting(report))


_LARGER, _EXPORT = "a larger batch", "an export with a larger batch, or a dynamic one,"

_WHY = {
    "few-rows": "too few rows at these sizes",
    "padded-groups": "grouped and depthwise layers, which {} pads",
    "few-channels": "too few channels for a tile of {}",
    "keep-float": "kept in float as asked",
    "keep-fp32": "kept in float32 as asked",
    "rule": "kept in float by a rule",
    "goal": "left in float for the goal",
    "compiler": "refused in {} by the compiler",
}


def _ineligible(report: Report) -> Iterator[LikelyCause]:
    """What keeps most of the work in float."""
    plan = part_of(PlanPart, report.plan)
    macs = {one.node: number(one.macs) or 0.0 for one in plan.layers}
    whole = sum(macs.values())
    by_code = grouped((one.code, one) for one in plan.kept_float if one.node in macs)
    shares = {code: sum(macs[one.node] for one in some) for code, some in by_code.items()}
    for code in sorted(shares, key=lambda code: (code != "goal", -shares[code]))[:2]:
        if whole and shares[code] < 0.1 * whole:
            continue
        some = by_code[code]
        share = f", {100 * shares[code] / whole:.0f} % of the work" if whole else ""
        why = _WHY[code].format(plan.format) if code in _WHY else some[0].because
        dynamic = [one for one in report.deployment.dimensions if one.batch]
        few = code == "few-rows"
        size = int(number(dynamic[0].usual) or 1) if dynamic else 1
        larger = f"1:{max(16, 4 * size)}:{max(32, 8 * size)}"
        yield LikelyCause(
            code, f"{counted(len(some), 'layer')}{share}: {why}",
            "", f"{_LARGER if dynamic else _EXPORT} makes them eligible" * few,
            again(report, without=("--batch",), more=("--batch", larger)) if few and dynamic else "",
        )  # fmt: skip


def _in_bodies(report: Report) -> Iterator[LikelyCause]:
    """That layers are in the branches of an If: these stay as they are."""
    for one in [one for one in report.near_misses if one.rule == "inline_if"][:1]:
        said = f"layers in the branches of {_short(one.node)!r} are not quantized: {one.reason}"
        yield LikelyCause("in-body", said, "", "make one model for each value of its condition")


# -- data and sizes ------------------------------------------------------------------------------


def _doubts(report: Report) -> Iterator[AdviceFinding]:
    for cause in of_data(report):
        told = cause.code == "duplicates"
        yield AdviceFinding(cause.code, "told" if told else "open", cause.said, (cause,))
    calibration = part_of(CalibrationPart, report.calibration)
    if calibration.held_out_code == "shared" and part_of(PlanPart, report.plan).sites:
        yield AdviceFinding("shared", "told", f"it was judged on {calibration.held_out}")


def _still(report: Report) -> Iterator[AdviceFinding]:
    """That some outputs do not vary, beside others that do."""
    about = part_of(AboutMeanPart, report.about_mean)
    still = [one for one in about.left_out if one.why in (CONSTANT, STILL)]
    if still and about.outputs:
        more = f" and {len(still) - 1} more" if len(still) > 1 else ""
        said = f"output {_short(still[0].output)!r}{more}: {still[0].why}, so nothing is judged by it"
        yield AdviceFinding("constant-output", "told", said)


def _late(report: Report) -> Iterator[AdviceFinding]:
    """That a time limit left something out."""
    choice, repair = part_of(CalibrationPart, report.calibration).choice, report.repair
    why = [] if choice is None else [choice.why]
    why += [] if repair is None else [f"{one.step} not tried: {one.why}" for one in repair.steps]
    late = [one for one in (*why, part_of(GoalPart, report.goal).cut or "") if _LATE in one]
    if late:
        longer = LikelyCause(
            "late", "", "", "let it run to its end", again(report, without=("--time-limit",))
        )
        yield AdviceFinding("late", "told", late[0], (longer,))


def _profile(report: Report) -> Iterator[AdviceFinding]:
    named = [(f"{one.name}: ", reading(one)) for one in report.deployments]
    for name, said in named or [("", reading(report.deployment))]:
        if said:
            cause = LikelyCause("reading", "", "", HELPS_READING)
            yield AdviceFinding("reading", "told", f"{name}{said}", (cause,))
    for one in report.deployment.dimensions:
        if (
            None not in (number(one.largest), number(one.usual))
            and one.largest >= WIDE * max(1, one.usual)
            and one.origin == "stated"
        ):
            yield AdviceFinding(
                "wide-profile", "told",
                f"the profile of {one.name!r} goes from {one.smallest} to {one.largest}, and {one.usual} is "
                "what it is tuned for: large sizes are slow, and take their memory always",
                (LikelyCause("profile", "", "", "give deployments of their own, or a smaller largest size"),),
            )  # fmt: skip

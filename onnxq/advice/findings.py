"""What speaks against a result, or leaves it open: the findings of a report, each with its causes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from onnxq.advice.asked import again, asked_of, given
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
from onnxq.advice.worth import reading, worth_of
from onnxq.analysis.reports import number, part_of
from onnxq.base.grouped import grouped
from onnxq.base.reason import say
from onnxq.base.shown import counted, decibels, shorten, within_db
from onnxq.data.split import HELD_OUT, given_for
from onnxq.documents.accuracy import GateMeasured, GoalPart
from onnxq.documents.advice import AdviceFinding, LikelyCause, advised, cause
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.changes import NotTaken
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import NAME, AboutMeanPart
from onnxq.judge.comparable import CONSTANT, STILL, UNCHANGED, not_compared
from onnxq.judge.intervals import LEAST_GROUPS, Interval
from onnxq.judge.policies import BAD_DB, ENOUGH_FOR_ALL_DB
from onnxq.options.command_line import kept
from onnxq.task.measures import FigureKind
from onnxq.task.meter import TaskFigure, TaskPart

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
        likely_node = cause("node" if node else "node.unknown", "", node=_short(node))
        yield advised("regressed", "bad", [likely_node], why=_first(why))
    elif engine.status == "failed" and not report.unsupported:  # the target takes what this compiler lacks
        yield advised(
            "beyond-compiler", "open",
            [cause("compiler.target", next(iter(report.commands), ""), target=report.target)],
            why=_first(engine.reason),
        )  # fmt: skip
    elif engine.status == "failed":
        lines = len(report.unsupported[0].reason.splitlines())
        code = "not-compiled.why" if lines > 1 else "not-compiled"  # else the cause says all
        act = cause("compiler.refuses", shlex.join(["onnxq", "check", output]))
        nodes = [replace(one, command=_in_pieces(report)) for one in _not_taken(report)]
        yield advised(code, "bad", [*nodes, act], why=_first(engine.reason))
    elif report.unsupported and engine.status != "compiled":
        first = _named(report.unsupported[0])
        causes = (replace(one, said="" if one.said == _first(first) else one.said)
                  for one in _not_taken(report))  # fmt: skip
        yield advised("not-taken", "bad", causes, target=report.target, first=_first(first))
    elif engine.status == "compiled" and engine.unread:
        yield advised("unread", "open", format=report.number_format)
    if engine.status == "compiled" and engine.regression is not None:
        more = sum(one.code == "does-not-compile" for one in report.plan.kept_float) - 1 if report.plan else 0
        yield advised(
            "left-in-float.several" if more > 0 else "left-in-float", "told",
            node=_short(engine.regression.node), more=more, why=_first(engine.regression.reason),
        )  # fmt: skip


def _in_pieces(report: Report) -> str:
    """The command that cuts the original around what the compiler refuses; "" where it was no file."""
    if report.model is None:
        return ""
    words = [("--data", *part[1:]) if part[0] == "--calib" else part for part in asked_of(report)]
    return shlex.join(
        ["onnxq", "pieces", "split", report.model, "--until-compiles", *kept(words, "pieces split")]
    )


def _not_asked(report: Report) -> Iterator[AdviceFinding]:
    engine = report.engine
    if engine.status in ("not-installed", "not-run") and not report.unsupported:
        without = ("--no-engine",) if given(report, "--no-engine") else ()
        install = engine.status == "not-installed"
        command = again(report, without=without) if without else ""
        if not report.plan and report.output:  # sanitize, which compiles nothing
            command = shlex.join(["onnxq", "check", report.output])
        yield advised(
            "compiler-not-asked" + ".asked" * bool(without) + ".sanitized" * (not report.plan), "open",
            [cause("compiler.install" if install else "compiler", command)],
            why=_first(engine.reason), target=report.target,
        )  # fmt: skip


def _not_taken(report: Report) -> Iterator[LikelyCause]:
    for one in report.unsupported[:3]:
        yield cause("not-taken.node", node=_named(one), advice=one.advice)


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
        yield advised("nonfinite", "bad", likely(report), output=_short(broken[0].output))
        return
    if not report.accuracy:
        if part_of(PlanPart, report.plan).sites:
            yield advised("not-measured", "open", [cause("no-data")])
        return
    answers, kept = answers_lost(report), read_and_kept(report)
    near = [one for one in judged(report.accuracy, report.about_mean) if one.output not in kept]
    lost = lost_words(near, _short)
    task = part_of(TaskPart, report.task)
    figures = task.figures
    if answers is not None:
        goal = ("--min-agreement", f"{answers.least:g}")
        causes = likely(report, goal) if answers.sure else _unsure(report, likely(report, goal))
        yield advised(
            "answers" if answers.sure else "answers.chance", "bad" if answers.sure else "open", causes,
            figure=answers.figure.said, least=answers.least,
        )  # fmt: skip
    if task.ask and not figures:
        if lost or next(_level(report), None) is not None:  # how far off that is, its task says
            yield _asked(report, task)
        return
    if lost:
        level = near[0].level_db
        figure = "" if near[0].why or level is None else f" ({decibels(level)})"
        yield advised("lost", "bad", likely(report, ("--min-sqnr", "20")), lost=lost, figure=figure)
    elif not figures:
        yield from _level(report)
    elif figures[0].percent is None:
        yield advised("no-answers", "open", [*of_data(report), cause("unlike")], figure=figures[0].said)


def _asked(report: Report, task: TaskPart) -> AdviceFinding:
    """That what the outputs are is likely, and has to be said: decibels of boxes tell nothing."""
    seen = prepared(report)
    causes = (*seen, cause("task.again"), *(one for one in likely(report) if one not in seen))
    return advised("task", "open", causes, task=task.ask, why=task.why)


def _unjudged(report: Report) -> Iterator[LikelyCause]:
    """That images may be prepared otherwise than in training: the float model cannot be asked."""
    for one in part_of(CalibrationPart, report.calibration).data.images[:1]:
        low, high = one.range
        yield cause("unjudged", color=one.color, low=low, high=high)


def _level(report: Report) -> Iterator[AdviceFinding]:
    """How near the worst part is, of a model of which nothing says what it is for."""
    about = part_of(AboutMeanPart, report.about_mean)
    level, worst = number(about.worst_output_db), about.worst_output
    if level is None or worst is None:
        flat = [one.output for one in about.left_out if one.why in (CONSTANT, STILL)]
        if flat and not about.outputs:
            yield advised("constant", "open", [*of_data(report), cause("untrained")], output=_short(flat[0]))
        elif any(one.why != UNCHANGED for one in about.left_out) and not about.outputs:
            why = part_of(TaskPart, report.task).why  # the task is not known, either
            yield advised(
                "not-compared", "open", why="; ".join(filter(None, (not_compared(about.left_out), why)))
            )
        return
    spread = within_db(about.worst_interval)
    values = {"output": _short(worst), "level": decibels(level), "name": NAME, "spread": spread}
    if level >= ENOUGH_FOR_ALL_DB:
        if about.worst_interval is not None and about.worst_interval.low < BAD_DB:
            yield advised("spread", "open", _unsure(report), least=BAD_DB, **values)
        return
    high = about.worst_interval.high if about.worst_interval is not None else level
    bad = high < BAD_DB
    causes = likely(report, ("--min-sqnr", f"{ENOUGH_FOR_ALL_DB:g}"))
    if bad and (not causes or causes[0].code in _COSTLY):
        causes = (*_unjudged(report), *causes)
    elif bad and causes[0].code == "not-known":
        nor = "; ".join([causes[0].said, *(one.said for one in _unjudged(report))])
        causes = (replace(causes[0], said=nor), *causes[1:])
    if bad:
        yield advised("level", "bad", causes, least=BAD_DB, **values)
    else:
        every = (*causes, cause("task.unknown"))
        yield advised("level.unknown", "open", every, least=ENOUGH_FOR_ALL_DB, **values)


def _unsure(report: Report, causes: tuple[LikelyCause, ...] = ()) -> tuple[LikelyCause, ...]:
    """Causes of what may be chance: first what is doubtful about the data, then that few samples judged."""
    doubts = tuple(of_data(report))
    judged = number(report.accuracy[0].samples) if report.accuracy else None
    samples = "" if judged is None else counted(int(judged), "sample")
    more = cause("few-samples.judged" if samples else "few-samples", samples=samples)
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
        values = {"output": _short(about.worst_output or ""), "level": decibels(level, interval)}
        yield advised("spread.noise", "open", _unsure(report, likely(report)[:1]), **values)


def _near(report: Report) -> Iterator[AdviceFinding]:
    """That enough answers are kept, but of so few samples that fewer may be on others."""
    near = near_so_far(report)
    if near is not None:
        yield replace(near, causes=(*of_data(report), *near.causes))


def _few(report: Report) -> Iterator[AdviceFinding]:
    """That too few samples judge."""
    samples = number(report.accuracy[0].samples) if report.accuracy else None
    if samples is not None and samples < LEAST_GROUPS and part_of(PlanPart, report.plan).sites:
        yield advised(
            "few-judge", "open", [cause("few-samples.to-judge")], samples=counted(int(samples), "sample")
        )


def _mismatch(report: Report) -> Iterator[AdviceFinding]:
    goal = part_of(GoalPart, report.goal)
    if goal.mismatch:
        met = all(one.met for one in goal.gates)
        yield advised("mismatch", "open" if met else "bad", mismatched(report), how=goal.mismatch[0])


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
        causes = (*(one for one in likely(report)[:1] if one.code != "not-known"), *_of_goal(report))
        yield advised(
            "goal.undecided" if gate.undecided else "goal", "open" if gate.undecided else "bad", causes,
            what=gate.what, of=of, reached=reached, wants=wants,
        )  # fmt: skip


def _of_goal(report: Report) -> Iterator[LikelyCause]:
    goal = part_of(GoalPart, report.goal)
    if all(gate.met or gate.undecided for gate in goal.gates):
        yield cause("undecided")
    elif goal.cut:
        yield cause("cut")
    elif given(report, "--max-float"):
        yield cause("max-float", again(report, without=("--max-float",)))
    elif goal.search is not None and goal.search.met_where_chosen:
        yield cause("met-where-chosen", _asking_for_more(report))
    else:
        yield cause("unreachable")


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
        code = "no-int8.goal" if met else "no-int8.held" if held else "no-int8"
        values = {"layers": counted(held, "layer"), "format": format}
        alone = _alone(report, met[0]) if met else ""
        half = [cause("float16", in_float16(report))] if met else []
        yield advised(code, "bad", [*_ineligible(report), *_in_bodies(report), *half], alone=alone, **values)
        return
    if engine.status == "compiled" and engine.not_int8:
        names = engine.not_int8
        act = cause("kernels", shlex.join(["onnxq", "engine", report.output or "X.onnx"]), format=format)
        code = "not-run" if len(names) == 1 else "not-run.several"
        yield advised(code, "bad", [act], count=len(names), format=format, node=_short(names[0]))


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
        few = [one for one in _ineligible(report) if one.code == "few-rows"]
        causes = (
            *_float_pairs(report),
            *of_bytes(report, worth.ratio),
            *few,
            cause("float16.bytes", in_float16(report)),
        )
        yield advised("bytes", "bad", causes, moves=worth.said)


def _float_pairs(report: Report) -> Iterator[LikelyCause]:
    """That what the file has quantized is computed in float, as int8 around 0 has not its numbers."""
    notes = (*report.notes, *part_of(CalibrationPart, report.calibration).notes)
    for note in [one for one in notes if STAY_FLOAT in one]:
        yield cause("float-pairs", adopting(report), note=note)


_WHY = (
    "few-rows", "padded-groups", "few-channels", "keep-float", "keep-fp32", "rule", "goal", "compiler",
)  # fmt: skip
"""Codes of reasons to be in float of which a few words are said."""


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
        dynamic = [one for one in report.deployment.dimensions if one.batch]
        few = code == "few-rows"
        layers = f"{counted(len(some), 'layer')}{share}"
        size = int(number(dynamic[0].usual) or 1) if dynamic else 1
        larger = f"1:{max(16, 4 * size)}:{max(32, 8 * size)}"
        if code not in _WHY:
            yield LikelyCause(code, f"{layers}: {some[0].because}")
            continue
        command = again(report, without=("--batch",), more=("--batch", larger)) if few and dynamic else ""
        form = ".dynamic" if few and dynamic else ".layers" if code in ("compiler", "goal") else ""
        yield cause(f"{code}{form}", command, layers=layers, format=plan.format)


def _in_bodies(report: Report) -> Iterator[LikelyCause]:
    """That layers are in the branches of an If: these stay as they are."""
    for one in [one for one in report.near_misses if one.rule == "inline_if"][:1]:
        yield cause("in-body", node=_short(one.node), why=one.reason)


# -- data and sizes ------------------------------------------------------------------------------


def _doubts(report: Report) -> Iterator[AdviceFinding]:
    for one in of_data(report):
        told = one.code == "duplicates"
        yield AdviceFinding(one.code, "told" if told else "open", one.said, (one,))
    calibration = part_of(CalibrationPart, report.calibration)
    if calibration.held_out_code == "shared" and part_of(PlanPart, report.plan).sites:
        yield advised("shared", "told", samples=calibration.held_out)


def _still(report: Report) -> Iterator[AdviceFinding]:
    """That some outputs do not vary, beside others that do."""
    about = part_of(AboutMeanPart, report.about_mean)
    still = [one for one in about.left_out if one.why in (CONSTANT, STILL)]
    if still and about.outputs:
        more = f" and {len(still) - 1} more" if len(still) > 1 else ""
        yield advised("constant-output", "told", output=_short(still[0].output), more=more, why=still[0].why)


def _late(report: Report) -> Iterator[AdviceFinding]:
    """That a time limit left something out."""
    choice, repair = part_of(CalibrationPart, report.calibration).choice, report.repair
    why = [] if choice is None else [choice.why]
    why += [] if repair is None else [f"{one.step} not tried: {one.why}" for one in repair.steps]
    late = [one for one in (*why, part_of(GoalPart, report.goal).cut or "") if _LATE in one]
    if late:
        longer = cause("late.run")
        yield advised("late", "told", [longer], what=late[0])


def _profile(report: Report) -> Iterator[AdviceFinding]:
    named = [(f"{one.name}: ", reading(one)) for one in report.deployments]
    for name, said in named or [("", reading(report.deployment))]:
        if said:
            yield advised(
                "reading",
                "told",
                [cause("reading.helps", helps=say("worth.helps-reading"))],
                what=f"{name}{said}",
            )
    for one in report.deployment.dimensions:
        if (
            None not in (number(one.largest), number(one.usual))
            and one.largest >= WIDE * max(1, one.usual)
            and one.origin == "stated"
        ):
            yield advised(
                "wide-profile", "told", [cause("profile")],
                name=one.name, usual=one.usual, low=one.smallest, high=one.largest,
            )  # fmt: skip


LEAST_KEPT: Mapping[FigureKind, float] = {
    "detections": 97.0, "selections": 97.0, "objects": 97.0, "cosines": 98.0, "depths": 97.0, "flows": 97.0,
    "images": 97.0,
}  # fmt: skip
"""Percent of the float model's answers that an int8 model keeps, at least, of those near by a limit."""

LEAST_OF_OTHERS = 90.0
"""The same of other tasks: where two classes are about as likely, either may be first. (MobileNetV1 gives
96 % of the same answers, and is right less often by 0.4 points, -0.2 to 1.0.)"""

TELLING = 50
"""From so many answers on a share is told before all else, whatever its interval."""


@dataclass(frozen=True, slots=True)
class AnswersLost:
    """Answers of the float model that the int8 model does not give.

    Attributes:
        figure: how many are kept.
        least: how many are asked for, percent.
        sure: whether other samples would say so, too.
    """

    figure: TaskFigure
    least: float
    sure: bool


def answers_lost(report: Report) -> AnswersLost | None:
    """What is lost of the task's answers; None where enough are kept, or nothing is known of them."""
    figure = _figure(report)
    if figure is None or figure.percent is None or figure.percent >= _least(figure):
        return None
    least = _least(figure)
    sure = figure.whole >= TELLING or (figure.interval is not None and figure.interval.high < least)
    return AnswersLost(figure, least, sure)


def near_so_far(report: Report) -> AdviceFinding | None:
    """That enough answers are kept, but of so few samples that fewer may be on others; None: that is sure."""
    figure, part = _figure(report), part_of(TaskPart, report.task)
    if figure is None or figure.percent is None or figure.percent < _least(figure) or _is_sure(figure, part):
        return None
    more = _more(report, figure, part.ship_from)
    return advised("few-answers", "open", [more], figure=figure.said, least=part.ship_from)


def _more(report: Report, figure: TaskFigure, wanted: float) -> LikelyCause:
    """How many more samples raise the lower end to what is wanted, where as large a share is kept."""
    judged = number(report.accuracy[0].samples) if report.accuracy else None
    share, low = (figure.percent or 0.0) / 100, wanted / 100
    if judged is None or share <= low:
        return cause("few-samples")
    ends = figure.interval
    trials = Interval.trials(share, ends.low / 100) if ends is not None and ends.low > 0 else judged
    needed = given_for(math.ceil(judged * Interval.trials(share, low) / trials))
    is_crossed = part_of(CalibrationPart, report.calibration).held_out_code == "crossed"
    if is_crossed and judged < HELD_OUT:  # all that were given judged
        return cause("few-samples.more", samples=counted(needed - int(judged), "more sample"))
    return cause("few-samples.in-all", count=needed)


def read_and_kept(report: Report) -> frozenset[str]:
    """The outputs of which answers are read, where enough of these are kept beyond chance; else none."""
    figure, part = _figure(report), part_of(TaskPart, report.task)
    if figure is None or figure.percent is None or figure.percent < _least(figure):
        return frozenset()
    return frozenset(part.reads) if _is_sure(figure, part) else frozenset()


def _is_sure(figure: TaskFigure, part: TaskPart) -> bool:
    return figure.interval is not None and figure.interval.low >= part.ship_from


def _figure(report: Report) -> TaskFigure | None:
    """What is measured of the task, that of goals; None where nothing is."""
    figures = part_of(TaskPart, report.task).figures if report.task is not None else ()
    return figures[0] if figures else None


def _least(figure: TaskFigure) -> float:
    """Percent of answers that are kept, at least."""
    return LEAST_KEPT.get(figure.kind, LEAST_OF_OTHERS)

"""The answer to a report: ship it, do not ship it, or not known; why; and what to do."""

from __future__ import annotations

from collections.abc import Iterator

from onnxq.advice.asked import runnable
from onnxq.advice.causes import of_data
from onnxq.advice.findings import findings
from onnxq.advice.worth import worth_of
from onnxq.analysis.reports import number, part_of
from onnxq.base.reason import noted
from onnxq.base.shown import counted, decibels, within_db
from onnxq.documents.advice import Advice, AdviceFinding, Answer, LikelyCause
from onnxq.documents.plan import PlanPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.task.meter import TaskPart

_ANSWERS: dict[str, Answer] = {"bad": "do-not-ship", "open": "not-known"}
_ALSO = 2
_BESIDE = ("wide-profile", "constant-output")
"""What is told beside another cause: the model or its profile may not be what was meant."""

_LITTLE = 0.9
"""Of the bytes of float16: who moves more gains little."""


def advise(report: Report) -> Advice:
    """What to do about what a run made.

    A result is to be shipped that compiles, whose planned layers all run as planned, that keeps the answers
    of its task (else 30 dB of the worst part of its outputs), whose data nothing is doubtful about, and that
    moves no more bytes than plain float16.
    """
    every = tuple(runnable(one, report) for one in findings(report))
    of_the_data = {one.code for one in of_data(report)}
    doubtful = any(one.weight == "open" and one.code in of_the_data for one in every)
    found = sorted(every, key=lambda one: _rank(one, doubtful))
    first = found[0] if found else None
    if first is None or first.weight == "told":
        command = report.commands[0] if report.commands else ""
        note = "" if first is None else first.said
        return Advice("ship", "; ".join(_reasons(report)), note, "build the engine", command, tuple(found))
    cause, act = _cause(found), _act(found)
    bad = any(one.weight == "bad" for one in found)
    also = [one.said for one in found[1:] if one.weight != "told"][:_ALSO]
    told = [one.said for one in found if one.weight == "told" and one.code in _BESIDE][:1]
    why = also if cause is None or cause.said == first.said else [cause.said]
    return Advice(
        _ANSWERS["bad" if bad else "open"], first.said, "; ".join([*why, *told]),
        act.do if act is not None else "", act.command if act is not None else "", tuple(found),
    )  # fmt: skip


def _rank(one: AdviceFinding, doubtful: bool) -> int:
    """What is bad decides. Bytes wait for doubts about the data: with other data all figures are others."""
    if one.weight == "told":
        return 3
    if one.weight == "open":
        return 1 if doubtful else 2
    return 1 if one.code == "bytes" else 0


def _cause(found: list[AdviceFinding]) -> LikelyCause | None:
    return next((one for one in found[0].causes if one.said), None)


def _act(found: list[AdviceFinding]) -> LikelyCause | None:
    """What to do: what mends the likeliest cause; where only the user can act, that."""
    return next((one for one in found[0].causes if one.do or one.command), None)


def _reasons(report: Report) -> Iterator[str]:
    """What speaks for a result."""
    figures, about = part_of(TaskPart, report.task).figures, part_of(AboutMeanPart, report.about_mean)
    level = number(about.worst_output_db)
    if figures:
        yield figures[0].said
    elif level is not None:
        yield noted("worst-output", level=decibels(level), within=within_db(about.worst_interval))
    engine, plan = report.engine, report.plan
    if isinstance(plan, PlanPart) and engine.status == "compiled":
        run = f"{engine.int8 or 0} of {counted(engine.planned or 0, 'planned layer')} "
        run += "runs " if engine.planned == 1 else "run "
        yield run + (
            f"as planned: {plan.in_words(engine.not_int8)}" if plan.is_mixed else f"in {plan.format}"
        )
    elif engine.status == "compiled":
        yield "it compiles"
    worth = worth_of(report.verdict)
    if worth is not None:
        yield noted("small-gain", worth=worth.said) if worth.ratio > _LITTLE else worth.said

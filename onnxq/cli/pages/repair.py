"""The section on repair of accuracy: each step, what it gained, and what it took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.base.reason import code_of, say
from onnxq.cli.pages.words import counted, decibels
from onnxq.cli.screen import Page, shorten
from onnxq.judge.comparable import not_compared

if TYPE_CHECKING:
    from onnxq.documents.repair import RepairPart
    from onnxq.repair.ledger import RepairStep

_SHOWN = ("kept", "dropped", "failed")


def repair_section(page: Page, part: RepairPart | None) -> None:
    """What repair did; nothing where none was asked for."""
    if part is None:
        return
    if part.why_not is not None:
        page.section("Repair", part.why_not, "dim")
        return
    page.section("Repair", _summary(part))
    if part.after_db is None:
        return
    steps, auto = part.steps, part.asked == "auto"
    shown = [entry for entry in steps if not auto or entry.verdict in _SHOWN]
    width = max((len(entry.step) for entry in shown), default=0)
    for entry in shown:
        head = f"{entry.step:<{width}}  {entry.verdict.replace('-', ' '):<7}"
        page.entry(f"{head}  {outcome(entry)}", style="yellow" if entry.verdict == "failed" else "")
    if auto:
        _unmeasured(page, steps)
    if part.few:
        page.entry(part.few, style="yellow")


def _unmeasured(page: Page, steps: Sequence[RepairStep]) -> None:
    """The steps that there was nothing for, and those that would have taken too much."""
    nothing = [entry.step for entry in steps if entry.verdict == "not-applicable"]
    late = [entry for entry in steps if code_of(entry.why) == "late"]
    dear = [entry.step for entry in steps if entry.verdict == "left-out" and entry not in late]
    if nothing:
        page.entry(say("repair.nothing", steps=", ".join(nothing)), style="dim")
    if dear:
        names = ",".join(entry.step for entry in steps if entry.verdict != "not-applicable")
        them = "it" if len(dear) == 1 else "them"
        page.entry(say("repair.dear", steps=", ".join(dear), all=names, them=them), style="yellow")
    if late:
        page.entry(f"not tried: {', '.join(entry.step for entry in late)}: {late[0].why}", style="yellow")


def _summary(part: RepairPart) -> str:
    samples = counted(part.judged_on, "sample")
    if part.apart:
        samples += ", cross-validated"
    took = say(
        "repair.took" if part.runs_before is None else "repair.most",
        samples=part.fitted_on, runs=part.runs, most=part.runs_before,
    )  # fmt: skip
    before, after = part.before_db, part.after_db
    if before is None or after is None:
        why = part.steps[0].why if part.steps else not_compared()
        return f"not tried: {why}; {took}"
    return f"{decibels(before)} -> {decibels(after)} on {samples}; {took}"


def outcome(step: RepairStep) -> str:
    """What a step did: figures where it was measured, else why not."""
    if step.before_db is None or step.after_db is None:
        return step.why
    text = f"{step.before_db:.2f} dB -> {step.after_db:.2f} dB, {step.runs:.0f} runs"
    if step.verdict != "kept":
        return f"{text}: {step.why}"
    text += f": {step.made}" if step.made else ""
    if step.after_db < step.before_db:  # more samples than these judged
        text += f"; {step.why.split(';')[0]}"
    elif step.answers is not None and step.answers.shown > 0:
        text += f"; it {step.answers.said}"
    if step.worst is not None and step.worst.change_db < -0.05:
        text += f"; {shorten(step.worst.output, 40)} {step.worst.change_db:.2f} dB"
    return text

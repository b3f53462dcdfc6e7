"""How near outputs are: the section of the end screen, and what `onnxq compare` shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from onnxq.advice.causes import magnified
from onnxq.advice.lost import judged, lost_words
from onnxq.base.reason import noted, say
from onnxq.cli.pages.data import data_section
from onnxq.cli.pages.goal import goal_section
from onnxq.cli.pages.task import task_section
from onnxq.cli.pages.words import INTERVALS, counted, decibels, within
from onnxq.cli.screen import Page, shorten
from onnxq.judge.about_mean import NAME
from onnxq.judge.comparable import not_compared
from onnxq.judge.intervals import LEAST_GROUPS
from onnxq.judge.sqnr import power_db

if TYPE_CHECKING:
    from onnxq.documents.accuracy import OutputOfRun
    from onnxq.documents.body import BodyPart
    from onnxq.documents.calibration import CalibrationPart
    from onnxq.inspection.comparing import Comparison
    from onnxq.judge.about_mean import AboutMeanPart
    from onnxq.run.compare import OutputAccuracy


def accuracy_section(
    page: Page,
    accuracy: Sequence[OutputOfRun],
    calibration: CalibrationPart,
    body: BodyPart,
    about_mean: AboutMeanPart | None,
    format: str,
) -> None:
    """How near the quantized model's outputs are, and on which samples."""
    accuracy = sorted(accuracy, key=nearness)
    if not accuracy:
        no_data = calibration.held_out_code == "none"
        page.section("Accuracy", say("not-measured.data" if no_data else "not-measured.runtime"), "yellow")
        return
    count = accuracy[0].samples
    alone = calibration.held_out_code == "shared"
    apart = f"{counted(count, 'sample')} kept apart"
    on = apart if calibration.held_out_code == "apart" else calibration.held_out
    text = f"{format} against float on {on}; {intervals_line(count)}"
    if about_mean is not None:
        page.section("Accuracy", about_mean_line(about_mean))
        page.entry(text, style="yellow" if alone else "")
    else:
        page.section("Accuracy", text, "yellow" if alone else "")
    _outputs(page.entry, accuracy, 6)
    _of_each(page, accuracy, body, format)
    _destroyed(page, accuracy, body, about_mean)
    if calibration.not_verified:
        page.entry(calibration.not_verified, style="yellow")


def intervals_line(samples: int) -> str:
    """What stands in brackets behind figures, or why nothing does."""
    if samples >= LEAST_GROUPS:
        return INTERVALS
    return f"{'one sample tells' if samples == 1 else f'{samples} samples tell'} no interval"


def about_mean_line(part: AboutMeanPart) -> str:
    """The figure that goals are about: of all outputs together, and of the worst one."""
    if part.sqnr_about_mean_db is None or part.worst_output is None:
        return f"{NAME}: not measured: {not_compared(part.left_out)}"
    worst = shorten(part.worst_output, 40)
    text = f"{NAME}: {decibels(part.sqnr_about_mean_db, part.interval)}"
    if len(part.outputs) > 1:
        text += f" of {len(part.outputs)} outputs together"
        text += f", the worst {worst} {decibels(part.worst_output_db, part.worst_interval)}"
    else:
        text += f", of {worst} alone"
    if part.left_out:
        text += f" ({say('outputs-left-out', outputs=counted(len(part.left_out), 'output'))})"
    return text


def _of_each(page: Page, accuracy: Sequence[OutputOfRun], body: BodyPart, format: str) -> None:
    """What quantization and half precision do by themselves, of the output that is furthest off."""
    by_name = {entry.output: entry for entry in body.outputs}
    worst = next((by_name[one.output] for one in accuracy if one.output in by_name), None)
    if worst is None or worst.int8_db is None:
        return
    alone = "" if worst.body_db is None else f", the {body.type} body alone {decibels(worst.body_db)}"
    figures = f"{format} alone {decibels(worst.int8_db)}{alone}"
    page.entry(f"{shorten(worst.output, 40)}: {figures}; {say('half-simulated')}")


def _destroyed(
    page: Page,
    accuracy: Sequence[OutputOfRun],
    body: BodyPart,
    about_mean: AboutMeanPart | None,
) -> None:
    """Says which outputs have little to do with those of the float model, why perhaps, and what may help."""
    outputs = judged(accuracy, about_mean)
    said = lost_words(outputs, lambda name: shorten(name, 40))
    if said:
        page.entry(f"{said}: {noted('outputs-lost.advice')}", style="yellow")
        of_body = next((one for one in body.outputs if one.output == outputs[0].output), None)
        if of_body is not None and (why := magnified(body, of_body)):
            page.entry(why, style="yellow")


def nearness(entry: OutputAccuracy) -> float:
    """How near an output is to the float model's, dB; where it is no float, what differs is the noise."""
    if entry.mismatched or entry.nonfinite:
        return -math.inf
    if entry.sqnr_db is not None:
        return entry.sqnr_db
    return math.inf if entry.equal is None else -power_db(1 - entry.equal)


def _outputs(line: Callable[[str], None], accuracy: Sequence[OutputAccuracy], shown: int) -> None:
    for entry in accuracy[:shown]:
        line(f"{shorten(entry.output, 40)}: {closeness(entry)}")
    if len(accuracy) > shown:
        line(say("outputs-left-out.more", count=len(accuracy) - shown))


def closeness(entry: OutputAccuracy) -> str:
    """How near an output is, in words: `SQNR 31.2 dB, cosine 0.99961, ...`."""
    if entry.mismatched:
        return say("other-shape", count=entry.mismatched, samples=entry.samples)
    if entry.sqnr_db is None:
        return "no values" if entry.equal is None else f"{100 * entry.equal:.2f} % equal"
    if entry.sqnr_db == math.inf:
        return "equal"
    if entry.nonfinite:
        return say("not-finite", values=entry.nonfinite)
    cosine = "" if entry.cosine is None else f", cosine {entry.cosine:.5f}"
    level = decibels(entry.sqnr_db, entry.sqnr_interval)
    text = f"SQNR {level}{cosine}, max error {entry.max_abs:.2g} of {entry.max_ref:.2g}"
    if entry.top1 is None:
        return text
    return f"{text}, top-1 same in {100 * entry.top1:.1f} %{within(entry.top1_interval, 100)}"


def accuracy_page(comparison: Comparison) -> Page:
    """How near the outputs of two models are."""
    page = Page()
    samples = counted(comparison.accuracy[0].samples, "sample")
    page.head(f"{comparison.candidate} against {comparison.reference}, {samples}")
    _outputs(page.plain, sorted(comparison.accuracy, key=nearness), len(comparison.accuracy))
    page.plain(f"{about_mean_line(comparison.about_mean)}; {intervals_line(comparison.about_mean.samples)}")
    if comparison.emulated:
        page.plain(say("half-simulated"))
    task_section(page, comparison.task)
    data_section(page, comparison.data)
    if comparison.goal is not None:
        goal_section(page, comparison.goal, "quantized")
    return page

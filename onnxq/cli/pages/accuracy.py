"""How near outputs are: the section of the end screen, and what `onnxq compare` shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxq.analysis.lost import ADVICE, Judged, judged, lost_words
from onnxq.cli.pages.data import data_section
from onnxq.cli.pages.goal import goal_section
from onnxq.cli.pages.words import counted, decibels
from onnxq.cli.screen import Page, shorten
from onnxq.documents.accuracy import AboutMeanPart, OutputOfRun
from onnxq.documents.json_values import to_json
from onnxq.run.about_mean import NAME, not_compared
from onnxq.typed import typed

_LEAST_HALF = 45.0
"""What a body of float16 leaves of outputs, dB: 90 of 92 nets that int8 leaves 25 dB have more."""


def lost_alarm(page: Page, report: Mapping[str, Any]) -> None:
    """Says before all else which outputs are lost, with their figures."""
    found = {one["output"]: one for one in report.get("accuracy") or ()}
    outputs = _judged(list(found.values()), report.get("about_mean"))
    said = lost_words(outputs, lambda name: shorten(name, 40))
    if said:
        worst = found.get(outputs[0].output)
        page.alarm(said if worst is None else f"{said}: {closeness(worst)}")


def accuracy_section(
    page: Page,
    accuracy: Sequence[Mapping[str, Any]],
    calibration: Mapping[str, Any],
    body: Mapping[str, Any],
    about_mean: Mapping[str, Any] | None = None,
) -> None:
    """How near the int8 model's outputs are, and on which samples."""
    held_out = calibration["held_out"]
    accuracy = sorted(accuracy, key=nearness)
    if not accuracy:
        no_data = calibration["held_out_code"] == "none"
        why = "there was no data (--calib)" if no_data else "onnxruntime runs no output of the model"
        page.section("Accuracy", f"not measured: {why}", "yellow")
        return
    count = accuracy[0]["samples"]
    alone = calibration["held_out_code"] != "apart"
    text = f"on {held_out}" if alone else f"on {counted(count, 'sample')} held out of calibration"
    page.section("Accuracy", f"int8 against float {text}", "yellow" if alone else "")
    _outputs(page.entry, accuracy, 6)
    if about_mean is not None:
        page.entry(about_mean_line(about_mean))
    _of_each(page, accuracy, body)
    _destroyed(page, accuracy, body, about_mean)
    if calibration["not_verified"]:
        page.entry(calibration["not_verified"], style="yellow")


def _judged(
    accuracy: Sequence[Mapping[str, Any]], about_mean: Mapping[str, Any] | None
) -> tuple[Judged, ...]:
    part = None if about_mean is None else typed(AboutMeanPart, to_json(about_mean), lenient=True)
    return judged([typed(OutputOfRun, to_json(one), lenient=True) for one in accuracy], part)


def about_mean_line(part: Mapping[str, Any]) -> str:
    """The figure that goals are about: of all outputs together, and of the worst one."""
    level, worst = part["sqnr_about_mean_db"], part["worst_output"]
    if level is None:
        why = not_compared({entry["output"]: entry["why"] for entry in part["left_out"]})
        return f"{NAME}: not measured: {why}"
    text = f"{NAME}: {decibels(level)}"
    if len(part["outputs"]) > 1:
        text += f" of {len(part['outputs'])} outputs together"
        text += f", the worst {shorten(worst, 40)} {decibels(part['worst_output_db'])}"
    else:
        text += f", of {shorten(worst, 40)} alone"
    left_out = len(part["left_out"])
    return text + (f" ({counted(left_out, 'output')} left out: see the report)" if left_out else "")


def _of_each(page: Page, accuracy: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> None:
    """What int8 and half precision do by themselves, of the output that is furthest off."""
    by_name = {entry["output"]: entry for entry in body.get("outputs", ())}
    worst = next((by_name[e["output"]] for e in accuracy if e["output"] in by_name), None)
    if worst is None or worst["int8_db"] is None:
        return
    alone = (
        "" if worst["body_db"] is None else f", the {body['type']} body alone {decibels(worst['body_db'])}"
    )
    page.entry(
        f"{shorten(worst['output'], 40)}: int8 alone {decibels(worst['int8_db'])}{alone}; half precision is "
        "rounded after every node here, in fused kernels less often"
    )


def _destroyed(
    page: Page,
    accuracy: Sequence[Mapping[str, Any]],
    body: Mapping[str, Any],
    about_mean: Mapping[str, Any] | None,
) -> None:
    """Says which outputs have little to do with those of the float model, why perhaps, and what may help."""
    outputs = _judged(accuracy, about_mean)
    said = lost_words(outputs, lambda name: shorten(name, 40))
    if said:
        page.entry(f"{said}: {ADVICE}", style="yellow")
        worst = outputs[0].output
        _magnifies(page, next((one for one in body.get("outputs", ()) if one["output"] == worst), {}), body)


def _magnifies(page: Page, output: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Says that half precision alone is far off, too: then it is not int8 that does not suit the model."""
    level = output.get("body_db")
    if body.get("type") == "fp16" and isinstance(level, int | float) and level < _LEAST_HALF:
        page.entry(
            f"half precision alone leaves {decibels(level)}, where {_LEAST_HALF:g} and more are usual: "
            "the model magnifies whatever is rounded, as one does whose weights are not trained",
            style="yellow",
        )


def nearness(entry: Mapping[str, Any]) -> float:
    """How near an output is to the float model's, dB; where it is no float, what differs is the noise."""
    if entry["mismatched"] or entry["nonfinite"]:
        return -math.inf
    if entry["sqnr_db"] is not None:
        return float(entry["sqnr_db"])
    equal = entry["equal"]
    return math.inf if equal is None or equal == 1 else -10 * math.log10(1 - equal)


def _outputs(line: Callable[[str], None], accuracy: Sequence[Mapping[str, Any]], shown: int) -> None:
    for entry in accuracy[:shown]:
        line(f"{shorten(entry['output'], 40)}: {closeness(entry)}")
    if len(accuracy) > shown:
        line(f"+{len(accuracy) - shown} more outputs in the report")


def closeness(entry: Mapping[str, Any]) -> str:
    """How near an output is, in words: `SQNR 31.2 dB, cosine 0.99961, ...`."""
    if entry["mismatched"]:
        return f"another shape in {entry['mismatched']} of {entry['samples']} samples"
    if entry["sqnr_db"] is None:
        return "no values" if entry["equal"] is None else f"{100 * entry['equal']:.2f} % equal"
    if entry["sqnr_db"] == "inf":
        return "equal"
    if entry["nonfinite"]:
        return f"{entry['nonfinite']} values are NaN or infinite where the reference is finite"
    cosine = "" if entry["cosine"] is None else f", cosine {entry['cosine']:.5f}"
    sqnr = entry["sqnr_db"] if isinstance(entry["sqnr_db"], str) else f"{entry['sqnr_db']:.1f}"
    text = f"SQNR {sqnr} dB{cosine}, max error {entry['max_abs']:.2g} of {entry['max_ref']:.2g}"
    return text + ("" if entry["top1"] is None else f", top-1 same in {100 * entry['top1']:.1f} %")


def accuracy_page(
    reference: Path,
    candidate: Path,
    accuracy: Sequence[Mapping[str, Any]],
    data: Mapping[str, Any],
    *,
    emulated: bool,
    about_mean: Mapping[str, Any],
    goal: Mapping[str, Any] | None,
) -> Page:
    """How near the outputs of two models are; `emulated`: whether half precision is."""
    page = Page()
    page.head(f"{candidate} against {reference}, {counted(accuracy[0]['samples'], 'sample')}")
    _outputs(page.plain, sorted(accuracy, key=nearness), len(accuracy))
    page.plain(about_mean_line(about_mean))
    if emulated:
        page.plain("half precision is rounded after every node, in fused kernels less often")
    data_section(page, data)
    if goal is not None:
        goal_section(page, goal)
    return page

"""The sections on the plan: quantized layers, scales and where they are from, layers in float."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from onnxq.base.catalogue import Fact
from onnxq.base.grouped import grouped
from onnxq.cli.pages.data import calibration_data_section
from onnxq.cli.pages.deployment import deployment_section
from onnxq.cli.pages.size import size_section
from onnxq.cli.pages.words import counted, first_few, say, tally
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.calibration import CalibrationPart, MethodChosen
    from onnxq.documents.plan import FormatsTried, Heads, PlanPart
    from onnxq.documents.report import Report
    from onnxq.quant.plan import KeptFloat, Site

_FEW_SAMPLES = 32


def plan_section(page: Page, report: Report, plan: PlanPart, calibration: CalibrationPart) -> None:
    """What is quantized, with which scales, from which data, and what stays in float.

    Args:
        page: the screen.
        report: the report.
        plan: its plan.
        calibration: what it says of calibration.
    """
    deployment_section(page, report.deployment, report.deployments)
    layers_section(page, plan)
    size_section(page, report.size, quantized=bool(plan.sites))
    calibration_data_section(page, calibration.data)
    if plan.sites or calibration.cached:
        scales_section(page, plan, calibration)
    for note in calibration.notes:
        page.entry(note, style="yellow")
    kept_float_section(page, plan.kept_float)
    heads_entry(page, plan.heads)


def layers_section(page: Page, plan: PlanPart) -> None:
    """How much of the model is quantized."""
    layers = plan.layers
    eligible = [layer for layer in layers if layer.eligible]
    quantized = [layer for layer in layers if layer.quantized]
    share = plan.int8_share_of_eligible_macs
    done = sum(layer.quantized for layer in eligible)
    text = f"{done} of {counted(len(eligible), 'eligible layer')}"
    text += f", {100 * share:.1f} % of their multiply-accumulates" if share is not None else ""
    of_all = plan.int8_share_of_all_macs
    if of_all is not None:
        text = f"{100 * of_all:.1f} % of all multiply-accumulates: {text}"
    unknown = sum(layer.macs is None for layer in eligible)
    if unknown:
        without = say("planned.unknown", count=unknown)
        text += f", {say('planned.sizes')}" if share is None else f" {without}"
    extra = len(quantized) - done
    text += f"; {extra} more" if extra else ""
    text += f"; {plan.in_words()}" if plan.is_mixed else ""
    page.section(plan.format.capitalize(), text, "" if quantized else "yellow")
    _formats(page, plan.formats)
    if not (quantized or plan.sites):
        held = sum(layer.code == "other-codes" for layer in plan.kept_float)
        nothing = Fact("no-int8.held" if held else "no-int8", values={"layers": counted(held, "layer")})
        page.entry(nothing.text("answers"), style="yellow")


def _formats(page: Page, formats: FormatsTried | None) -> None:
    """How the number format of each layer was chosen, where several were asked for."""
    if formats is None:
        return
    page.section("Formats", formats.why)
    for one in formats.tried:
        level = "" if one.sqnr_db is None else f"{one.sqnr_db:.1f} dB, "
        layers = ", ".join(f"{number} in {name}" for name, number in one.layers.items())
        told = {"format": one.format, "layers": layers, "level": level}
        page.entry(say("planned.format", **told, share=one.bytes, verdict=one.verdict))


def scales_section(page: Page, plan: PlanPart, calibration: CalibrationPart) -> None:
    """How many scales there are, and what found them."""
    scales = calibration.scales
    used = [group for group in plan.groups if group.tensors[0] in scales]
    shared = sum(len(group.tensors) > 1 for group in used)
    over = f" over {counted(calibration.samples, 'sample')}" if calibration.samples else ""
    page.section(
        "Scales",
        f"{len(used)} for {counted(len(scales), 'activation')} ({shared} shared), {calibration.method}"
        f"{over}; {_weight_scales(plan.sites)}",
    )
    if plan.file is not None:
        page.entry(f"by {plan.file}")
    _origins(page, calibration)
    samples = calibration.samples * (calibration.data.batch or 1)
    if 0 < samples < _FEW_SAMPLES:
        few = Fact("few-samples.calibrated", values={"samples": counted(samples, "sample")})
        page.entry(few.text("answers"), style="yellow")


def _weight_scales(sites: Sequence[Site]) -> str:
    single = sum(site.kind == "weight" and site.axis is None for site in sites)
    return say("weight-scales.some" if single else "weight-scales", count=single)


def _origins(page: Page, calibration: CalibrationPart) -> None:
    """Where the scales are from."""
    if calibration.stats_file is not None:
        page.entry(f"read from {calibration.stats_file}")
    choice = calibration.choice
    if choice is not None:
        _choice(page, choice)
    entries = calibration.thresholds.values()
    own = (entry.because for entry in entries if entry.code in ("fixed", "cache", "layer"))
    for why, number in tally(why for why in own if why != calibration.method).items():
        page.entry(f"{counted(number, 'tensor')}: {why}")
    if calibration.cached is not None:
        page.entry(say("scales-from.cache", scales=counted(calibration.cached, "scale")))
    sampling = calibration.sampling
    if sampling is not None and sampling.sampled_tensors:
        tensors, millions = counted(sampling.sampled_tensors, "tensor"), sampling.least_values / 1e6
        known = 100 * sampling.tail_error
        page.entry(say("scales-from.histograms", millions=millions, tensors=tensors, percent=known))


def _choice(page: Page, choice: MethodChosen) -> None:
    """What the outputs chose."""
    if len(choice.trials) > 1:
        tried = ", ".join(f"{one.method} {one.sqnr_db:.1f}" for one in choice.trials)
        apart = "" if choice.why else " kept apart"
        several = len(choice.outputs) > 1
        of = say("scales-from.several", outputs=len(choice.outputs)) if several else ""
        page.entry(f"output SQNR on {counted(choice.samples, 'sample')}{apart}{of}, dB: {tried}")
        for one in choice.trials:
            if one.answers:
                page.entry(f"{one.method} {one.answers}")
    if choice.refined:
        scales = counted(len(choice.refined), "scale")
        page.entry(say("scales-from.refined", scales=scales, level=choice.sqnr_db))
        page.names([entry.tensors[0] for entry in choice.refined])
    if len(choice.outputs) > 1:
        levels = [f"{shorten(one.output, 40)} {one.sqnr_db:.1f}" for one in choice.outputs]
        page.entry(say("scales-from.outputs", levels=first_few(levels)))
    left_out = grouped((entry.why, shorten(entry.output, 40)) for entry in choice.left_out)
    for why, names in left_out.items():
        page.entry(f"not counted ({why}): {first_few(names)}")
    if choice.why:
        page.entry(choice.why, style="yellow")


def heads_entry(page: Page, heads: Heads | None) -> None:
    """What became of heads, and of what is loud; nothing by default where nothing had to be looked for."""
    if heads is None or heads.asked == "int8" or (heads.asked == "default" and heads.noise_share is None):
        return
    by_flag = heads.asked == "float"
    text = (
        f"{len(heads.left_float)} of {len(heads.heads)} in float"
        if by_flag
        else f"{counted(len(heads.left_float), 'layer')} in float"
    )
    if heads.left_float:
        text += f", {heads.share:.2%} of the eligible multiply-accumulates"
        text += "" if heads.gain_db is None else f", for {heads.gain_db:.1f} dB of SQNR"
    page.section("Heads" if by_flag else "Loud", text)
    for one in heads.loud:
        page.entry(one.why, style="" if one.left_float else "yellow")
    if heads.why:
        page.entry(heads.why, style="yellow" if heads.gain_db is None else "")
    if heads.few:
        page.entry(heads.few, style="yellow")


def kept_float_section(page: Page, kept: Sequence[KeptFloat]) -> None:
    """The layers that stay in float, by reason."""
    reasons = grouped((f"{entry.op}: {entry.because}", entry.node) for entry in kept)
    if reasons:
        page.section("Float", counted(len(kept), "layer"))
    for reason, nodes in sorted(reasons.items(), key=lambda item: -len(item[1])):
        page.entry(reason if len(nodes) == 1 else f"{reason} ({len(nodes)})")
        page.names(nodes)

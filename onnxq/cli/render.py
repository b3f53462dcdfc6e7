"""Documents as pages for a reader: the end screens and what the other verbs show."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxq.cli.screen import Page, shorten

_FEW = 4
_FEW_SAMPLES = 32


# --- sanitize and quantize ------------------------------------------------------------------------


def end_screen(report: Mapping[str, Any]) -> Page:
    """What a run of `sanitize` or `quantize` did."""
    page = Page()
    _regression(page, report["engine"])
    page.head(f"{report['model']} -> {report['output']}")
    _runtime(page, report["runtime"])
    page.section("Target", f"{report['target']}, done in {report['seconds']:.1f} s")
    settings_section(page, report)
    _changes(page, report)
    _misses(page, report["near_misses"])
    if report["plan"]:
        _plan(page, report)
    _unsupported(page, report["unsupported"])
    for entry in report["assumptions"]:
        page.section("Assumed", f"{entry['flag']} {entry['name']}={entry['value']}: {entry['why']}")
    for entry in report["interface_changes"]:
        page.section("Interface", f"{entry['tensor']}: {entry['was']} -> {entry['now']}", "yellow")
    if report["plan"]:
        _accuracy(page, report["accuracy"], report["calibration"])
        _engine(page, report["engine"])
    if not report["plan"]:
        _size(page, report)
    for number, file in enumerate(report["files"]):
        text = f"{file}  {size_text(Path(file).stat().st_size)}"
        page.section("Files" if number == 0 else "", text)
    for number, line in enumerate(report["commands"]):
        if number == 0:
            page.section("Next", "")
        page.code(line)
    return page


def _size(page: Page, report: Mapping[str, Any]) -> None:
    """The sizes of the original and of the result, and what made the result larger."""
    size = report["size"]
    grown = size["grown"] if size["after"] > size["before"] else ()
    doubtful = bool(grown and report["plan"] and report["plan"]["sites"])  # int8 is meant to be smaller
    text = f"{size_text(size['before'])} -> {size_text(size['after'])}"
    page.section("Size", text, "yellow" if doubtful else "")
    for entry in grown[:_FEW]:
        name = f"{shorten(entry['name'], 40)}: " if entry["name"] else ""
        page.entry(f"+{size_text(entry['bytes'])} {name}{entry['because']}")
    if len(grown) > _FEW:
        page.entry(f"+{len(grown) - _FEW} more in the report", style="dim")


def _runtime(page: Page, runtime: Mapping[str, str | None]) -> None:
    """That onnxruntime does not take the original: the reader must know it before everything else."""
    if runtime["original"] is not None:
        taken = "it takes the result" if runtime["result"] is None else "nor the result: nothing was run"
        taken += f"; NVIDIA's parser {runtime['parser']}" if runtime["parser"] is not None else ""
        page.section("Careful", f"onnxruntime does not take the original: {runtime['original']}", "yellow")
        page.entry(taken, style="yellow")


def settings_section(page: Page, report: Mapping[str, Any]) -> None:
    """The configuration file that was read, if one was."""
    if "config" in report:
        page.section("Settings", report["config"])


def _changes(page: Page, report: Mapping[str, Any]) -> None:
    changes, proved = report["changes"], report["proved"]
    counts = _count(change["rule"] for change in changes)
    if changes:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in proved.items() if count)
        how = " (on sampled inputs)" if proved["exact"] or proved["close"] else ""
        page.section("Repaired", f"{counted(len(changes), 'change')}: {verdicts}{how}")
        page.entry(_listed(counts))
        unproven = [c["proof"]["why"] for c in changes if c["proof"]["verdict"] == "unproven"]
        for why, count in _count(unproven).items():
            page.entry(f"unproven ({count}): {why}", style="yellow")
    else:
        page.section("Repaired", "nothing to change")
    for whole in report["whole_model"][-1:]:
        page.entry(f"whole model against the original: {_whole(whole)}")
    for change in report["rejected"]:
        why = _rejected(change)
        if change["proof"]["verdict"] == "unproven":  # under --prove always
            page.entry(why, style="yellow")
            continue
        page.entry(f"{why}; a bug of that rule, not of your model", style="red")
        if "reproducer" in change:
            page.entry(f"reproducer: {change['reproducer']}", 2)


def _rejected(change: Mapping[str, Any]) -> str:
    where = f" on {shorten(change['node'])}" if change["node"] else ""
    return f"rejected: {change['rule']}{where}: {change['proof']['why']}"


def _whole(proof: Mapping[str, Any]) -> str:
    if proof["verdict"] == "unproven":
        return f"not compared: {proof['why']}"
    if proof["verdict"] == "exact":
        return "equal"
    floats = [f"max difference {proof['max_abs']:.2g}"] if proof["sqnr_db"] is not None else []
    return ", ".join(["close", *floats, *([proof["why"]] if proof["why"] else [])])


def _misses(page: Page, misses: Sequence[Mapping[str, Any]], where: str = "in the report") -> None:
    for number, miss in enumerate(misses[:_FEW]):
        text = f"{shorten(miss['node'])}: {miss['reason']} ({miss['rule']})"
        page.section("Near miss" if number == 0 else "", text)
    if len(misses) > _FEW:
        page.section("", f"+{len(misses) - _FEW} more {where}", "dim")


def _plan(page: Page, report: Mapping[str, Any]) -> None:
    plan, calibration = report["plan"], report["calibration"]
    layers = plan["layers"]
    eligible = [layer for layer in layers if layer["eligible"]]
    int8 = [layer for layer in layers if layer["format"] != "float"]
    share = plan["int8_share_of_eligible_macs"]
    done = sum(layer["format"] != "float" for layer in eligible)
    text = f"{done} of {counted(len(eligible), 'eligible layer')}"
    text += f", {100 * share:.1f} % of their multiply-accumulates" if share is not None else ""
    of_all = plan["int8_share_of_all_macs"]
    text += f", {100 * of_all:.1f} % of the whole model's" if share is not None and of_all is not None else ""
    unknown = sum(layer["macs"] is None for layer in eligible)
    if unknown:
        text += ", whose sizes are not known" if share is None else f" (without {unknown} of unknown size)"
    extra = len(int8) - done
    page.section("Int8", text + (f"; {extra} more" if extra else ""), "" if int8 else "yellow")
    if not (int8 or plan["sites"]):
        page.entry("nothing is quantized: the file is a float model", style="yellow")
    _size(page, report)
    data_section(page, calibration["data"])
    if plan["sites"] or calibration["cached"]:
        _scales(page, plan, calibration)
    for note in calibration["notes"]:
        page.entry(note, style="yellow")
    _kept_float(page, plan["kept_float"])


def _scales(page: Page, plan: Mapping[str, Any], calibration: Mapping[str, Any]) -> None:
    """How many scales there are, and what found them."""
    scales = calibration["scales"]
    used = [group for group in plan["groups"] if group["tensors"][0] in scales]
    shared = sum(len(group["tensors"]) > 1 for group in used)
    over = f" over {counted(calibration['samples'], 'sample')}" if calibration["samples"] else ""
    page.section(
        "Scales",
        f"{len(used)} for {counted(len(scales), 'activation')} ({shared} shared), {calibration['method']}"
        f"{over}; {_weight_scales(plan['sites'])}",
    )
    _origins(page, calibration)
    samples = calibration["samples"] * calibration["data"].get("batch", 1)
    if 0 < samples < _FEW_SAMPLES:
        page.entry(f"{counted(samples, 'sample')} calibrated: 100 or more are usual", style="yellow")


def _kept_float(page: Page, kept: Sequence[Mapping[str, Any]]) -> None:
    """The layers that stay in float, by reason."""
    reasons: dict[str, list[str]] = {}
    for entry in kept:
        reasons.setdefault(f"{entry['op']}: {entry['because']}", []).append(entry["node"])
    if reasons:
        page.section("Float", counted(len(kept), "layer"))
    for reason, nodes in sorted(reasons.items(), key=lambda item: -len(item[1])):
        page.entry(reason if len(nodes) == 1 else f"{reason} ({len(nodes)})")
        page.names(nodes)


def _origins(page: Page, calibration: Mapping[str, Any]) -> None:
    """Where the scales are from."""
    if calibration["stats_file"] is not None:
        page.entry(f"read from {calibration['stats_file']}")
    choice = calibration["choice"]
    if choice is not None:
        _choice(page, choice)
    entries = calibration["thresholds"].values()
    own = (entry["because"] for entry in entries if entry["code"] in ("fixed", "cache", "layer"))
    for why, number in _count(why for why in own if why != calibration["method"]).items():
        page.entry(f"{counted(number, 'tensor')}: {why}")
    if calibration["cached"] is not None:
        page.entry(f"the calibration cache has {counted(calibration['cached'], 'scale')}")
    sampling = calibration["sampling"]
    if sampling is not None and sampling["sampled_tensors"]:
        page.entry(
            f"histograms of {sampling['least_values'] / 1e6:.1f} M values or more of "
            f"{counted(sampling['sampled_tensors'], 'tensor')}: the share above the 99.99 percentile is "
            f"known to {100 * sampling['tail_error']:.1f} % (--exact counts all)",
        )


def _choice(page: Page, choice: Mapping[str, Any]) -> None:
    """What the outputs chose."""
    if len(choice["trials"]) > 1:
        tried = ", ".join(f"{t['method']} {t['sqnr_db']:.1f}" for t in choice["trials"])
        apart = "" if choice["why"] else " kept apart"
        several = len(choice["outputs"]) > 1
        of = f", the mean of {len(choice['outputs'])} outputs" if several else ""
        page.entry(f"output SQNR on {counted(choice['samples'], 'sample')}{apart}{of}, dB: {tried}")
    if choice["refined"]:
        page.entry(
            f"{counted(len(choice['refined']), 'scale')} of the worst tensors chosen one by one: "
            f"{choice['sqnr_db']:.1f} dB"
        )
        page.names([entry["tensors"][0] for entry in choice["refined"]])
    if len(choice["outputs"]) > 1:
        levels = [f"{shorten(o['output'], 40)} {o['sqnr_db']:.1f}" for o in choice["outputs"]]
        page.entry(f"of each output, the worst first: {_first(levels)}")
    reasons: dict[str, list[str]] = {}
    for entry in choice["left_out"]:
        reasons.setdefault(entry["why"], []).append(shorten(entry["output"], 40))
    for why, names in reasons.items():
        page.entry(f"not counted ({why}): {_first(names)}")
    if choice["why"]:
        page.entry(choice["why"], style="yellow")


def _first(texts: Sequence[str]) -> str:
    """The first few of a list."""
    return ", ".join(texts[:_FEW]) + (f", +{len(texts) - _FEW} more in the report" * (len(texts) > _FEW))


def data_section(page: Page, data: Mapping[str, Any]) -> None:
    """How the data were understood, and what the model was fed."""
    for number, line in enumerate(data["lines"]):
        page.section("Data" if number == 0 else "", line)
    for image in data["images"]:
        page.entry(_fed(image))
    for note in data["notes"]:
        page.entry(note, style="yellow")
    if data.get("doubts"):
        warnings_section(page, data["doubts"])
        some = "sample" if data["looked_at"] == 1 else f"{data['looked_at']} samples"
        page.entry(f"looked at: the first {some} of those that were read", style="dim")


def warnings_section(page: Page, doubts: Sequence[Mapping[str, Any]]) -> None:
    """What is doubtful about the data, and what to do."""
    for number, doubt in enumerate(doubts):
        page.section("Warnings" if number == 0 else "", doubt["text"], "yellow")
        page.entry(doubt["hint"])


def _fed(image: Mapping[str, Any]) -> str:
    """What is done to an image: `x takes NCHW rgb, stretched to 224x224; float32 -2.1 to 2.6: ...`."""
    low, high = image["range"]
    text = f"{image['input']} is fed {image['layout']}, {image['color']}, {image['size']}; "
    text += f"{image['dtype']} from {low:.4g} to {high:.4g}"
    scale, mean, std = image["scale"], image["mean"], image["std"]
    value = "pixel" if scale == 1 else f"pixel {_factor(scale)}"
    if any(mean):
        value = f"{value} - {_each(mean)}"
    if any(entry != 1 for entry in std):
        value = f"({value}) / {_each(std)}" if any(mean) else f"{value} / {_each(std)}"
    return f"{text}: {value}" + (f" (preset {image['preset']})" if image["preset"] else "")


def _factor(scale: float) -> str:
    divisor = f"{1 / scale:g}"
    return f"/ {divisor}" if abs(scale) < 1 and abs(float(divisor) * scale - 1) < 1e-9 else f"* {scale:g}"


def _each(values: Sequence[float]) -> str:
    return f"{values[0]:g}" if len(values) == 1 else f"[{', '.join(f'{value:g}' for value in values)}]"


def _weight_scales(sites: Sequence[Mapping[str, Any]]) -> str:
    single = sum(site["kind"] == "weight" and site["axis"] is None for site in sites)
    return "weights have one a channel" + (f", {single} of them one for all" if single else "")


def _unsupported(page: Page, entries: Sequence[Mapping[str, Any]]) -> None:
    for number, entry in enumerate(entries[:_FEW]):
        text = entry["reason"]
        if entry["node"]:
            text = f"{shorten(entry['node'])} ({entry['op']}): {text}"
        page.section("Not taken" if number == 0 else "", text, "yellow")
        page.entry(entry["advice"])
    if len(entries) > _FEW:
        page.section("", f"+{len(entries) - _FEW} more in the report", "dim")


def _accuracy(page: Page, accuracy: Sequence[Mapping[str, Any]], calibration: Mapping[str, Any]) -> None:
    held_out = calibration["held_out"]
    accuracy = sorted(accuracy, key=_nearness)
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
    _destroyed(page, accuracy)
    if calibration["not_verified"]:
        page.entry(calibration["not_verified"], style="yellow")


_LEAST_SQNR, _LEAST_COSINE = 10.0, 0.9
_SMALL_ERROR = 0.1
"""Of what an output can be at all (`onnxq.quant.spans`): a probability of 0.02 may become one of 0.06."""


def _destroyed(page: Page, accuracy: Sequence[Mapping[str, Any]]) -> None:
    """Says which outputs have little to do with those of the float model, and what may help."""
    lost = [entry["output"] for entry in accuracy if _is_destroyed(entry)]
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        have = "have" if more else "has"
        page.entry(
            f"{shorten(lost[0], 40)}{more} {have} little to do with the float model's: look at the data and "
            "how they are prepared (onnxq data), try another --method, or keep layers in float "
            "(--keep-float)",
            style="yellow",
        )


def _is_destroyed(entry: Mapping[str, Any]) -> bool:
    sqnr, cosine = entry["sqnr_db"], entry["cosine"]  # None: not of floats; "inf": equal
    if sqnr is None or sqnr == "inf":
        return False
    span = entry.get("span")
    if span is not None and not isinstance(entry["max_abs"], str) and entry["max_abs"] <= _SMALL_ERROR * span:
        return False
    return sqnr == "-inf" or sqnr < _LEAST_SQNR or (cosine is not None and cosine < _LEAST_COSINE)


def _nearness(entry: Mapping[str, Any]) -> float:
    """How near an output is to the float model's, dB; where it is no float, what differs is the noise."""
    if entry["mismatched"] or entry["nonfinite"]:
        return -math.inf
    if entry["sqnr_db"] is not None:
        return float(entry["sqnr_db"])
    equal = entry["equal"]
    return math.inf if equal is None or equal == 1 else -10 * math.log10(1 - equal)


def _outputs(line: Callable[[str], None], accuracy: Sequence[Mapping[str, Any]], shown: int) -> None:
    for entry in accuracy[:shown]:
        line(f"{shorten(entry['output'], 40)}: {_closeness(entry)}")
    if len(accuracy) > shown:
        line(f"+{len(accuracy) - shown} more outputs in the report")


def _closeness(entry: Mapping[str, Any]) -> str:
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


def _regression(page: Page, engine: Mapping[str, Any]) -> None:
    """Says before all else that the result does not compile, and the original does."""
    if not engine["regressed"]:
        return
    found = engine["regression"]
    at = f", at {shorten(found['node'])}" if found["node"] else ""
    quantized = found["by"] == "quantization"
    what = "quantization" if quantized else "the repair"
    page.alarm(f"NOT COMPILED, and NVIDIA's compiler takes the original: {what} breaks it{at}")
    page.plain(_first_lines(found["reason"]), 1, "red")
    advice = "keep layers in float (--keep-float)" if quantized else "leave rules out (--skip)"
    page.plain(f"{advice}, and report this", 1)


def _engine(page: Page, engine: Mapping[str, Any]) -> None:
    where = f"({engine['compiler']}, sm {engine['sm']})"
    if engine["unread"]:
        page.section("Engine", f"it compiles {where}; what runs in int8 is not known", "yellow")
        page.entry(_first_lines(engine["unread"]))
    elif engine["status"] == "compiled":
        text = f"{engine['int8']} of {counted(engine['planned'], 'planned int8 layer')} run in int8 {where}"
        missing = engine["not_int8"]
        page.section("Engine", text, "yellow" if missing else "")
        page.names(missing)
        if engine["regression"] is not None:
            node, reason = engine["regression"]["node"], engine["regression"]["reason"]
            page.entry(
                f"{shorten(node)} is left in float: quantized, it fails: {_first_lines(reason)}", 1, "yellow"
            )
    elif engine["status"] == "failed":
        why = "see above" if engine["regressed"] else _first_lines(engine["reason"])
        page.section("Engine", f"it does not compile {where}: {why}", "red")
    elif engine["status"] == "not-run":
        page.section("Engine", f"not compiled: {engine['reason']}")
    else:
        page.section("Engine", engine["reason"])


# --- check ----------------------------------------------------------------------------------------


def check_page(document: Mapping[str, Any], report: Path | None = None) -> Page:
    """The findings of `check`, and what `sanitize` would change; `report`: the file that holds all of it."""
    page = Page()
    where = f"in {report}" if report is not None else "(--report FILE writes all)"
    findings = document["findings"]
    page.head(f"{document['model']}  ({document['target']}): {counted(len(findings), 'finding')}")
    settings_section(page, document)
    groups: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        key = (finding["op"], finding["reason"], finding["advice"])
        groups.setdefault(key, []).append(finding["node"])
    for (op, reason, advice), nodes in groups.items():
        page.section("Finding", f"{op or 'the model'}: {_first_lines(reason)}", "yellow")
        if advice:
            page.entry(advice)
        page.names([node for node in nodes if node], shown=_FEW)
    counts = _count(change["rule"] for change in document["changes"])
    if counts:
        page.section("Sanitize", f"would make {counted(len(document['changes']), 'change')}")
        page.entry(_listed(counts))
    else:
        page.section("Sanitize", "would change nothing")
    for change in document["rejected"]:
        page.entry(_rejected(change), 1, "red")
    said = {finding["node"] for finding in findings if finding["kind"] == "near-miss"}
    _misses(page, [miss for miss in document["near_misses"] if miss["node"] not in said], where)
    _compiler(page, document, where)
    if report is not None:
        page.section("Files", str(report))
    return page


def _compiler(page: Page, document: Mapping[str, Any], where: str) -> None:
    """What NVIDIA's compiler made of the model, in one section."""
    compiler, engine = document["compiler"], document["engine"]
    if engine is None:
        page.section("Compiler", "NVIDIA's compiler was not asked: it is not installed or not of this target")
        return
    text = {
        ("compiled", "compiled"): "it takes the model",
        ("failed", "compiled"): "it takes the sanitized model, not the original",
        ("compiled", "failed"): "it takes the original, not the sanitized model",
        ("failed", "failed"): "it does not take the model",
        ("not-run", "not-run"): "only its parser (--no-engine)",
    }[engine["original"], engine["sanitized"]]
    page.section("Compiler", f"NVIDIA's compiler was asked ({compiler}, sm {engine['sm']}): {text}")
    if engine["original"] == "failed" and engine["beyond"]:
        ops = ", ".join(dict.fromkeys(engine["beyond"].values()))
        page.entry(f"the target takes {ops}; TensorRT-RTX, which is here, does not", style="yellow")
    for name, profile in engine["profiles"].items():
        page.entry(f"{name} {':'.join('x'.join(map(str, shape)) for shape in profile)}")
    for warning in engine["warnings"][:_FEW]:
        page.entry(f"warning: {_first_lines(warning)}", style="dim")
    if len(engine["warnings"]) > _FEW:
        page.entry(f"+{len(engine['warnings']) - _FEW} more {where}", style="dim")


# --- inspect --------------------------------------------------------------------------------------


def model_page(document: Mapping[str, Any], *, full: bool) -> Page:
    """What a model holds."""
    page = Page()
    by = f", by {document['producer']}" if document["producer"] else ""
    page.head(
        f"{document['model']}  {size_text(document['bytes'])}, opset {document['opset']}, "
        f"IR {document['ir_version']}{by}"
    )
    for kind in ("inputs", "outputs"):
        for number, entry in enumerate(document[kind]):
            page.section(kind.capitalize() if number == 0 else "", f"{entry['name']}  {_type(entry)}")
    for number, (dim, places) in enumerate(document["dynamic"].items()):
        page.section("Dynamic" if number == 0 else "", f"{dim}: {', '.join(places)}")
    ops = document["ops"]
    shown = ops if full else dict(list(ops.items())[:8])
    rest = f", +{len(ops) - len(shown)} kinds (--ops)" if len(ops) > len(shown) else ""
    page.section("Nodes", f"{sum(ops.values())}: {_listed(shown)}{rest}")
    weights = document["weights"]
    where = ", external data" if weights["external"] else ""
    held = f"{weights['count']}, {size_text(weights['bytes'])}{where}: {_listed(weights['dtypes'])}"
    page.section("Weights", held if weights["count"] else "none")
    qdq = document["qdq"]
    page.section(
        "Q/DQ",
        f"{qdq['QuantizeLinear']} QuantizeLinear, {qdq['DequantizeLinear']} DequantizeLinear; "
        f"{counted(qdq['layers'], 'layer')} with quantized input and weights"
        if any(qdq.values())
        else "none: a float model",
    )
    _layers(page, document["layers"], full)
    return page


def _layers(page: Page, layers: Sequence[Mapping[str, Any]], full: bool) -> None:
    if not layers:
        page.section("Layers", "none in float with constant weights")
        return
    eligible = [layer for layer in layers if layer["eligible"]]
    macs = [layer["macs"] for layer in eligible]
    known = "size unknown, see --shape" if None in macs else f"{_si(sum(macs))} MACs a sample"
    page.section("Layers", f"{len(layers)} in float with constant weights, {len(eligible)} eligible: {known}")
    shown = layers if full else layers[:_FEW]
    for layer in shown:
        size = "?" if layer["macs"] is None else f"{_si(layer['macs'])} MACs"
        why = "eligible" if layer["eligible"] else f"not eligible: {layer['because']}"
        page.entry(f"{shorten(layer['node'], 40)} ({layer['op']}) {size}, {why}")
    if len(layers) > len(shown):
        page.entry(f"+{len(layers) - len(shown)} more (--ops)", style="dim")


def tensor_page(document: Mapping[str, Any]) -> Page:
    """All about one tensor."""
    page = Page()
    tensor, found = document["tensor"], document["quantization"]
    page.head(f"{tensor['name']}  {tensor['kind']}, {_type(tensor)}")
    maker = tensor["producer"]
    page.section("Written by", f"{maker['node']} ({maker['op']})" if maker else f"nothing: {tensor['kind']}")
    for number, user in enumerate(tensor["consumers"] or [None]):
        text = f"{user['node']} ({user['op']})" if user else "nothing"
        page.section("Read by" if number == 0 else "", text)
    stats = tensor["statistics"]
    if stats:
        text = ", ".join(f"{name} {stats[name]:.6g}" for name in ("min", "max", "mean"))
        page.section("Values", f"{text}, {stats['zeros']} zeros")
    if found is None:
        return page
    if found["scale"] is not None:
        page.section("Scale", f"{found['scale']:.9g}, int8 covers +-{127 * found['scale']:.6g}")
    elif found["axis"] is not None:
        page.section("Scale", f"one for each channel of axis {found['axis']}")
    else:
        page.section("Scale", "one for all values")
    if found["because"]:
        page.entry(f"because {found['because']}")
    others = [name for name in found["group"]["tensors"] if name != tensor["name"]]
    page.section("Group", f"{found['group']['id']}, " + ("shared with" if others else "its own"))
    page.names(others, shown=8, level=1)
    for reason in found["group"]["reasons"]:
        page.entry(f"because {reason}")
    for number, reader in enumerate(found["readers"]):
        text = f"{reader['node']}, input {reader['input']}"
        page.section("Read int8" if number == 0 else "", text)
    return page


# --- compare and engine ---------------------------------------------------------------------------


def accuracy_page(
    reference: Path, candidate: Path, accuracy: Sequence[Mapping[str, Any]], data: Mapping[str, Any]
) -> Page:
    """How near the outputs of two models are."""
    page = Page()
    page.head(f"{candidate} against {reference}, {counted(accuracy[0]['samples'], 'sample')}")
    _outputs(page.plain, sorted(accuracy, key=_nearness), len(accuracy))
    data_section(page, data)
    return page


def engine_page(document: Mapping[str, Any]) -> Page:
    """The layers of an engine."""
    page = Page()
    engine = document["engine"]
    page.head(f"{document['model']}  ({engine['compiler']}, sm {engine['sm']})")
    if document["profiles_from"]:
        page.section("Profiles", document["profiles_from"])
    if engine["status"] != "compiled":
        page.section("Rejected", _first_lines(engine["reason"], 6), "red")
        return page
    if engine["unread"]:
        page.section("Compiled", "its list of layers is not understood", "yellow")
        page.entry(_first_lines(engine["unread"]))
        return page
    layers = engine["layers"]
    counts = _listed(_count(layer["precision"] or "none" for layer in layers))
    size = f"{size_text(engine['plan_bytes'])}, built in {engine['seconds']:.1f} s"
    page.section("Compiled", f"{counted(len(layers), 'layer')}: {counts} ({size})")
    for name, profile in engine["profiles"].items():
        page.entry(f"{name} {':'.join('x'.join(map(str, shape)) for shape in profile)}")
    for layer in layers:
        page.section(layer["precision"] or "-", f"{shorten(layer['name'], 44)}  ({layer['kind']})")
        nodes = [name for name in layer["nodes"] if not name.endswith(_QDQ)]
        if nodes:
            more = f" +{len(nodes) - 1}" if len(nodes) > 1 else ""
            page.entry(f"{shorten(nodes[0], 50)}{more}", 1, "dim")
    return page


_QDQ = ("_QuantizeLinear", "_DequantizeLinear")


# --- split, run and extract -----------------------------------------------------------------------


def split_page(model: Path, manifest: Path, document: Mapping[str, Any]) -> Page:
    """The pieces of a model."""
    page = Page()
    pieces = document["pieces"]
    symbols = {dim for entry in document["inputs"] for dim in entry["shape"] or ()}
    page.head(f"{model} -> {counted(len(pieces), 'piece')}")
    for index, piece in enumerate(pieces):
        path = manifest.with_name(piece["file"])
        size = sum(p.stat().st_size for p in (path, path.with_name(f"{path.name}.data")) if p.exists())
        text = f"{path}  {counted(piece['nodes'], 'node')}, {size_text(size)}, for {piece['runs']}"
        page.section(f"Piece {index}", text)
        for kind in ("inputs", "outputs"):
            _tensors(page, kind, piece[kind], symbols)
    for note in document["notes"]:
        page.section("Note", note, "yellow")
    page.section("Manifest", str(manifest))
    page.section("Next", "")
    page.code(shlex.join(["onnxq", "run", str(manifest), "--data", "DATA"]))
    return page


def _tensors(page: Page, kind: str, entries: Sequence[Mapping[str, Any]], symbols: set[Any]) -> None:
    """Inputs or outputs of a piece; `?` is for sizes under a symbol that the model does not have."""
    for entry in entries[:6]:
        dims = [d if isinstance(d, int) or d in symbols else None for d in entry["shape"] or ()]
        known = {**entry, "shape": None if entry["shape"] is None else dims}
        page.entry(f"{kind[:-1]} {shorten(entry['name'])}  {_type(known)}")
    if len(entries) > 6:
        page.entry(f"+{len(entries) - 6} more {kind}", style="dim")


def chain_page(document: Mapping[str, Any]) -> Page:
    """What the pieces gave, against the original."""
    page = Page()
    against = f" against {document['original']}" if document["original"] else ""
    pieces, samples = len(document["pieces"]), document["samples"]
    page.head(f"{counted(pieces, 'piece')} in a chain{against}, {counted(samples, 'sample')}")
    bound = document["tolerance_db"]
    for entry in document["outputs"]:
        style = "" if entry["verdict"] == "equal" else "yellow"
        text = _closeness(entry)
        if entry["verdict"] != "equal":
            text = f"differs: {text}" + ("" if bound is None else f"; the bound is {bound:g} dB")
        page.plain(f"{shorten(entry['output'], 40)}: {text}", style=style)
    for note in document["notes"]:
        page.plain(note, style="yellow")
    data_section(page, document["data"])
    if document["saved"]:
        page.plain(f"each sample's tensors are in {document['saved']}")
    return page


def extract_page(document: Mapping[str, Any]) -> Page:
    """A part of a model."""
    page = Page()
    page.head(f"{document['model']} -> {document['output']}")
    page.section("Nodes", f"{sum(document['ops'].values())}: {_listed(document['ops'])}")
    for kind in ("inputs", "outputs"):
        for number, entry in enumerate(document[kind] or [None]):
            text = f"{entry['name']}  {_type(entry)}" if entry else "none"
            page.section(kind.capitalize() if number == 0 else "", text)
    for number, file in enumerate(document["files"]):
        page.section("Files" if number == 0 else "", f"{file}  {size_text(Path(file).stat().st_size)}")
    return page


# --- rules ----------------------------------------------------------------------------------------


def rules_page(rules: Sequence[Mapping[str, Any]]) -> Page:
    """The rules, by stage."""
    page = Page()
    for stage in dict.fromkeys(
        rule["stage"] for rule in sorted(rules, key=lambda r: _STAGES.index(r["stage"]))
    ):
        page.head(f"{stage}: {_STAGE_TEXT[stage]}")
        for rule in rules:
            if rule["stage"] == stage:
                page.plain(rule["id"], 1)
                page.plain(rule["summary"], 2, "dim")
                if _condition(rule):
                    page.plain(_condition(rule), 2, "dim")
    return page


_STAGE_TEXT = {
    "clean": "what every model wants",
    "compat": "what a target lacks",
    "fuse": "what makes layers quantizable",
    "place": "where Q/DQ pairs go",
}
_STAGES = tuple(_STAGE_TEXT)


def _condition(rule: Mapping[str, Any]) -> str:
    if rule["lacks"]:
        return f"only where the target lacks {rule['lacks']}"
    return "" if rule["default"] else f"only with --enable {rule['id']}"


def rule_page(rule: Mapping[str, Any]) -> Page:
    """A rule's documentation."""
    page = Page()
    page.head(rule["id"])
    for line in rule["doc"].splitlines():
        page.code(line)
    page.code("")
    page.section("Stage", f"{rule['stage']} ({_STAGE_TEXT[rule['stage']]})")
    page.section("Operators", "all" if rule["operators"] == ["*"] else ", ".join(rule["operators"]))
    if _condition(rule):
        page.section("Condition", _condition(rule))
    page.section("File", rule["file"])
    return page


def tested_page(rules: Sequence[Mapping[str, Any]]) -> Page:
    """What the examples of rules showed."""
    page = Page()
    for rule in rules:
        text = rule["failure"] or f"{rule['id']} ({counted(rule['examples'], 'example')})"
        page.section("failed" if rule["failure"] else "ok", text, "red" if rule["failure"] else "")
    failed = sum(bool(rule["failure"]) for rule in rules)
    page.head(f"{counted(len(rules), 'rule')} tested, {failed or 'none'} failed")
    return page


# --- words ----------------------------------------------------------------------------------------


def counted(count: int, noun: str) -> str:
    """A number of things: `1 layer`, `2 layers`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _count(names: Iterable[str]) -> dict[str, int]:
    from onnxq.report import counted

    return counted(names)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _first_lines(text: str, count: int = 3, width: int = 300) -> str:
    lines = [line if len(line) <= width else line[:width] + "..." for line in text.strip().splitlines()]
    rest = f"\n+{len(lines) - count} more lines (--json)" if len(lines) > count else ""
    return "\n".join(lines[:count]) + rest


def _type(entry: Mapping[str, Any]) -> str:
    from onnxq.graph.types import shape_text

    shape = None if entry["shape"] is None else tuple(entry["shape"])
    return f"{entry['dtype'] or 'unknown type'} [{shape_text(shape)}]"


def size_text(count: int) -> str:
    """A number of bytes."""
    return f"{count} B" if count < 1000 else f"{_si(count)}B"


def _si(count: int) -> str:
    """A number with a decimal prefix: `12.3 M`, `940 k`, `7`."""
    for prefix, unit in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= unit:
            value = count / unit
            return f"{value:.3g} {prefix}" if value < 999.5 else f"{value:.0f} {prefix}"
    return str(count)

"""What NVIDIA's compiler made of a model: the sections of the end screen, and what `onnxq engine` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.base.escapes import visible
from onnxq.cli.options import ALL_ROWS, ChoiceFlags
from onnxq.cli.pages.words import counted, decimal, first_lines, in_line, listed, size_text
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.compiled.engine_difference import SideBySide
    from onnxq.compiled.exported import RunTimes
    from onnxq.compiled.reading import EngineReading, EngineTotals, NodeInEngine, RuntimeWeights
    from onnxq.compiled.traffic import Traffic
    from onnxq.documents.engine import EnginePart
    from onnxq.documents.plan import PlanPart
    from onnxq.inspection.engine_reading import EngineDocument
    from onnxq.run.trt import Engine


def engine_section(page: Page, engine: EnginePart, plan: PlanPart) -> None:
    """What the compiler made of the result of a plan."""
    where = f"({engine.compiler}, sm {engine.sm})"
    if engine.unread:
        page.section("Engine", f"it compiles {where}; what runs in {plan.format} is not known", "yellow")
        page.entry(first_lines(engine.unread), lines=True)
    elif engine.status == "compiled":
        page.section("Engine", f"{plan.said_to_run(engine)} {where}", "yellow" if engine.not_int8 else "")
        page.names(engine.not_int8)
        left = engine.regression
        if left is not None:
            why = f"quantized, it fails: {first_lines(left.reason)}"
            page.entry(f"{in_line(left.node)} is left in float: {why}", 1, "yellow", lines=True)
    elif engine.status == "failed":
        why = first_lines(engine.reason)
        page.section("Engine", f"it does not compile {where}: {why}", "red", lines=True)
    elif engine.status == "not-run":
        page.section("Engine", f"not compiled: {engine.reason}", lines=True)
    else:
        page.section("Engine", engine.reason, lines=True)


def engine_page(
    document: EngineDocument, choice: ChoiceFlags = ALL_ROWS, *, drawn: Path | None = None
) -> Page:
    """An engine: in figures, then what is worst, then node by node.

    Args:
        document: what is known of it.
        choice: which nodes are listed; where none are asked for, all but pairs and what is folded.
        drawn: the drawing of its kernels that was written, or None.
    """
    page = Page()
    engine, reading = document.engine, document.reading
    if engine is None:
        page.head(f"{document.model}  (TensorRT, by {document.layer_info or document.profile_times})")
    else:
        page.head(f"{document.model}  ({engine.compiler}, sm {engine.sm})")
        _compiled(page, document, engine)
    if reading is not None:
        _totals(page, document, reading.totals)
        if document.differences is not None:
            _side_by_side(page, document, document.differences, choice)
        else:
            _worst(page, reading)
            _nodes(page, reading, choice)
    if document.other is not None and document.other.reading is None:
        other = document.other.engine
        why = first_lines(other.unread or other.reason) if other else ""
        page.section("Other", f"{visible(str(document.other.model))}: {why}", "red", lines=True)
    if drawn is not None:
        page.plain(f"drawn: {drawn}, for dot -Tsvg {drawn}")
    return page


def _compiled(page: Page, document: EngineDocument, engine: Engine) -> None:
    """Whether it compiles, and for which shapes."""
    if document.profiles_from:
        page.section("Profiles", document.profiles_from)
    if engine.status != "compiled":
        page.section("Rejected", first_lines(engine.reason, 6), "red", lines=True)
    elif engine.unread:
        page.section("Compiled", "its list of layers is not understood", "yellow")
        page.entry(first_lines(engine.unread), lines=True)
    for number, profiles in enumerate((engine.profiles, *engine.more)):
        which = f"profile {number}{'' if number else ', whose kernels these are'}: " if engine.more else ""
        for name, profile in profiles.items():
            page.entry(f"{which}{name} {':'.join('x'.join(map(str, shape)) for shape in profile)}")


def _totals(page: Page, document: EngineDocument, totals: EngineTotals) -> None:
    engine = document.engine
    size = f" ({size_text(engine.plan_bytes)}, built in {engine.seconds:.1f} s)" if engine else ""
    page.section("Kernels", f"{totals.kernels}: {listed(totals.kinds)}{size}")
    if totals.macs:
        whole = sum(totals.macs.values())
        shares = (f"{dtype} {100 * part / whole:.1f} %" for dtype, part in totals.macs.items())
        page.section("Multiplies", f"{decimal(whole)} multiply-accumulates: {', '.join(shares)}")
    if totals.attention:
        page.entry(f"fused attention: {listed(totals.attention)}")
    if totals.planned or totals.half:
        text = f"{totals.as_planned} of {counted(totals.planned, 'layer')} in the type of their Q/DQ pairs"
        half = f"; {totals.half} have a pair on one operand only" if totals.half else ""
        nodes = document.reading.nodes if document.reading else ()
        untold = sum(node.untold and node.planned is not None and not node.half for node in nodes)
        unsaid = f"; of {untold} the file does not say it" if untold else ""
        worse = totals.half or totals.as_planned + untold < totals.planned
        page.section("Planned", text + half + unsaid, "yellow" if worse else "")
    moved = [
        f"activations {size_text(totals.bytes_activations)}",
        f"conversions {size_text(totals.bytes_conversions)}",
        f"weights {size_text(totals.bytes_weights)} in {counted(totals.constants, 'constant')}",
    ]
    if document.traffic:
        page.section("Moves", _moved(document.traffic, judged=document.verdict is not None))
        page.entry(", ".join(moved))
    else:
        page.section("Moves", ", ".join(moved))
    if totals.seconds is not None:
        page.section("Takes", f"{_time_text(totals.seconds)} a run, all kernels together, as measured")
    beside = document.other.runs if document.other is not None else None
    runs = [one for one in (document.runs, beside) if one is not None]
    for place, one in enumerate(runs):
        page.section("" if place else "Runs", _runs_text(one))
    if totals.unknown_types:
        page.section("Unknown", f"{', '.join(totals.unknown_types)}: counted as no bytes", "yellow")


def _runs_text(runs: RunTimes) -> str:
    """The median of runs, and between what half of them lies."""
    low, middle, high = map(_time_text, (runs.compute_low_s, runs.compute_s, runs.compute_high_s))
    whole = "" if runs.latency_s is None else f"; {_time_text(runs.latency_s)} with copies"
    return f"{runs.file}: {middle} on the GPU, half of {runs.runs} runs {low} to {high}{whole}"


def _moved(traffic: Traffic, judged: bool) -> str:
    """What kernels read and write; the merged figure where no verdict follows, which tells it."""
    text = f"{traffic.moved_mb:.3g} MB as built, in {counted(traffic.kernels, 'kernel')}"
    if traffic.merged_kernels < traffic.kernels and not judged:
        text += f"; {traffic.merged_mb:.3g} MB where products are not written before what follows them"
    return text + ("; each dynamic size counts as 1" if traffic.dynamic else "")


def _worst(page: Page, reading: EngineReading) -> None:
    """What costs and computes nothing, and what does not run as planned."""
    missed = [node for node in reading.nodes if node.missed]
    if missed:
        page.section(
            "Not in it", f"{counted(len(missed), 'layer')} planned and run in another type", "yellow"
        )
        missed.sort(key=lambda node: -node.macs)
        _first(page, [f"{shorten(n.node, 36)}: {n.planned} -> {n.compiled or 'folded'}" for n in missed])
    half = [node for node in reading.nodes if node.half]
    if half:
        page.section("Half", f"{counted(len(half), 'layer')} of which one operand is quantized", "yellow")
        half.sort(key=lambda node: -node.macs)
        _first(page, [f"{shorten(n.node, 36)}: {n.planned}, runs in {n.compiled or 'none'}" for n in half])
    made = reading.runtime_weights
    if made:
        text = f"{counted(len(made), 'weight')} dequantized at each run"
        page.section("Weights", text, "yellow")
        largest = sorted(made, key=lambda weights: -weights.bytes_written)
        _first(page, [f"{_of(weights.nodes)}: {_weights_text(weights)}" for weights in largest])
    for kind in ("quantize", "dequantize", "cast", "reformat"):
        kernels = [kernel for kernel in reading.kernels if kernel.kind == kind]
        if kernels:
            whole = sum(kernel.moved for kernel in kernels)
            page.section(
                "Converts", f"{counted(len(kernels), 'kernel')} that only {kind}, {size_text(whole)}"
            )
            kernels.sort(key=lambda kernel: -kernel.moved)
            _first(page, [f"{_of(k.nodes or (k.name,))}: {size_text(k.moved)}" for k in kernels])


def _first(page: Page, lines: Sequence[str], shown: int = 3) -> None:
    for line in lines[:shown]:
        page.entry(line, 2, "dim")
    if len(lines) > shown:
        page.entry(f"+{len(lines) - shown} more (--json)", 2, "dim")


def _weights_text(weights: RuntimeWeights) -> str:
    shape = "x".join(map(str, weights.shape))
    where = "in the product's kernel" if weights.inside else f"{size_text(weights.bytes_written)} written"
    return f"{weights.held} -> {weights.made} [{shape}], {where}"


def _of(names: Sequence[str]) -> str:
    return shorten(names[0], 36) + (f" +{len(names) - 1}" if len(names) > 1 else "") if names else ""


def _nodes(page: Page, reading: EngineReading, choice: ChoiceFlags) -> None:
    """Nodes: planned type, type, what their kernel is for, multiply-accumulates, time.

    Where none is asked for, those that run, and no Q/DQ pairs.
    """
    from onnxq.compiled.reading import PAIRS

    shown = [
        node
        for node in reading.nodes
        if (
            choice.wants([node.node], node.op)
            if choice.is_any
            else node.op not in PAIRS and node.role != "folded"
        )
    ]
    if not shown:
        page.section("Nodes", f"none is of {choice.said}" if choice.is_any else "none runs", "yellow")
        return
    timed = any(node.seconds is not None for node in shown)
    text = f"{len(shown)} of {len(reading.nodes)}"
    plain = ": no pairs, and nothing folded into constants or views (--match lists any)"
    rest = "" if choice.is_any else plain
    page.section("Nodes", text + rest * (len(shown) < len(reading.nodes)))
    head = ("", "planned", "runs", "in", "MACs", *(("time",) if timed else ()))
    page.table(head, [_row(node, timed) for node in shown])


def _row(node: NodeInEngine, timed: bool) -> list[str]:
    planned = f"half {node.planned}" if node.half else node.planned or ""
    place = node.kind if node.role == "own" else f"+{node.kind}" if node.kind else "folded"
    runs = node.compiled or ""
    if runs and not node.macs:  # it multiplies nothing: what its kernel writes
        runs = f"->{runs}"
    row = [shorten(node.node, 17 if timed else 24), planned, runs, place]
    row.append(decimal(node.macs) if node.macs else "")
    return [*row, _time_text(node.seconds) if node.seconds is not None else ""] if timed else row


def _time_text(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} us"


_WORDS = {
    "nanoseconds": "time",
    "kernels": "kernels", "int8_macs": "int8 MACs", "fp8_macs": "fp8 MACs", "other_macs": "other MACs",
    "bytes_activations": "bytes of activations", "bytes_conversions": "bytes of conversions",
    "bytes_weights": "bytes of weights", "conversions": "only convert", "quantize": "only quantize",
    "dequantize": "only dequantize", "cast": "only cast", "reformat": "only reformat",
    "runtime_weights": "weights dequantized", "planned": "layers planned", "as_planned": "run as planned",
}  # fmt: skip


def _side_by_side(page: Page, document: EngineDocument, both: SideBySide, choice: ChoiceFlags) -> None:
    """Two engines: figures, then the nodes that are not the same."""
    assert document.other is not None  # there are differences to it
    page.section("Beside", f"{document.other.model} (second column)")
    figures = [entry for entry in both.figures if entry.one or entry.other]
    page.table(
        ("", "this", "other"),
        [
            (_WORDS.get(e.figure, e.figure), _figure(e.figure, e.one), _figure(e.figure, e.other))
            for e in figures
        ],
    )
    shown = [entry for entry in both.nodes if choice.wants([entry.node], entry.op)]
    text = f"{len(both.nodes)} differ, {both.same} do not"
    page.section("Nodes", text)
    timed = any(entry.seconds_one is not None and entry.seconds_other is not None for entry in shown)
    if shown:
        page.table(
            ("", "this", "other", "lost by", "what", *(("time", "there") if timed else ())),
            [
                (
                    shorten(entry.node, 26),
                    _place(entry.one, entry.role_one, entry.kernels_one),
                    _place(entry.other, entry.role_other, entry.kernels_other),
                    {"one": "this", "other": "other"}.get(entry.lost_by, ""),
                    entry.why,
                    *(
                        "" if one is None else _time_text(one)
                        for one in ((entry.seconds_one, entry.seconds_other) if timed else ())
                    ),
                )
                for entry in shown
            ],
        )


def _figure(name: str, value: int) -> str:
    if name == "nanoseconds":
        return _time_text(value / 1e9)
    return size_text(value) if name.startswith("bytes") else decimal(value)


def _place(dtype: str | None, role: str, kernels: int) -> str:
    if role in ("absent", "folded"):
        return role
    return ("+" if role == "fused" else "") + (dtype or "") + (f" x{kernels}" if kernels > 1 else "")

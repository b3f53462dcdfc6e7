"""What NVIDIA's compiler made of a model: the sections of the end screen, and what `onnxq engine` shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.base.escapes import visible
from onnxq.cli.options import ALL_ROWS, ChoiceFlags
from onnxq.cli.pages.words import counted, decimal, first_lines, first_of, in_line, listed, say, size_text
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

_SHOWN = 3


def engine_section(page: Page, engine: EnginePart, plan: PlanPart) -> None:
    """What the compiler made of the result of a plan."""
    where = f"({engine.compiler}, sm {engine.sm})"
    if engine.unread:
        page.section("Engine", say("compiles.unread", where=where, format=plan.format), "yellow")
        page.entry(first_lines(engine.unread), lines=True)
    elif engine.status == "compiled":
        page.section("Engine", f"{plan.said_to_run(engine)} {where}", "yellow" if engine.not_int8 else "")
        page.names(engine.not_int8)
        left = engine.regression
        if left is not None:
            text = say("compiles.left", node=in_line(left.node), why=first_lines(left.reason))
            page.entry(text, 1, "yellow", lines=True)
    elif engine.status == "failed":
        text = say("compiles.not", where=where, why=first_lines(engine.reason))
        page.section("Engine", text, "red", lines=True)
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
        page.section("Compiled", say("no-layers"), "yellow")
        page.entry(first_lines(engine.unread), lines=True)
    for number, profiles in enumerate((engine.profiles, *engine.more)):
        which = say("profile" if number else "profile.first", number=number) if engine.more else ""
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
        layers = counted(totals.planned, "layer")
        text = say("as-planned", done=totals.as_planned, layers=layers)
        half = f"; {say('as-planned.half', count=totals.half)}" if totals.half else ""
        nodes = document.reading.nodes if document.reading else ()
        untold = sum(node.untold and node.planned is not None and not node.half for node in nodes)
        unsaid = f"; {say('as-planned.untold', count=untold)}" if untold else ""
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
        page.section("Takes", say("kernels-time", time=_time_text(totals.seconds)))
    beside = document.other.runs if document.other is not None else None
    runs = [one for one in (document.runs, beside) if one is not None]
    page.sections("Runs", map(_runs_text, runs))
    if totals.unknown_types:
        page.section("Unknown", say("no-bytes", types=", ".join(totals.unknown_types)), "yellow")


def _runs_text(runs: RunTimes) -> str:
    """The median of runs, and between what half of them lies."""
    low, middle, high = map(_time_text, (runs.compute_low_s, runs.compute_s, runs.compute_high_s))
    whole = "" if runs.latency_s is None else f"; {_time_text(runs.latency_s)} with copies"
    ends = {"low": low, "high": high}
    return say("kernels-time.runs", file=runs.file, middle=middle, runs=runs.runs, **ends) + whole


def _moved(traffic: Traffic, judged: bool) -> str:
    """What kernels read and write; the merged figure where no verdict follows, which tells it."""
    text = f"{traffic.moved_mb:.3g} MB as built, in {counted(traffic.kernels, 'kernel')}"
    if traffic.merged_kernels < traffic.kernels and not judged:
        text += f"; {say('moves.merged', megabytes=traffic.merged_mb)}"
    return text + (f"; {say('moves.dynamic')}" if traffic.dynamic else "")


def _worst(page: Page, reading: EngineReading) -> None:
    """What costs and computes nothing, and what does not run as planned; of each the heaviest first."""
    missed = sorted((one for one in reading.nodes if one.missed), key=lambda one: -one.macs)
    lines = [f"{shorten(one.node, 36)}: {one.planned} -> {one.compiled or 'folded'}" for one in missed]
    _first(page, "Not in it", say("as-planned.otherwise", layers=counted(len(lines), "layer")), lines)
    half = sorted((one for one in reading.nodes if one.half), key=lambda one: -one.macs)
    lines = [f"{shorten(one.node, 36)}: {one.planned}, runs in {one.compiled or 'none'}" for one in half]
    _first(page, "Half", say("as-planned.operand", layers=counted(len(lines), "layer")), lines)
    made = sorted(reading.runtime_weights, key=lambda one: -one.bytes_written)
    lines = [f"{first_of(one.nodes, 36)}: {_weights_text(one)}" for one in made]
    _first(page, "Weights", say("dequantized-weights", weights=counted(len(lines), "weight")), lines)
    for kind in ("quantize", "dequantize", "cast", "reformat"):
        kernels = sorted((one for one in reading.kernels if one.kind == kind), key=lambda one: -one.moved)
        lines = [f"{first_of(one.nodes or (one.name,), 36)}: {size_text(one.moved)}" for one in kernels]
        whole = size_text(sum(one.moved for one in kernels))
        _first(page, "Converts", f"{counted(len(lines), 'kernel')} that only {kind}, {whole}", lines, "")


def _first(page: Page, label: str, text: str, lines: Sequence[str], style: str = "yellow") -> None:
    """A section with the first few of its lines; nothing for none."""
    if lines:
        page.section(label, text, style)
    for line in lines[:_SHOWN]:
        page.entry(line, 2, "dim")
    page.more(len(lines) - _SHOWN, "(--json)", 2)


def _weights_text(weights: RuntimeWeights) -> str:
    shape = "x".join(map(str, weights.shape))
    written = f"{size_text(weights.bytes_written)} written"
    where = say("dequantized-weights.inside") if weights.inside else written
    return f"{weights.held} -> {weights.made} [{shape}], {where}"


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
    if not choice.is_any and len(shown) < len(reading.nodes):
        text = say("nodes-of-engine", shown=len(shown), all=len(reading.nodes))
    page.section("Nodes", text)
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

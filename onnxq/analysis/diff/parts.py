"""The parts of two reports, each compared by its own measure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import PurePath

from onnxq.analysis.diff.planned import format_of_both, reader
from onnxq.analysis.diff.rows import BETTER, OTHER, WORSE, Cell, Judge
from onnxq.analysis.reports import number, part_of
from onnxq.base.grouped import grouped
from onnxq.base.plain import to_json
from onnxq.base.reason import noted
from onnxq.compiled.traffic import traffic
from onnxq.documents.accuracy import GateMeasured, GoalPart, OutputOfRun
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.engine import EnginePart
from onnxq.documents.plan import PlanPart
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.judge.about_mean import AboutMeanPart
from onnxq.repair.ledger import RepairStep
from onnxq.rewrite.changes import Change
from onnxq.run.engine_log import EngineLayer
from onnxq.task.meter import TaskPart

# Accuracy and goal: how near the outputs are to the float model's.

_ABOUT = "SQNR about the mean"


def accuracy(a: Report, b: Report, judge: Judge) -> None:
    """The outputs on samples that calibration did not see."""
    about = [part_of(AboutMeanPart, report.about_mean) for report in (a, b)]
    judge.figure(_ABOUT, *(number(part.sqnr_about_mean_db) for part in about), unit="dB")
    one, other = ({entry.output: entry for entry in report.accuracy} for report in (a, b))
    for name in dict.fromkeys([*one, *other]):
        if name in one and name in other:
            _output(name, one[name], other[name], judge)
            continue
        judge.state(
            BETTER if name in other else WORSE, "output",
            *("there" if name in outputs else None for outputs in (one, other)),
            name=name, why=noted("two-reports.output"),
        )  # fmt: skip
    kept = [{one.name: one for one in part_of(TaskPart, report.task).figures} for report in (a, b)]
    for name in [name for name in kept[0] if name in kept[1]]:
        shares = [number(some[name].percent) for some in kept]
        judge.figure(name, *(None if one is None else one / 100 for one in shares), unit="points", better=1)
    levels = [{one.output: number(one.sqnr_about_mean_db) for one in part.outputs} for part in about]
    for name in [name for name in levels[0] if name in levels[1] and len(levels[0]) + len(levels[1]) > 2]:
        judge.figure(_ABOUT, levels[0][name], levels[1][name], unit="dB", name=name)


def _output(name: str, x: OutputOfRun, y: OutputOfRun, judge: Judge) -> None:
    """An output that both models have."""
    sqnr = [number(one.sqnr_db) for one in (x, y)]
    judge.figure("SQNR", *sqnr, unit="dB", better=1, name=name)
    judge.figure("top-1 agreement", *(number(one.top1) for one in (x, y)), unit="points", better=1, name=name)
    judge.figure("cosine", *(number(one.cosine) for one in (x, y)), unit="", better=0, name=name)
    judge.figure("max error", *(number(one.max_abs) for one in (x, y)), unit="%", better=0, name=name)
    if sqnr == [None, None]:  # integers: equal or not
        judge.figure("equal values", *(number(one.equal) for one in (x, y)), unit="points", name=name)
    spoiled = [number(one.nonfinite) for one in (x, y)]
    judge.count("NaN or infinite values", *spoiled, better=-1, name=name)
    misshapen = [number(one.mismatched) for one in (x, y)]
    judge.count("samples of another shape", *misshapen, better=-1, name=name)


def goal(a: Report, b: Report, judge: Judge) -> None:
    """What was asked for, and whether it is met."""
    goals = [part_of(GoalPart, report.goal) for report in (a, b)]
    met: list[bool | None] = [part.met for part in goals]
    if None not in met:
        judge.state(WORSE if met[0] else BETTER, "goal met", *met)
    one, other = ({_gate(gate): number(gate.goal) for gate in part.gates} for part in goals)
    for name in dict.fromkeys([*one, *other]):
        judge.other("goal", one.get(name), other.get(name), name=name)
    scores = [None if part.scores is None else number(part.scores.int8) for part in goals]
    function = "" if goals[1].scores is None else goals[1].scores.function
    judge.figure("score", *scores, unit="%", name=function)


def _gate(gate: GateMeasured) -> str:
    return " of ".join(filter(None, (gate.what, gate.of)))


# The engine: whether it compiles, what runs as planned, what its kernels move.

_COMPILED = "compiled"


def engine(a: Report, b: Report, judge: Judge) -> None:
    """What NVIDIA's compiler made of both."""
    engines = [report.engine for report in (a, b)]
    status = [part.status for part in engines]
    verdict = (
        WORSE if status == [_COMPILED, "failed"] else BETTER if status == ["failed", _COMPILED] else OTHER
    )
    judge.state(verdict, "status", *status, why=b.engine.reason)
    judge.other("compiler", *(part.compiler or None for part in engines))
    judge.other("compute capability", *(None if part.sm is None else str(part.sm) for part in engines))
    if status != [_COMPILED, _COMPILED]:
        return
    name = format_of_both(a, b)
    judge.count(f"{name} layers", *(number(part.int8) for part in engines))
    judge.count(f"planned layers that are not {name}", *map(_not_int8, engines), better=-1)
    planned = [
        {layer.node for layer in part_of(PlanPart, report.plan).layers if layer.format != "float"}
        for report in (a, b)
    ]
    missed = [set(part.not_int8) for part in engines]
    formats = [
        {layer.node: layer.format for layer in part_of(PlanPart, report.plan).layers} for report in (a, b)
    ]
    for node in sorted(missed[0] ^ missed[1]):
        if node in planned[0] and node in planned[1]:
            runs = (
                "float" if node in not_run else one[node]
                for not_run, one in zip(missed, formats, strict=True)
            )
            judge.state(WORSE if node in missed[1] else BETTER, "runs in", *runs, name=node, node=node)
    layers = [part.layers for part in engines]
    if not all(layers):
        return
    moved = [traffic(kernels) for kernels in layers]
    judge.figure("moved by kernels, MB", *(m.moved_mb for m in moved), unit="%", better=-1)
    judge.figure("kernels", *(float(m.kernels) for m in moved), unit="%", better=-1)
    types = [_types(kernels) for kernels in layers]
    for node in [node for node in types[0] if node in types[1] and node not in missed[0] ^ missed[1]]:
        judge.other("kernels of", types[0][node], types[1][node], name=node, node=node)


def _not_int8(engine: EnginePart) -> float | None:
    planned, runs = number(engine.planned), number(engine.int8)
    return None if planned is None or runs is None else planned - runs


def _types(layers: Sequence[EngineLayer]) -> dict[str, str]:
    """The types in which each node is multiplied."""
    types_of: dict[str, set[str]] = {}
    for layer in layers:
        if layer.is_matrix and layer.precision:
            for node in layer.nodes:
                types_of.setdefault(node, set()).add(layer.precision)
    return {node: ", ".join(sorted(types)) for node, types in types_of.items()}


# Scales: their ratio, tensor by tensor, and which tensors share one.

_FEW = 4


def scales(a: Report, b: Report, judge: Judge) -> None:
    """The scales of activations, and the groups that have one scale."""
    parts = [part_of(CalibrationPart, report.calibration) for report in (a, b)]
    plans = [part_of(PlanPart, report.plan) for report in (a, b)]
    nodes: dict[str, str] = {}
    for plan in reversed(plans):
        for site in plan.sites:
            nodes.setdefault(site.tensor, reader(site))
    one, other = (part.scales for part in parts)
    for tensor in dict.fromkeys([*one, *other]):
        x, y = number(one.get(tensor)), number(other.get(tensor))
        why = _origin(tensor, parts)
        if x is None or y is None:
            judge.other("scale", x, y, name=tensor, node=nodes.get(tensor, ""), why=why)
        else:
            judge.ratio("scale", x, y, name=tensor, node=nodes.get(tensor, ""), why=why)
    _weights(parts, judge)
    _groups(plans, judge)


def _weights(parts: list[CalibrationPart], judge: Judge) -> None:
    """What `[[layer]]` makes of weights; one that it says nothing of has what their magnitudes give."""
    one, other = (part.weights for part in parts)
    for weight in dict.fromkeys([*one, *other]):
        x, y = one.get(weight), other.get(weight)
        said = y or x
        assert said is not None
        before, after = (number(said.whole_db if end is None else end.db) for end in (x, y))
        why = said.because if y is not None else f"without {said.because}"
        judge.figure("SQNR of weights", before, after, unit="dB", name=weight, node=said.node, why=why)


def _origin(tensor: str, parts: list[CalibrationPart]) -> str:
    """Where the range is from, where both reports say it."""
    ends = [part.thresholds.get(tensor) for part in parts]
    origins = ["" if end is None else end.because for end in ends]
    if origins[0] == origins[1]:
        return origins[1]
    return f"{origins[1]}, was {origins[0]}" if all(origins) else ""


def _groups(plans: list[PlanPart], judge: Judge) -> None:
    """Groups that fell apart, and those that were joined; of tensors that both plans have."""
    one, other = map(_group_of, plans)
    both = [tensor for tensor in one if tensor in other]
    for what, here, there in (("shares a scale", one, other), ("shares a scale now", other, one)):
        for group in grouped((here[tensor], tensor) for tensor in both).values():
            parts = grouped((there[tensor], tensor) for tensor in group)
            if len(parts) > 1:
                whole, split = _listed([group]), _listed(list(parts.values()))
                judge.other(what, *((whole, split) if here is one else (split, whole)), name=group[0])


def _group_of(plan: PlanPart) -> dict[str, int]:
    """The group of each tensor."""
    return {tensor: place for place, group in enumerate(plan.groups) for tensor in group.tensors}


def _listed(parts: list[list[str]]) -> str:
    return " | ".join(
        ", ".join(part[:_FEW]) + (f", +{len(part) - _FEW}" if len(part) > _FEW else "") for part in parts
    )


# Changes and repair: which rules were applied and proved, what the repair of accuracy did.

_PROOFS = ("failed", "unproven", "close", "exact")
"""From the weakest to the strongest."""


def changes(a: Report, b: Report, judge: Judge) -> None:
    """The rules' changes with their proofs, node by node; what was rejected; what the target refuses."""
    one, other = (_proofs(report.changes) for report in (a, b))
    missed = {(left.rule, left.node): left.reason for left in b.near_misses}
    for key in dict.fromkeys([*one, *other]):
        rule, node = key
        x, y = one.get(key), other.get(key)
        if x is None or y is None:
            judge.other(rule, x, y, name=node, node=node, why=missed.get(key, ""))
        else:
            judge.state(_weaker(x, y), rule, x, y, name=node, node=node)
    one, other = (_proofs(report.rejected) for report in (a, b))
    for rule, node in dict.fromkeys([*one, *other]):
        gone = (rule, node) not in other
        said = [None if (rule, node) not in proofs else "rejected" for proofs in (one, other)]
        judge.state(BETTER if gone else WORSE, rule, *said, name=node, node=node)
    wholes = [{proof.stage: proof for proof in report.whole_model} for report in (a, b)]
    for stage in [stage for stage in wholes[0] if stage in wholes[1]]:
        x, y = (whole[stage].verdict for whole in wholes)
        judge.state(_weaker(x, y), "whole model", x, y, name=stage, why=wholes[1][stage].why)
    refused = [{(one.node, one.reason) for one in report.unsupported} for report in (a, b)]
    for node, reason in sorted(refused[0] ^ refused[1]):
        gone = (node, reason) in refused[0]
        said = [None if (node, reason) not in pairs else "refused" for pairs in refused]
        judge.state(BETTER if gone else WORSE, "target", *said, name=node, node=node, why=reason)


def _proofs(changes: Sequence[Change]) -> dict[tuple[str, str], str]:
    """The verdict of each change, by rule and node; of several at one node the weakest."""
    verdicts: dict[tuple[str, str], str] = {}
    for change in changes:
        at, verdict = (change.rule, change.node), change.proof.verdict
        verdicts[at] = min(verdicts.get(at, verdict), verdict, key=_strength)
    return verdicts


def _strength(verdict: str) -> int:
    return _PROOFS.index(verdict) if verdict in _PROOFS else -1


def _weaker(a: str, b: str) -> str:
    if min(map(_strength, (a, b))) < 0:
        return OTHER
    return WORSE if _strength(b) < _strength(a) else BETTER


def repair(a: Report, b: Report, judge: Judge) -> None:
    """The steps of the repair of accuracy, and what it changed."""
    parts = [part_of(RepairPart, report.repair) for report in (a, b)]
    steps = [{step.step: step for step in part.steps} for part in parts]
    for name in dict.fromkeys([*steps[0], *steps[1]]):
        x, y = (by_name.get(name) for by_name in steps)
        said = y or x
        verdicts = (None if step is None else step.verdict for step in (x, y))
        judge.other("step", *verdicts, name=name, why="" if said is None else said.why)
        judge.figure("gain of the step", _gain(x), _gain(y), unit="dB", better=0, name=name)
    edits = [{(edit.kind, edit.tensor) for edit in part.edits} for part in parts]
    for kind, tensor in sorted(edits[0] ^ edits[1]):
        said_of = ("edited" if (kind, tensor) in made else None for made in edits)
        judge.other(kind, *said_of, name=tensor)
    judge.count("biases fitted", *(number(part.biases) for part in parts))
    judge.count("weights rounded otherwise", *(number(part.codes) for part in parts))


def _gain(step: RepairStep | None) -> float | None:
    """By how much a step that was kept is nearer, dB."""
    before, after = (None, None) if step is None else (number(step.before_db), number(step.after_db))
    return None if before is None or after is None else after - before


# Files and settings: what was written, by which version, with which method and which data.

_Says = Callable[[Report], object]


def _of(says: Callable[[CalibrationPart], object]) -> _Says:
    """What a report says of its calibration; None where there was none."""
    return lambda report: (
        says(report.calibration) if isinstance(report.calibration, CalibrationPart) else None
    )


_SETTINGS: tuple[tuple[str, _Says], ...] = (
    ("version of onnxq", lambda report: report.onnxq),
    ("schema", lambda report: report.schema),
    ("model", lambda report: report.model),
    ("target", lambda report: report.target),
    ("opset", lambda report: report.opset),
    ("configuration", lambda report: report.config),
    ("plan", lambda report: part_of(PlanPart, report.plan).file),
    ("method", _of(lambda part: part.method)),
    ("samples that calibrated", _of(lambda part: part.samples)),
    ("seed", _of(lambda part: part.seed)),
    ("counting", _of(lambda part: part.counting)),
    ("samples held out", _of(lambda part: part.held_out)),
    ("data", _of(lambda part: part.data.lines)),
    ("images", _of(lambda part: part.data.images)),
    ("statistics from", _of(lambda part: part.stats_file)),
    ("run as float32", _of(lambda part: part.in_float32)),
    ("repair", lambda report: part_of(RepairPart, report.repair).asked),
    ("assumptions", lambda report: report.assumptions),
    ("changes of the interface", lambda report: report.interface_changes),
)


def settings(a: Report, b: Report, judge: Judge) -> None:
    """Versions, options and data."""
    for what, says in _SETTINGS:
        judge.other(what, *(_cell(says(report)) for report in (a, b)))
    counts = (
        max((number(output.samples) or 0 for output in report.accuracy), default=None) for report in (a, b)
    )
    judge.count("samples that verified", *counts)


def files(a: Report, b: Report, judge: Judge) -> None:
    """The model's file: its size, whether it is the same, what is beside it."""
    after, before = ([number(size) for size in sizes] for sizes in
                     ((a.size.after, b.size.after), (a.size.before, b.size.before)))  # fmt: skip
    judge.figure("size", *after, unit="%", better=-1)
    judge.figure("size of the original", *before, unit="%", better=0)
    judge.count("nodes", number(a.nodes), number(b.nodes))
    if a.sha256 and b.sha256:
        judge.other("SHA-256", a.sha256[:12], b.sha256[:12])
    kinds = (", ".join(sorted({_kind(name) for name in report.files})) or None for report in (a, b))
    judge.other("kinds of files", *kinds)


def _kind(name: str) -> str:
    """What kind of file it is, by the end of its name."""
    path = PurePath(name)
    return "report" if path.name.endswith(".report.json") else path.suffix


def _cell(value: object) -> Cell:
    """A value as one cell, JSON for what is no number and no text; None of what is not there."""
    if value is None or isinstance(value, bool | int | float | str):
        return value if value != "" else None
    return json.dumps(to_json(value), ensure_ascii=False)

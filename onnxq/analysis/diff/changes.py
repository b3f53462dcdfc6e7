"""Changes and repair: which rules were applied and proved, what the repair of accuracy did."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.analysis.diff.rows import BETTER, OTHER, WORSE, Judge
from onnxq.analysis.reports import number, part_of
from onnxq.documents.repair import RepairPart
from onnxq.documents.report import Report
from onnxq.repair.ledger import RepairStep
from onnxq.rewrite.changes import Change

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

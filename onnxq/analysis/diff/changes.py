"""Changes and repair: which rules were applied and proved, what the repair of accuracy did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.analysis.diff.rows import BETTER, OTHER, WORSE, Judge
from onnxq.analysis.reports import OpenedReport, number, text

_PROOFS = ("failed", "unproven", "close", "exact")
"""From the weakest to the strongest."""


def changes(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """The rules' changes with their proofs, node by node; what was rejected; what the target refuses."""
    one, other = (_proofs(r, "changes") for r in (a, b))
    missed = {
        (text(e.get("rule")), text(e.get("node"))): text(e.get("reason")) for e in b.entries("near_misses")
    }
    for key in dict.fromkeys([*one, *other]):
        rule, node = key
        x, y = one.get(key), other.get(key)
        if x is None or y is None:
            judge.other(rule, x, y, name=node, node=node, why=missed.get(key, ""))
        else:
            judge.state(_weaker(x, y), rule, x, y, name=node, node=node)
    one, other = (_proofs(r, "rejected") for r in (a, b))
    for rule, node in dict.fromkeys([*one, *other]):
        gone = (rule, node) not in other
        said = [None if (rule, node) not in found else "rejected" for found in (one, other)]
        judge.state(BETTER if gone else WORSE, rule, *said, name=node, node=node)
    wholes = [r.by("stage", "whole_model") for r in (a, b)]
    for stage in [stage for stage in wholes[0] if stage in wholes[1]]:
        x, y = (text(whole[stage].get("verdict")) for whole in wholes)
        judge.state(_weaker(x, y), "whole model", x, y, name=stage, why=text(wholes[1][stage].get("why")))
    refused = [
        {(text(e.get("node")), text(e.get("reason"))) for e in r.entries("unsupported")} for r in (a, b)
    ]
    for node, reason in sorted(refused[0] ^ refused[1]):
        gone = (node, reason) in refused[0]
        said = [None if (node, reason) not in found else "refused" for found in refused]
        judge.state(BETTER if gone else WORSE, "target", *said, name=node, node=node, why=reason)


def _proofs(report: OpenedReport, key: str) -> dict[tuple[str, str], str]:
    """The verdict of each change, by rule and node; of several at one node the weakest."""
    found: dict[tuple[str, str], str] = {}
    for change in report.entries(key):
        proof = change.get("proof")
        verdict = text(proof.get("verdict")) if isinstance(proof, Mapping) else ""
        at = text(change.get("rule")), text(change.get("node"))
        found[at] = min(found.get(at, verdict), verdict, key=_strength)
    return found


def _strength(verdict: str) -> int:
    return _PROOFS.index(verdict) if verdict in _PROOFS else -1


def _weaker(a: str, b: str) -> str:
    if min(map(_strength, (a, b))) < 0:
        return OTHER
    return WORSE if _strength(b) < _strength(a) else BETTER


def repair(a: OpenedReport, b: OpenedReport, judge: Judge) -> None:
    """The steps of the repair of accuracy, and what it changed."""
    steps = [r.by("step", "repair", "steps") for r in (a, b)]
    for name in dict.fromkeys([*steps[0], *steps[1]]):
        x, y = (found.get(name) for found in steps)
        judge.other(
            "step", *(None if step is None else text(step.get("verdict")) for step in (x, y)),
            name=name, why=text((y or x or {}).get("why")),
        )  # fmt: skip
        judge.figure("gain of the step", _gain(x), _gain(y), unit="dB", better=0, name=name)
    edits = [
        {(text(e.get("kind")), text(e.get("tensor"))) for e in r.entries("repair", "edits")} for r in (a, b)
    ]
    for kind, tensor in sorted(edits[0] ^ edits[1]):
        said = ("edited" if (kind, tensor) in found else None for found in edits)
        judge.other(kind, *said, name=tensor)
    for what, key in (("biases fitted", "biases"), ("weights rounded otherwise", "codes")):
        judge.count(what, *(number(r.at("repair", key)) for r in (a, b)))


def _gain(step: Mapping[str, Any] | None) -> float | None:
    """By how much a step that was kept is nearer, dB."""
    before, after = (number((step or {}).get(key)) for key in ("before_db", "after_db"))
    return None if before is None or after is None else after - before

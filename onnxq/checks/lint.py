"""What checks of the file alone find, most of it in its Q/DQ pairs, and what the engine says of that."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from onnxq.base.reason import noted
from onnxq.checks.answers import RepairedConstruct
from onnxq.checks.engine import Seen
from onnxq.checks.finding import Finding
from onnxq.checks.load import CHECKS, checks_that_need, finding, found_by
from onnxq.checks.subject import Subject, subject_of
from onnxq.compiled.kernels import kernels_of
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ
from onnxq.run.trt import Engine
from onnxq.targets import DEFAULT


def confirmed_lint(model: Model, target: str = DEFAULT, engine: Engine | None = None) -> list[Finding]:
    """All mistakes in and around the pairs of a model that the file shows, and what the engine says of them.

    Args:
        model: the model; its `limits` are those of the target.
        target: the target's name.
        engine: what came of compiling that model as it is; None: it was not, and confirms nothing.
    """
    subject = subject_of(model, target, None if engine is None else engine.sm)
    findings = found_by(checks_that_need("file", "pairs"), subject)
    return findings if engine is None else confirm(findings, subject, engine)


def advised(
    lint: Sequence[Finding], repairs: Sequence[RepairedConstruct]
) -> tuple[list[Finding], list[RepairedConstruct]]:
    """A mistake that both the lint and a rule know, once: as the lint has it, with the rule's advice.

    Returns:
        The findings; and the repairs that are of none of them.
    """
    advice = {repair.feature: repair.advice for repair in repairs if repair.rule.lacks}
    features = [(one.node, CHECKS[one.check].lacks) for one in lint]
    told = advice.keys() & features
    lacks = {feature for _, feature in told}  # of which rules repair what other rules made, too
    findings = [
        dataclasses.replace(one, advice=advice[feature]) if feature in told else one
        for one, feature in zip(lint, features, strict=True)
    ]
    made = [repair for repair in repairs if repair.node is not None or repair.rule.lacks not in lacks]
    return findings, [repair for repair in made if repair.feature not in told]


def lint_pairs(model: Model) -> list[Finding]:
    """Those about the Q/DQ nodes themselves that TensorRT refuses or misreads."""
    subject = subject_of(model, DEFAULT)
    errors = (one for one in checks_that_need("pairs") if one.severity == "error")
    found = (finding(fact) for one in errors for fact in one(subject))
    return [one for one in found if one.op in QDQ]


def confirm(findings: Iterable[Finding], subject: Subject, engine: Engine) -> list[Finding]:
    """The findings with what the engine says of them, and what only the engine shows.

    A finding that the engine contradicts becomes a note that says so; a note that it contradicts goes.

    Args:
        findings: of the lint of the model.
        subject: the model.
        engine: what came of compiling that model as it is.
    """
    listed = list(findings)
    if engine.status == "failed":
        return [_of_failure(one, engine) for one in listed]
    seen = seen_in(engine, subject, {one.node for one in listed})
    if seen is None:
        return listed
    judged = [_judged(one, seen) for one in listed]
    return [one for one in judged if one is not None] + found_by(checks_that_need("engine"), seen)


def seen_in(engine: Engine | None, subject: Subject, told: Iterable[str] = ()) -> Seen | None:
    """What an engine of a model shows; None where there is none. `told`: as `Seen.told`."""
    if engine is None or engine.status != "compiled" or not engine.layers:
        return None
    return Seen.of(subject, kernels_of(engine.layers), told)


def explains(findings: Iterable[Finding], said: str) -> bool:
    """Whether a finding says already what NVIDIA's parser or compiler says, without naming the node."""
    return any(one.confirmed and _says(said, one.check) for one in findings)


def _says(text: str, check: str) -> bool:
    pattern = CHECKS[check].parser
    return bool(pattern) and re.search(pattern, text) is not None


def _of_failure(one: Finding, engine: Engine) -> Finding:
    said = "\n".join([engine.reason, *(error.message for error in engine.errors), *engine.warnings])
    return dataclasses.replace(one, confirmed=True) if _says(said, one.check) else one


def _judged(one: Finding, seen: Seen) -> Finding | None:
    judge = CHECKS[one.check].judge
    verdict = judge(one, seen) if judge is not None else None
    if verdict is not False:
        return dataclasses.replace(one, confirmed=verdict)
    if one.severity == "note":
        return None
    consequence = noted("not-in-this-engine", consequence=one.consequence)
    return dataclasses.replace(one, severity="note", confirmed=False, consequence=consequence)

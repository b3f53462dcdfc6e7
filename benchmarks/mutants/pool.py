"""A pool of models that tells right mutants from those that nothing notices."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnx.parser

from benchmarks.mutants.answers import answer_of
from benchmarks.mutants.child import OTHERS, in_child, uncrashed
from benchmarks.mutants.generate import Mutant
from benchmarks.mutants.neighbours import neighbours
from onnxq.base.errors import OnnxqError
from onnxq.graph.model import Model
from onnxq.rewrite.engine import Prove, RewriteReport, rewrite
from onnxq.rewrite.whole import WholeModel
from onnxq.rule.api import (
    ANY,
    Example,
    Fires,
    Node,
    Rule,
)
from onnxq.rule.examples import opened


@dataclass(slots=True)
class Entry:
    """A model of the pool, and what a rule says of its nodes.

    Attributes:
        proto: the model.
        model: it, opened.
        example: what is stated beside it.
        nodes: those that the rule looks at.
        answers: what it says of each.
    """

    proto: onnx.ModelProto
    model: Model
    example: Example | None
    nodes: list[Node]
    answers: list[str]


def pool_of(rule: Rule, rules: Sequence[Rule]) -> list[Entry]:
    """Models on which a rule and its mutants are compared, with its own examples' neighbours among them."""
    small = [(proto, e) for e in rule.examples if (proto := _proto_of(e)).ByteSize() <= _BYTES]
    own = [(near, e) for proto, e in small for near in neighbours(proto)]
    own = own[:: -(-len(own) // _MOST) or 1]
    seeds = [(_proto_of(e), e) for other in rules for e in other.examples]
    random = [(proto, None) for proto in _random_models()] if rule.stage != "place" else []
    entries: list[Entry] = []
    seen: set[bytes] = set()
    # onnx and onnxruntime crash on some models that are wrong in one place
    for proto, example in [*seeds, *uncrashed(own, lambda one: _opened(rule, rules, *one)), *random]:
        key = proto.SerializeToString(deterministic=True)
        if key in seen or len(key) > _BYTES:
            continue
        seen.add(key)
        try:
            model = _opened(rule, rules, proto, example)
        except Exception:
            continue  # no model
        nodes = [Node(model, node) for graph in model.graphs() for node in graph.nodes]
        nodes = [
            n
            for n in nodes
            if (f"{n.domain}.{n.op}" if n.domain else n.op) in rule.roots or ANY in rule.roots
        ]
        if nodes:
            entries.append(Entry(proto, model, example, nodes, [answer_of(rule, node) for node in nodes]))
    return entries


def _opened(rule: Rule, rules: Sequence[Rule], proto: onnx.ModelProto, example: Example | None) -> Model:
    """A model as a rule sees it: behind the rules that an example names."""
    model = Model.open(proto)
    if example is not None:
        model.limits = {**model.limits, **example.limits}
        model.assumed.update(getattr(example, "assume", {}))
        before = [other for other in rules if other.id in example.after and other.id != rule.id]
        if before:
            rewrite(model, before, lambda feature: True, prove="never")
    return model


def _proto_of(example: Example) -> onnx.ModelProto:
    return onnx.parser.parse_model(example.model) if isinstance(example.model, str) else example.model()


@functools.cache
def _random_models() -> list[onnx.ModelProto]:
    """The graphs of tests/rewrite/test_random_graphs.py, or others like them."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "rewrite"))
    import random_models
    from hypothesis import HealthCheck, given, settings

    made: list[onnx.ModelProto] = []
    quiet = list(HealthCheck)
    run = settings(
        max_examples=_RANDOM, derandomize=True, database=None, deadline=None, suppress_health_check=quiet
    )
    run(given(random_models.models())(lambda model: made.append(model)))()
    return made


_MOST, _RANDOM, _BYTES, _REACHED, _WRONG = 600, 40, 1 << 15, 3, 1


def evidence_of(
    rule: Rule, mutant: Mutant, folder: Path, rules: Sequence[Rule], pool: Sequence[Entry]
) -> str:
    """What the pool says of a mutant that no example notices: begins with "right" where it shows it to be."""
    found = in_child(folder, rule, mutant.text, lambda broken: _compared(rule, broken, rules, pool))
    if found is None:
        return "does not end"
    if found["wrong"]:
        return "a model of the pool shows that it is wrong"
    if found["right"]:
        return f"right: another answer on {found['right']} models, proved on all of them"
    probe = mutant.probe()
    if probe:
        told = in_child(folder, rule, probe, lambda probed: _differing(probed, pool))
        if told is not None and told >= _REACHED:
            return f"right: other values on {told} models, the same answers on all {len(pool)}"
    return "nothing in the pool reaches it"


def _compared(rule: Rule, broken: Rule, rules: Sequence[Rule], pool: Sequence[Entry]) -> dict[str, Any]:
    """On which models a mutant is wrong, and on how many it is right in another way."""
    wrong: list[int] = []
    right = 0
    for index, entry in enumerate(pool):
        if [answer_of(broken, node) for node in entry.nodes] != entry.answers:
            found = _verdict(rule, broken, rules, entry)
            right += found is True
            if found is False:
                wrong.append(index)
                if len(wrong) >= _WRONG:
                    break
    return {"wrong": wrong, "right": right}


def _verdict(rule: Rule, broken: Rule, rules: Sequence[Rule], entry: Entry) -> bool | None:
    """Whether a mutant is right in a model; None where it does the same, or where there is no telling."""
    before = _run(rule, rules, entry, "never")
    if before is None or before[0].rejected:
        return None
    after = _run(broken, rules, entry, "never")
    if after is None or after[0].rejected:
        return False
    reports = (before[0], after[0])
    changed, broken_changed = ({change.node for change in report.changes} for report in reports)
    said, broken_said = ({miss.reason for miss in report.near_misses} for report in reports)
    if not changed <= broken_changed or not said <= broken_said | {""}:
        return False  # it does less, or says less
    if before[1] == after[1]:
        return None
    proved = _run(broken, rules, entry, "always")
    if proved is None or proved[0].rejected:
        return False
    proofs = [change.proof for change in proved[0].changes]
    if not all(p.holds and p.max_abs <= p.bound / 2 for p in proofs):
        return False
    again = Model.open(onnx.load_from_string(proved[1]))
    return not rewrite(again, [broken], lambda feature: True, prove="never").changes


def _run(rule: Rule, rules: Sequence[Rule], entry: Entry, prove: Prove) -> tuple[RewriteReport, bytes] | None:
    """Rewrites a model of the pool; None where onnxruntime does not load it, or the whole differs."""
    example = entry.example or Fires(lambda: entry.proto)
    try:
        model = opened(dataclasses.replace(example, model=lambda: entry.proto))
        model.assumed.update(getattr(example, "assume", {}))
        chosen = [rule, *(other for other in rules if other.id in example.after and other.id != rule.id)]
        whole = WholeModel(model) if prove != "never" else None
        report = rewrite(model, chosen, lambda feature: True, prove=prove, whole=whole)
    except OnnxqError:
        return None
    report.changes = [change for change in report.changes if change.rule == rule.id]
    return report, model.to_proto().SerializeToString(deterministic=True)


def _differing(probed: Rule, pool: Sequence[Entry]) -> int:
    """On how many models of the pool what a mutant changes has another value there."""
    count = 0
    for entry in pool:
        OTHERS.clear()
        for node in entry.nodes:
            answer_of(probed, node)
        count += bool(OTHERS)
    return count

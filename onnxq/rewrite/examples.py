"""Running a rule's examples: the built-in rules' in the tests, a user's with `onnxq rules test`."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
import onnx.parser

from onnxq.errors import OnnxqError
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.rewrite.engine import rewrite
from onnxq.rewrite.whole import WholeModel
from onnxq.rule.api import Example, Fires, Float, Rule, Skips
from onnxq.run import ort


class ExampleError(OnnxqError):
    """A rule does not do what its example says."""

    exit_code = 1


def check_rule(rule: Rule, rules: Sequence[Rule]) -> int:
    """Runs all examples of a rule.

    Args:
        rule: the rule.
        rules: all rules; an example may name some that run with it.

    Returns:
        How many examples it has.

    Raises:
        ExampleError: an example fails, or there is not at least one of each kind.
    """
    kinds = {type(example) for example in rule.examples}
    if kinds != {Fires, Skips}:
        raise ExampleError(f"rule {rule.id!r} needs at least one Fires and one Skips example")
    for number, example in enumerate(rule.examples):
        try:
            check_example(rule, example, rules)
        except OnnxqError as error:
            raise ExampleError(f"rule {rule.id!r}, example {number + 1}: {error}") from error
    return len(rule.examples)


def check_example(rule: Rule, example: Example, rules: Sequence[Rule]) -> None:
    """Runs one example of a rule.

    Raises:
        ExampleError: the rule fires where it should not or the other way round, its proof fails,
            another reason is given, or a second run changes something again.
    """
    model = _model(example)
    if rule.stage == "place":
        _check_placement(rule, example, model)
        return
    after = example.after if isinstance(example, Fires) else ()
    chosen = [rule, *(other for other in rules if other.id in after)]
    if isinstance(example, Fires):
        model.assumed.update(example.assume)
    report = rewrite(model, chosen, lambda feature: True, whole=WholeModel(model))
    fired = [change for change in report.changes if change.rule == rule.id]
    if report.rejected:
        raise ExampleError(f"its proof fails: {report.rejected[0].proof.why}")
    if isinstance(example, Skips):
        reasons = [miss.reason for miss in report.near_misses]
        if fired:
            raise ExampleError(f"it fires on {fired[0].node!r}")
        if example.because and not any(example.because in reason for reason in reasons):
            raise ExampleError(f"{example.because!r} is not among its reasons: {reasons}")
        return
    if not fired:
        reasons = [miss.reason for miss in report.near_misses]
        raise ExampleError(f"it does not fire{f': {reasons[0]}' if reasons else ''}")
    unproved = [change for change in fired if not change.proof.holds]
    if unproved:
        raise ExampleError(f"its change is not proved: {unproved[0].proof.why}")
    left = {node.op for graph in model.graphs() for node in graph.nodes}
    if example.gone in left:
        raise ExampleError(f"{example.gone} is still there")
    again = rewrite(Model.open(model.to_proto()), chosen, lambda feature: True, prove="never")
    if again.changes:
        raise ExampleError(f"a second run fires again, on {again.changes[0].node!r}")


def _check_placement(rule: Rule, example: Example, model: Model) -> None:
    nodes = [Node(model, node) for node in model.graph.nodes]
    facts = [fact for node in nodes if node.op in rule.roots for fact in rule(node)]
    wishes = [fact for fact in facts if not isinstance(fact, Float)]
    if isinstance(example, Fires) and not wishes:
        raise ExampleError("it asks for nothing")
    if isinstance(example, Skips):
        if wishes:
            raise ExampleError(f"it asks for {wishes[0]}")
        reasons = [fact.because for fact in facts if isinstance(fact, Float)]
        if example.because and not any(example.because in reason for reason in reasons):
            raise ExampleError(f"{example.because!r} is not among its reasons: {reasons}")


def _model(example: Example) -> Model:
    source = example.model
    proto = onnx.parser.parse_model(source) if isinstance(source, str) else source()
    ort.load(proto, optimize=False)  # an example must be a model that runs
    model = Model.open(proto)
    model.runtime = ort.evaluate
    model.limits = {**model.limits, **example.limits}
    return model

"""Running an example of a rule that changes the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnxq.base.errors import unknown_name
from onnxq.base.reason import code_of
from onnxq.graph.model import Model
from onnxq.graph.value import operator_names
from onnxq.graph.view import every_node
from onnxq.rewrite.claim import claim_of
from onnxq.rewrite.engine import AT_FAULT, rewrite
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.text import same_text, text_of
from onnxq.rewrite.whole import WholeModel
from onnxq.rule.api import ANY, Assuming, Example, Fires, Interface, Rule, Skip, Skips
from onnxq.rule.examples import ExampleError, check_reasons, opened


def check_rewrite(rule: Rule, example: Example, rules: Sequence[Rule]) -> None:
    """Runs one example of a rule that is no placement rule.

    Raises:
        ExampleError: the rule fires where it should not or the other way round, its proof fails,
            another reason is given, the graph is another one afterwards, or a second run changes
            something again.
    """
    model = opened(example)
    before = model.to_proto()
    _check_stated(example, model)
    chosen = [rule, *(other for other in rules if other.id in example.after)]
    if isinstance(example, Fires):
        model.assumed.update(example.assume)
    report = rewrite(model, chosen, lambda feature: True, whole=WholeModel(model), interface=True)
    fired = [change for change in report.changes if change.rule == rule.id]
    if report.rejected:
        proof = report.rejected[0].proof
        example_text = (
            f"\n{proof.example.text}" if isinstance(proof, Proof) and proof.example is not None else ""
        )
        what = "" if code_of(proof.why) == AT_FAULT else "its proof fails: "
        raise ExampleError(f"{what}{proof.why}{example_text}")
    if isinstance(example, Skips):
        if fired:
            raise ExampleError(f"it fires on {fired[0].node!r}")
        check_reasons(example, [(miss.node, miss.reason) for miss in report.near_misses])
        return
    if not fired:
        reasons = [miss.reason for miss in report.near_misses]
        raise ExampleError(f"it does not fire{f': {reasons[0]}' if reasons else ''}")
    unproved = [change for change in fired if not change.proof.holds]
    if unproved:
        raise ExampleError(f"its change is not proved: {unproved[0].proof.why}")
    left = {node.op for node in every_node(model)}
    if example.gone in left:
        raise ExampleError(f"{example.gone} is still there")
    if example.becomes:
        lines = text_of(model.to_proto(), before)
        if not same_text("\n".join(lines), example.becomes):
            stated = "; ".join(line.strip() for line in example.becomes.splitlines())
            raise ExampleError(f"it becomes\n{'; '.join(lines)}\nand the example says\n{stated}")
    if rule.stage == "compat":
        _check_done(rule, model)
    again = rewrite(_as_if_new(model), chosen, lambda feature: True, prove="never")
    if again.changes:
        raise ExampleError(f"a second run fires again, on {again.changes[0].node!r}")


def _check_stated(example: Example, model: Model) -> None:
    """Refuses an example that speaks of what is not there.

    Raises:
        OnnxqError: no operator has the name of the one that is to go, or no dimension that of an assumed one.
    """
    if isinstance(example, Skips):
        return
    operators = {node.op for node in every_node(model)}
    if example.gone is not None and example.gone not in operators | operator_names():
        raise unknown_name("operator", example.gone, operators | operator_names())
    dims = {dim for one in model.inputs for dim in one.shape or () if isinstance(dim, str)}
    for name in example.assume:
        if name not in dims:
            raise unknown_name("dimension of an input", name, dims)


def _check_done(rule: Rule, model: Model) -> None:
    """Looks for a node that a rule was to repair and that is still there: it answers, and an output is read.

    A node that a `clean` rule takes one output of may stay for another; what a target lacks may not.

    Raises:
        ExampleError: there is one.
    """
    for node in every_node(model):
        if ANY not in rule.roots and node.operator not in rule.roots:
            continue
        try:
            answer = rule(node)
        except Skip:
            continue
        if isinstance(answer, Assuming):
            answer = answer.results
        answer = claim_of(answer)[1]
        if answer is None or isinstance(answer, Interface):
            continue
        answered = set(answer) if isinstance(answer, Mapping) else {0}
        read = {i for i, tensor in enumerate(node.outputs) if tensor.users or tensor.is_output}
        rest = f"output {', '.join(map(str, sorted(read - answered)))}"
        raise ExampleError(
            f"it fires again on {node.name!r}, which stays: it gives no value for {rest}, which is read"
        )


def _as_if_new(model: Model) -> Model:
    """A model as it is after it was saved and opened, for the same target."""
    new = Model.open(model.to_proto())
    new.runtime, new.limits, new.formats = model.runtime, model.limits, model.formats
    new.assumed.update(model.assumed)
    return new

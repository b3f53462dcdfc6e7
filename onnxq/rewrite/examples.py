"""Running an example of a rule that changes the graph."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.graph.model import Model
from onnxq.rewrite.engine import rewrite
from onnxq.rewrite.text import same_text, text_of
from onnxq.rewrite.whole import WholeModel
from onnxq.rule.api import Example, Fires, Rule, Skips
from onnxq.rule.examples import ExampleError, opened


def check_rewrite(rule: Rule, example: Example, rules: Sequence[Rule]) -> None:
    """Runs one example of a rule that is no placement rule.

    Raises:
        ExampleError: the rule fires where it should not or the other way round, its proof fails,
            another reason is given, the graph is another one afterwards, or a second run changes
            something again.
    """
    model = opened(example)
    before = model.to_proto()
    chosen = [rule, *(other for other in rules if other.id in example.after)]
    if isinstance(example, Fires):
        model.assumed.update(example.assume)
    report = rewrite(model, chosen, lambda feature: True, whole=WholeModel(model))
    fired = [change for change in report.changes if change.rule == rule.id]
    if report.rejected:
        proof = report.rejected[0].proof
        found = f"\n{proof.example.text}" if proof.example is not None else ""
        raise ExampleError(f"its proof fails: {proof.why}{found}")
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
    if example.becomes:
        lines = text_of(model.to_proto(), before)
        if not same_text("\n".join(lines), example.becomes):
            stated = "; ".join(line.strip() for line in example.becomes.splitlines())
            raise ExampleError(f"it becomes\n{'; '.join(lines)}\nand the example says\n{stated}")
    again = rewrite(Model.open(model.to_proto()), chosen, lambda feature: True, prove="never")
    if again.changes:
        raise ExampleError(f"a second run fires again, on {again.changes[0].node!r}")

"""Running rules' examples: the built-in rules' in the tests, a user's with `onnxq rules test`."""

from __future__ import annotations

from collections.abc import Sequence

from onnxq.errors import OnnxqError
from onnxq.quant.examples import check_placement
from onnxq.rewrite.examples import check_rewrite
from onnxq.rule.api import Example, Fires, Rule, Skips
from onnxq.rule.examples import ExampleError


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
    """Runs one example of a rule, by its stage.

    Raises:
        ExampleError: the rule does not do what the example says.
    """
    (check_placement if rule.stage == "place" else check_rewrite)(rule, example, rules)

"""What a rule says of itself, checked when it is loaded."""

from __future__ import annotations

import re

from onnxq.base.errors import UserError, nearest
from onnxq.graph.features import FEATURES
from onnxq.graph.value import operator_names
from onnxq.rule.api import ANY, STAGES, Fires, Rule, Skips
from onnxq.targets import stated_features


def check_rule(rule: Rule) -> None:
    """Refuses a rule that would never be asked.

    Raises:
        UserError: it is one, with the rule's name and file.
    """
    where = f"rule {rule.id!r} (in {rule.path or 'no file'})"
    if not rule.roots:
        raise UserError(f"{where} looks at no operator", hint="name them: @rule('Clip', stage='compat')")
    if rule.stage not in STAGES:
        raise UserError(
            f"{where} has the stage {rule.stage!r}: it would never be asked",
            hint=f"{nearest(rule.stage, STAGES)} The stages are {', '.join(STAGES)}".strip(),
        )
    for root in rule.roots:
        domain = root.rpartition(".")[0]
        if rule.stage == "place" and (domain or root == ANY):
            what = "every operator" if root == ANY else f"an operator of domain {domain!r}"
            raise UserError(
                f"{where} is a placement rule for {root!r}, {what}: it would never be asked",
                hint="placement rules name operators of ONNX's own domain: @place('Add', 'Mul')",
            )
        if root != ANY and (domain or root not in operator_names()) and not _is_in_an_example(rule, root):
            whose = "its examples have" if domain else "ONNX has"
            raise UserError(
                f"{where} looks at {root!r}: {whose} no such operator, it would never be asked",
                hint=nearest(root, operator_names()) or "one that is not ONNX's own must be in an example",
            )
    features = stated_features() | FEATURES
    if rule.lacks is not None and rule.lacks not in features and rule.lacks not in operator_names():
        hint = nearest(rule.lacks, features) or "see onnxq/targets/*.toml"
        raise UserError(
            f"{where} waits for a target that lacks {rule.lacks!r}: no target's table names that, it would "
            "never fire",
            hint=f"{hint} Without `lacks` the rule is always on",
        )


def _is_in_an_example(rule: Rule, root: str) -> bool:
    """Whether an example holds an operator that is not ONNX's own, as far as they are texts."""
    domain, _, name = root.rpartition(".")
    texts = [example.model for example in rule.examples if isinstance(example, Fires | Skips)]
    if domain and not texts:
        return True  # a rule in the making
    return any(not isinstance(text, str) or re.search(rf"\b{re.escape(name)}\b", text) for text in texts)

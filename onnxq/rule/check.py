"""What a rule says of itself, checked when it is loaded."""

from __future__ import annotations

import onnx

from onnxq.errors import UserError, nearest
from onnxq.graph.features import FEATURES
from onnxq.rule.api import ANY, Rule
from onnxq.target import stated_features


def check_rule(rule: Rule) -> None:
    """Refuses a rule that would never be asked.

    Raises:
        UserError: it is one, with the rule's name and file.
    """
    where = f"rule {rule.id!r} (in {rule.path or 'no file'})"
    if not rule.roots:
        raise UserError(f"{where} looks at no operator", hint="name them: @rule('Clip', stage='compat')")
    for root in rule.roots:
        domain = root.rpartition(".")[0]
        if rule.stage == "place" and (domain or root == ANY):
            what = "every operator" if root == ANY else f"an operator of domain {domain!r}"
            raise UserError(
                f"{where} is a placement rule for {root!r}, {what}: it would never be asked",
                hint="placement rules name operators of ONNX's own domain: @place('Add', 'Mul')",
            )
    known = stated_features() | FEATURES
    if rule.lacks is not None and rule.lacks not in known and not _is_operator(rule.lacks):
        hint = nearest(rule.lacks, known) or "see onnxq/targets/*.toml"
        raise UserError(
            f"{where} waits for a target that lacks {rule.lacks!r}: no target's table names that, it would "
            "never fire",
            hint=f"{hint} Without `lacks` the rule is always on",
        )


def _is_operator(name: str) -> bool:
    """Whether ONNX has or had an operator of this name."""
    return any(s.name == name and not s.domain for s in onnx.defs.get_all_schemas_with_history())

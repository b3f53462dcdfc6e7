"""Onnxq's checks: every check that a file of `each/` holds. There is no other list of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnxq.base.catalogue import Fact
from onnxq.base.registry import of_package
from onnxq.checks import each
from onnxq.checks.api import Check, Need
from onnxq.checks.finding import Finding

ORDER = (
    # the target, onnxruntime and NVIDIA's compiler
    "unsupported", "repairable", "plugin", "runtime", "parser", "dla",
    # pairs
    "int32-dequantize", "zero-point", "uint8", "no-zero-point", "16-bit", "scale-sign", "computed-scale",
    "number-format", "one-element-scale", "scale-types", "fp16-scale", "fp16-product", "activation-axis",
    "weight-axis", "weight-blocks", "weights-only", "input-only", "half-product", "concat-scales",
    "half-attention", "attention-size", "ignored-pairs", "padded-groups", "few-rows", "idle-pair",
    "quantized-output", "residual-view", "cumsum-settings", "if-transposed", "deformable-samples",
    "reduced-attention", "not-measured",
    # causes: of each tensor the first that applies is told
    "boxes-with-scores", "concat-ranges", "shared-scale", "bimodal", "scale-misfit", "far-range",
    "outlier-channel",
    # what else data show
    "unfused", "add-ranges", "weight-scale", "heavy-float", "coarse-output", "odd-type", "few-samples",
    "doubtful-data",
)  # fmt: skip
"""In which order findings of one severity are told. What does not stand here comes behind, by name."""


def read_checks() -> dict[str, Check]:
    """The checks of all files by name, in their order."""
    checks = of_package(each.__name__, Check)
    places = {name: place for place, name in enumerate(ORDER)}
    return dict(sorted(checks.items(), key=lambda item: (places.get(item[0], len(ORDER)), item[0])))


CHECKS: Mapping[str, Check] = read_checks()
"""Every check of onnxq's by name."""


def checks_that_need(*needs: Need) -> list[Check]:
    """Those of them that need one of these, in their order."""
    return [one for one in CHECKS.values() if one.needs in needs]


def finding(fact: Fact) -> Finding:
    """A fact as a finding of the check whose row it is.

    Raises:
        KeyError: there is no such check or row, or its texts name a value that the fact has not.
    """
    return CHECKS[fact.row].finding(fact)


def found_by(asked: Iterable[Check], needed: Any) -> list[Finding]:
    """What checks find. A fault of onnxq in one of them is a note, and costs none of the others.

    Args:
        asked: the checks, in their order.
        needed: what all of them need.
    """
    findings: list[Finding] = []
    tensors: set[str] = set()
    for check in asked:
        try:
            new = [finding(fact) for fact in check(needed)]
        except Exception as error:  # of ours
            values = {"check": check.name, "error": f"{type(error).__name__}: {error}"}
            new = [finding(Fact("failed-check", values=values))]
        if check.is_cause:
            new = [one for one in new if not one.tensor or one.tensor not in tensors]
            tensors |= {one.tensor for one in new}
        findings += new
    return findings

"""Checks: what is looked for in a model. A check is one file: onnxq's in `each/`, yours anywhere.

    from onnxq.checks import Said, Subject, check

    @check("no-bias", "a Conv without a bias", needs="file", severity="note")
    def no_bias(subject: Subject):
        for node in subject.nodes:
            if node.op == "Conv" and len(node.inputs) < 3:
                yield Said(node.name, node.op, "it has no bias", "train it with one")

Onnxq's give a `Fact` in the place of `Said`: the catalogue has its words. This is what such files import.
`api.py` says what a check is, `load.py` finds onnxq's, `own.py` the user's.
"""

from __future__ import annotations

from onnxq.base.catalogue import Fact
from onnxq.checks.api import NEEDS, Check, Need, Said, check, stated
from onnxq.checks.engine import Seen
from onnxq.checks.evidence import Evidence, keep_float
from onnxq.checks.subject import Product, Subject

__all__ = [
    "NEEDS",
    "Check",
    "Evidence",
    "Fact",
    "Need",
    "Product",
    "Said",
    "Seen",
    "Subject",
    "check",
    "keep_float",
    "stated",
]
